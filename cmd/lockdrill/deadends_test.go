package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

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
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"plan first-drill", verdict.ExitPass, ""},
		{"plan nobody-home", verdict.ExitInconclusive, "L11"},
		{"plan short.yaml", verdict.ExitInconclusive, "L10"},
		{"validate --strict first-drill", verdict.ExitPass, ""},
		{"validate --strict nobody-home", verdict.ExitUsage, "L11: lock job: 1 of 1 shot of fault kill-holder will come"},
		{"validate --strict short.yaml", verdict.ExitUsage, "L10: the run: the run takes about"},
		{"rehearse first-drill --seeds 2", verdict.ExitPass, ""},
		{"rehearse nobody-home --seeds 2", verdict.ExitInconclusive, "no simulated run measured it, because no fault hit a lock holder"},
		{"plan cordum-scheduler-job", verdict.ExitPass, "renewals-fail provokes abandonments >= 1: in all of them"},
		{"plan mutant.yaml", verdict.ExitInconclusive, "in none of them. The drill did not provoke"},
		{"rehearse cordum-scheduler-job --seeds 3", verdict.ExitPass, "abandonments >= 1: in each of 3 simulated runs"},
		{"rehearse mutant.yaml --seeds 3", verdict.ExitInconclusive, "not in 3 of 3 simulated runs"},
	} {
		got := tryIn(t, dir, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(strings.Join(strings.Fields(got.stdout+got.stderr), " "), c.says) {
			t.Errorf("%s: status %d, want %d with %q\n%s%s", c.args, got.code, c.code, c.says, got.stdout, got.stderr)
		}
	}
}
