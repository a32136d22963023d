package main

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// needDrill skips a test that runs a drill through the binary where only quick tests are asked for (-short): the race detector
// shows nothing in a process that was built without it.
func needDrill(t *testing.T) {
	t.Helper()
	redistest.Need(t)
	if testing.Short() {
		t.Skip("-short: no drill through the binary")
	}
}

// The published scheduler policy costs what the article says: three failed renewals give the job up, and the lock is left to its TTL,
// so that the next owner waits for it.
func TestThePublishedSchedulerPolicy(t *testing.T) {
	needScenarios(t)
	t.Parallel()
	j, h := runScenario(t, "cordum-scheduler-job", verdict.ExitPass, "cordum/scheduler-job}", "cordum/scheduler-job, op_timeout: 6s}",
		"jobs: 50", "jobs: 22", "p50: 150s, p99: 180s", "p50: 100s, p99: 110s", "at: 200s", "at: 140s", "count: 3, every: settled", "count: 1")
	if len(j.Predicted) == 0 || j.Predicted[0].Seeds == 0 || j.Predicted[0].Values == 0 {
		t.Errorf("the run has no prediction: %+v", j.Predicted)
	}
	byCount := 0
	for _, a := range j.Abandonments {
		if a.Reason == "count" {
			byCount++
		}
	}
	if byCount == 0 {
		t.Errorf("no abandonment after three failures: %+v", j.Abandonments)
	}
	released := false
	for _, e := range h.Events {
		released = released || e.Kind == "release.skipped" && e.Call.Why == "after_abandon"
	}
	if !released {
		t.Error("no release was skipped after the abandonment")
	}
	waited := false
	for _, x := range j.Takeovers {
		// At 1/20 of its time the TTL is 3 s; of it at least a renewal interval and a call are left at any instant.
		// Who gave up may be the one that is offered the job again.
		waited = waited || strings.HasPrefix(x.Fault, "renewals-fail") && x.Successor != "" && x.Residual != nil && x.Residual.Lo > 1.5
	}
	if !waited {
		t.Errorf("no takeover waited for the TTL after the abandonment: %+v", j.Takeovers)
	}
}

func TestTheGoodDrillPassesOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: no drill through the binary")
	}
	if o := runDrill(t, edit(t, goodDrill, "mode: spawn", "mode: embedded"), nil); o.code != verdict.ExitPass {
		t.Errorf("exit %d\n%s", o.code, o.text)
	}
}
