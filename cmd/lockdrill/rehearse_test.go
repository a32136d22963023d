package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/scenarios"
)

// A promise that no kill can keep is breached in every seed; one that may be breached as often is not the gate's business.
func TestRehearseSaysHowLikelyABreachIs(t *testing.T) {
	t.Parallel()
	got := try(t, "rehearse", "too-tight-slo", "--seeds", "20")
	if got.code != verdict.ExitSLOFailed || !strings.Contains(got.stdout, "REHEARSAL") || strings.Count(got.stdout, "20 of 20") != 2 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	try(t, "rehearse", "too-tight-slo", "--seeds", "20", "--fail-above", "1").ends(t, verdict.ExitPass)
	got = try(t, "rehearse", "first-drill", "--seeds", "10", "-f", "json")
	var doc forecast.Rehearsal
	unmarshal(t, got.stdout, &doc)
	if got.code != verdict.ExitPass || !doc.Rehearsal || doc.Seeds != 10 || doc.Breach != 0 || len(doc.Rows) != 11 || doc.Worst == nil || len(doc.Locks) != 2 {
		t.Errorf("%d, %+v", got.code, doc)
	}
}

// One seed is written as a run's folder: the same history each time, which judge reads, and which never counts as a live run.
func TestReplayWritesARun(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	args := []string{"rehearse", "first-drill", "--replay", "4", "--out", "a"}
	tryIn(t, work, args...).ends(t, verdict.ExitPass, "REHEARSAL")
	if got := tryIn(t, work, append(args[:5:5], "b")...); got.code != verdict.ExitPass || !bytes.Equal(read(t, filepath.Join(work, "a", historyFile)), read(t, filepath.Join(work, "b", historyFile))) {
		t.Errorf("the same seed gives another history: %+v", got)
	}
	before := read(t, filepath.Join(work, "a", verdictFile))
	got := tryIn(t, work, "judge", "a")
	if got.code != verdict.ExitInconclusive || !bytes.Equal(read(t, filepath.Join(work, "a", verdictFile)), before) {
		t.Errorf("judge: %+v", got)
	}
	tryIn(t, work, args...).ends(t, verdict.ExitUsage)
}

// The command that shows a seed again repeats the values that were given, so that it shows the same drill.
func TestRehearseSaysAgainWhatWasSet(t *testing.T) {
	t.Parallel()
	got := try(t, "rehearse", "first-drill", "--seeds", "1", "--set", "slos.0.takeover.max=4s", "--set", "description=it's late")
	flat := strings.Join(strings.Fields(got.stdout), " ")
	if want := `lockdrill rehearse first-drill --set slos.0.takeover.max=4s --set 'description=it'\''s late' --replay 1`; !strings.Contains(flat, want) {
		t.Errorf("%q is not in %+v", want, got)
	}
}

// A folder that was filled in part looks like a run: nothing of it stays.
func TestARehearsalThatCannotBeWrittenLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	must(t, os.Mkdir(dir, 0o755))
	err := writeRecorded(dir, []byte("x"), &history.History{}) // its header is refused once the file is there
	if _, stat := os.Stat(dir); err == nil || !strings.HasPrefix(err.Error(), dir+": ") || !errors.Is(stat, fs.ErrNotExist) {
		t.Errorf("%v, and the folder: %v", err, stat)
	}
}

// Of two rehearsals that are given the same folder at the same time, the second is refused and leaves the first one's files alone.
func TestARehearsalLeavesAnothersFolderAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{historyFile, experimentFile} {
		write(t, filepath.Join(dir, name), []byte("theirs"))
	}
	if err := writeRecorded(dir, []byte("ours"), &history.History{}); codeOf(err) != verdict.ExitUsage {
		t.Errorf("%d, %v", codeOf(err), err)
	}
	for _, name := range []string{historyFile, experimentFile} {
		if got := string(read(t, filepath.Join(dir, name))); got != "theirs" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What a plan says of a shipped scenario is what its rehearsal says beside the simulated runs and what the judge prints beside a run, and
// no simulated takeover by a kill speaks against it.
func TestLivePlanRehearsalAndJudgeGiveTheSameFigures(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, info := range scenarios.List() {
		data, _ := scenarios.Get(info.Name)
		e, err := experiments.Parse(info.Name+".yaml", data)
		must(t, err)
		rehearsed := try(t, "rehearse", info.Name, "--seeds", "2", "-f", "json")
		if rehearsed.stdout == "" { // such as a system of somebody's own
			continue
		}
		var doc forecast.Rehearsal
		unmarshal(t, rehearsed.stdout, &doc)
		plan, bands := forecast.PlanOf(e), forecast.Bands(e, 0)
		if len(plan.LockSums) != len(doc.Locks) || len(bands) != len(doc.Locks) {
			t.Fatalf("%s: %d, %d and %d locks", info.Name, len(plan.LockSums), len(bands), len(doc.Locks))
		}
		for i, planned := range plan.LockSums {
			l := doc.Locks[i]
			seeds := l.Seeds
			if l.Seeds = nil; !reflect.DeepEqual(planned, l) {
				t.Errorf("%s, %s: the plan says %+v, the rehearsal %+v", info.Name, planned.Lock, planned, l)
			}
			if bands[i].Lo != planned.Takeover.Lo || bands[i].Hi != planned.Takeover.Hi {
				t.Errorf("%s, %s: the plan says %+v, the judge %+v", info.Name, planned.Lock, planned.Takeover, bands[i])
			}
			for k, p := range planned.Promises {
				met := seeds.Met[k].Share
				if met != nil && seeds.Open == 0 && (!p.Luck && *met < 1 || p.Value < planned.Takeover.Lo && *met > 0) {
					t.Errorf("%s, %s: %s %gs, %+v: %g of the simulated takeovers meet it", info.Name, planned.Lock, p.Limit, p.Value, p, *met)
				}
			}
			compared++
		}
	}
	if compared < 20 {
		t.Errorf("%d locks compared", compared)
	}
}

// A drill that cannot be answered by its own times, or whose faults cannot provoke what it expects of them, is no success before it has run,
// whoever is asked.
func TestADrillThatCannotBeAnsweredIsNoSuccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	drill, ok := scenarios.Get("first-drill")
	if !ok {
		t.Fatal("first-drill is not shipped")
	}
	short := strings.Replace(string(drill), "limits: {max_run: ", "limits: {max_run: 3s} # ", 1)
	if short == string(drill) {
		t.Fatal("first-drill has no max_run to shorten")
	}
	write(t, filepath.Join(dir, "short.yaml"), []byte(short))
	healthy, _ := scenarios.Get("cordum-scheduler-job")
	write(t, filepath.Join(dir, "mutant.yaml"), []byte(edit(t, string(healthy), "cordum/scheduler-job}", "cordum/scheduler-job, class: legacy_warn}")))
	write(t, filepath.Join(dir, "lockless.yaml"), []byte(`apiVersion: lockdrill/v1
kind: Experiment
name: mails
system:
  mode: observe
  replicas: 2
  processes: {pid_files: "/run/mailer/{name}.pid"}
  effects:
    - {name: mails, file: "/var/log/mailer/*.log", map: {job: id, state: state, terminal: [SENT]}, stranded_after: 5m}
limits: {max_run: 1m}
slos:
  - {lock: mails, stranded: {max: 0}}
`))
	answers(t, dir, "", []answer{
		{"validate --strict lockless.yaml", verdict.ExitUsage, []string{"lockless.yaml:12:5: L10: the run: the run takes about"}},
		{"plan first-drill", verdict.ExitPass, []string{"To run this\n  lockdrill run first-drill\n"}},
		{"plan first-drill --set limits.max_run=9m", verdict.ExitPass, []string{"\n  lockdrill run first-drill --set limits.max_run=9m\n"}},
		{"plan nobody-home", verdict.ExitInconclusive, []string{"L11"}},
		{"plan short.yaml", verdict.ExitInconclusive, []string{"L10"}},
		{"validate --strict first-drill", verdict.ExitPass, nil},
		{"validate --strict nobody-home", verdict.ExitUsage, []string{"L11: lock job: 1 of 1 shot of fault kill-holder will come"}},
		{"validate --strict short.yaml", verdict.ExitUsage, []string{"L10: the run: the run takes about"}},
		{"rehearse first-drill --seeds 2", verdict.ExitPass, nil},
		{"rehearse nobody-home --seeds 2", verdict.ExitInconclusive, []string{"no simulated run measured it, because no fault hit a lock holder"}},
		{"plan cordum-scheduler-job", verdict.ExitPass, []string{"renewals-fail provokes abandonments >= 1: in all of them"}},
		{"plan mutant.yaml", verdict.ExitInconclusive, []string{"in none of them. The drill did not provoke"}},
		{"rehearse cordum-scheduler-job --seeds 3", verdict.ExitPass, []string{"abandonments >= 1: in each of 3 simulated runs"}},
		{"rehearse mutant.yaml --seeds 3", verdict.ExitInconclusive, []string{"not in 3 of 3 simulated runs"}},
	})
}

// The hash of a plan is that of what would be run: it stays, whoever asks, and is another once the file or what it executes is.
func TestPlanHashIsOfWhatIsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, err := os.ReadFile("../../scenarios/first-drill.yaml")
	must(t, err)
	file, worker := filepath.Join(dir, "drill.yaml"), filepath.Join(dir, "worker")
	write := func(path, text string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o755))
	}
	hash := func(flags ...string) string {
		t.Helper()
		got := try(t, append([]string{"plan", file, "--hash"}, flags...)...)
		_, after, ok := strings.Cut(got.stdout, "\nhash  ")
		if !ok || got.code != verdict.ExitPass {
			t.Fatalf("plan --hash: %+v", got)
		}
		return strings.TrimSpace(after)
	}
	text := strings.Replace(string(source), "system:\n", "system:\n  worker: [./worker]\n", 1)
	write(file, text)
	write(worker, "#!/bin/sh\nexit 1\n")
	first := hash()
	if again := hash(); again != first {
		t.Errorf("%s, and then %s", first, again)
	}
	write(worker, "#!/bin/sh\nexit 2\n")
	second := hash()
	set := hash("--set", "system.replicas=4")
	write(file, strings.Replace(text, "replicas: 3", "replicas: 4", 1))
	third := hash()
	if set != third {
		t.Errorf("--set gives %s, and the same value in the file %s", set, third)
	}
	try(t, "validate", file, "--set", "system.replicas=none").ends(t, verdict.ExitUsage, "--set:1:17: system.replicas: a whole number is wanted")
	try(t, "rehearse", file, "--set", "system.replicas=none").ends(t, verdict.ExitUsage, "--set:1:17: ")
	if second == first || third == second || third == first {
		t.Errorf("%s; another worker: %s; another file: %s", first, second, third)
	}
	out := filepath.Join(dir, "run")
	try(t, "run", file, "--set", "system.replicas=4", "--plan", first, "--out", out).ends(t, verdict.ExitRefused, "the approved plan is "+first+", and this is "+third)
	isGone(t, out)
}
