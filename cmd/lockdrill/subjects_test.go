package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// One mutant of each scenario's subject, live: what the drill is about is not there, so it must not end as if it were. All of them are
// rehearsed in experiments/rehearsal.
func TestNoScenarioIsGreenLiveWithAMutantOfItsSubject(t *testing.T) {
	if os.Getenv(drillsEnv) != "mutants" {
		t.Skipf("%s=mutants runs a mutant of each scenario in real time: a quarter of an hour", drillsEnv)
	}
	data := read(t, "../../scenarios/testdata/mutants.yaml")
	var all []struct {
		Scenario string
		Mutants  []struct {
			Says, Replace, With string
			Live                bool
		}
	}
	if err := yaml.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	healthy := map[string]scenarios.Info{}
	for _, s := range scenarios.List() {
		healthy[s.Name] = s
	}
	ran := 0
	for _, s := range all {
		if !strings.Contains(s.Scenario, os.Getenv(onlyEnv)) || healthy[s.Scenario].Needs != "" {
			continue
		}
		for _, m := range s.Mutants {
			if !m.Live {
				continue
			}
			ran++
			t.Run(s.Scenario, func(t *testing.T) {
				text, _ := scenarios.Get(s.Scenario)
				code, out := mutantEnds(t, strings.ReplaceAll(string(text), m.Replace, m.With))
				t.Logf("%s: %d", m.Says, code)
				asToFail := healthy[s.Scenario].Expect == verdict.ExitSLOFailed && code == verdict.ExitSLOFailed && !strings.Contains(out, "did not provoke")
				if code == verdict.ExitPass || asToFail || code != verdict.ExitSLOFailed && code != verdict.ExitInconclusive {
					t.Errorf("%s: exit status %d\n%s", m.Says, code, out)
				}
			})
		}
	}
	if ran == 0 {
		t.Error("no mutant was run")
	}
}

// mutantEnds runs a changed scenario.
func mutantEnds(t *testing.T, text string) (code int, out string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mutant.yaml")
	write(t, file, []byte(text))
	var all bytes.Buffer
	cmd := lockdrill("run", file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &all, &all
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer watch.Stop()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), all.String()
}
