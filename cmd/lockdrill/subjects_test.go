package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
				dir := t.TempDir()
				write(t, filepath.Join(dir, "mutant.yaml"), []byte(strings.ReplaceAll(string(text), m.Replace, m.With)))
				got := finish(t, dir, lockdrill("run", "mutant.yaml"))
				code, out := got.code, got.stdout+got.stderr
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
