package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/gameday"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/scenarios"
)

// drillsEnv asks for more than the short scenarios: "all" of them at their scale, or those of the profiles at "full" scale.
// LOCKDRILL_TEST_ONLY narrows both to names that contain it.
const (
	drillsEnv = "LOCKDRILL_TEST_DRILLS"
	onlyEnv   = "LOCKDRILL_TEST_ONLY"
)

// Every shipped scenario ends as its first lines say.
func TestLiveScenariosEndAsTheySay(t *testing.T) {
	t.Parallel()
	short := []string{"cordum-snapshot-writer"} // the others together take minutes; all are rehearsed in drill/rehearsal
	for _, s := range scenarios.List() {
		switch asked := os.Getenv(drillsEnv); {
		case asked == "all" && !strings.Contains(s.Name, os.Getenv(onlyEnv)):
			continue
		case asked != "all" && (asked != "" || testing.Short() || !slices.Contains(short, s.Name)):
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			needsMore(t, s)
			t.Parallel()
			drillEndsWith(t, s.Expect, 4*time.Minute, "run", s.Name)
		})
	}
}

// needsMore skips a scenario that asks for more than this machine.
func needsMore(t *testing.T, s scenarios.Info) {
	t.Helper()
	if s.Needs != "" {
		t.Skipf("SKIPPED, NOT RUN: %s needs %s; make e2e-kube drills a real cluster", s.Name, s.Needs)
	}
}

// The scenario of each shipped profile holds at the published numbers too: one shot of each fault, at time scale 1.
func TestScenariosAtFullScale(t *testing.T) {
	onlyFor(t, drillsEnv, "full", "runs the profiles' scenarios in real time: an hour and a half")
	for _, profile := range experiments.ProfileNames() {
		name := strings.ReplaceAll(profile, "/", "-")
		if !strings.Contains(name, os.Getenv(onlyEnv)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range scenarios.List() {
				if s.Name == name {
					needsMore(t, s)
				}
			}
			drillEndsWith(t, verdict.ExitPass, 90*time.Minute, "run", fullScale(t, name))
		})
	}
}

// fullScale writes a scenario with time scale 1 and one shot of each fault, and returns its file.
func fullScale(t *testing.T, name string) string {
	t.Helper()
	data, ok := scenarios.Get(name)
	if !ok {
		t.Fatalf("no scenario is called %s", name)
	}
	e, err := experiments.Parse(name+".yaml", data)
	must(t, err)
	e.TimeScale = 1
	e.SteadyState.Timeout, e.Limits.MaxRun = 30*time.Minute, time.Hour
	for i := range e.Faults {
		e.Faults[i].Repeat.Count = 1
	}
	if data, err = experiments.Marshal(e); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	write(t, file, data)
	return file
}

// Each profile has a scenario of its own name, which drills just that profile.
func TestEveryProfileHasAScenario(t *testing.T) {
	t.Parallel()
	for _, profile := range experiments.ProfileNames() {
		name := strings.ReplaceAll(profile, "/", "-")
		data, ok := scenarios.Get(name)
		if !ok {
			t.Errorf("no scenario is called %s", name)
			continue
		}
		e, err := experiments.Parse(name, data)
		must(t, err)
		if len(e.System.Locks) != 1 || e.System.Locks[0].Profile != profile {
			t.Errorf("%s drills %+v", name, e.System.Locks)
		}
		if _, err := experiments.Load(fullScale(t, name)); err != nil {
			t.Errorf("%s at full scale: %v", name, err)
		}
	}
}

// tooBusy reports a run that broke nothing, and of which every row that has no answer lacks it since the machine was late.
func tooBusy(dir string) bool {
	var j verdict.Judgement
	data, err := os.ReadFile(filepath.Join(dir, verdictFile))
	if err != nil || json.Unmarshal(data, &j) != nil || len(j.Missing) > 0 {
		return false
	}
	unanswered := 0
	for _, row := range slices.Concat(j.SLOs, j.Expected) {
		if row.Verdict == verdict.Pass {
			continue
		}
		unanswered++
		if row.Verdict != verdict.Inconclusive || len(row.Missing) == 0 || slices.ContainsFunc(row.Missing, func(m verdict.Missing) bool { return !m.Code.OfMachine() }) {
			return false
		}
	}
	return unanswered > 0
}

// skipIfTooLate ends a test whose drill was to pass, and lacks nothing but a machine in time.
func skipIfTooLate(t *testing.T, code int, dir string) {
	t.Helper()
	if code == verdict.ExitInconclusive && tooBusy(dir) {
		t.Skip("NOT SHOWN: this machine was too late for what is drilled; no row is broken")
	}
}

// skipIfTooBusy ends a test whose drill was refused for the time scale alone.
func skipIfTooBusy(t *testing.T, code int, said string) {
	t.Helper()
	if code == verdict.ExitRefused && strings.Contains(said, "or run it when the machine is less busy") {
		t.Skipf("NOT SHOWN: this machine was too busy for the drill's time scale\n%s", said)
	}
}

// drillEndsWith runs the binary and holds its exit status against code; a run that is still going at the limit is ended.
func drillEndsWith(t *testing.T, code int, limit time.Duration, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := lockdrill(args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &stdout, &stderr
	must(t, cmd.Start())
	watch := time.AfterFunc(limit, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer watch.Stop()
	start := time.Now()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	t.Logf("%.1fs", time.Since(start).Seconds())
	got := cmd.ProcessState.ExitCode()
	skipIfTooBusy(t, got, stderr.String())
	dir := filepath.Join(cmd.Dir, "runs", "latest")
	if i := slices.Index(args, "--out"); i >= 0 {
		dir = args[i+1]
	}
	if code == verdict.ExitPass {
		skipIfTooLate(t, got, dir)
	}
	if got != code {
		t.Errorf("lockdrill %s ended with %d, want %d\n%s\n%s", strings.Join(args, " "), got, code, stdout.String(), stderr.String())
	}
}

// One mutant of each scenario's subject, live: what the drill is about is not there, so it must not end as if it were. All of them are
// rehearsed in drill/rehearsal.
func TestNoScenarioIsGreenLiveWithAMutantOfItsSubject(t *testing.T) {
	onlyFor(t, drillsEnv, "mutants", "runs a mutant of each scenario in real time: a quarter of an hour")
	data := read(t, "../../../scenarios/testdata/mutants.yaml")
	var all []struct {
		Scenario string
		Mutants  []struct {
			Says, Replace, With string
			Live                bool
		}
	}
	must(t, yaml.Unmarshal(data, &all))
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
				dir := folder(t, "mutant.yaml", strings.ReplaceAll(string(text), m.Replace, m.With))
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

const shortDay = `apiVersion: lockdrill/v1
kind: GameDay
name: short
hypothesis: h
owner: Ada
stop_criterion: never
steps:
  - {name: look, manual: look, optional: true}
  - {name: drill, drill: good.yaml}
`

// A day whose leader is killed in the middle of a drill goes on: the drill is undone and run again, what was done is not.
func TestLiveGameDayIsResumed(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	dir := t.TempDir()
	day := filepath.Join(dir, "day")
	for name, text := range map[string]string{"good.yaml": goodDrill, "day.yaml": shortDay} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	cmd := lockdrill("run", "day.yaml", "--out", "day", "--who", "ada")
	cmd.Dir = dir
	must(t, cmd.Start())
	until(t, "the drill", inFile(func() string { return filepath.Join(day, "02-drill", historyFile) }, "the-loop"))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	write(t, filepath.Join(dir, "other.yaml"), []byte(shortDay+"\n"))
	tryIn(t, dir, "run", "other.yaml", "--resume", "day").ends(t, verdict.ExitUsage, "another sheet")
	got := tryIn(t, dir, "run", "day.yaml", "--resume", "day", "--who", "ben")
	var doc gameday.Document
	data, err := os.ReadFile(filepath.Join(day, gameday.JSONFile))
	if err != nil || json.Unmarshal(data, &doc) != nil || doc.SchemaVersion != 1 || len(doc.Steps) != 2 {
		t.Fatalf("%v: %s\n%+v", err, data, got)
	}
	look, drill := doc.Steps[0], doc.Steps[1]
	if got.code != doc.ExitCode || got.code != verdict.WorstExit(verdict.ExitInconclusive, *drill.ExitCode) {
		t.Errorf("status %d, %+v", got.code, doc)
	}
	if look.Outcome != gameday.StepSkipped || look.Who != "ada" || drill.Outcome != gameday.StepDone || drill.Who != "ben" || len(drill.Aborted) != 1 || len(doc.Figures) == 0 {
		t.Errorf("%s", data)
	}
	if _, err := os.Stat(filepath.Join(day, drill.Folder, "report.html")); err != nil || drill.Folder == drill.Aborted[0] {
		t.Errorf("the page of the run: %v", err)
	}
	tryIn(t, dir, "recover", filepath.Join("day", drill.Aborted[0])).ends(t, verdict.ExitPass)
	write(t, filepath.Join(day, gameday.NotesFile), []byte("the pager |\nwas <silent>\n\neve was there\n"))
	tryIn(t, dir, "judge", "day").ends(t, doc.ExitCode)
	for _, name := range []string{gameday.PageFile, gameday.TextFile, gameday.JSONFile} {
		if text := string(read(t, filepath.Join(day, name))); !strings.Contains(text, "eve") || strings.Contains(text, "<silent>") && name == gameday.PageFile {
			t.Errorf("%s does not have the note", name)
		}
	}
}
