package main

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// A worker that is asked to end gives its lock back: a hand-over, whose clock runs from the signal, and which is no crash.
func TestAProcessThatIsAskedToEndHandsItsLockOver(t *testing.T) {
	t.Parallel()
	needDrill(t)
	s := readStruck(t, runDrill(t, edit(t, goodDrill, "kill: {holder_of: loop, phase: after_renew}", "kill: {holder_of: loop, phase: after_renew, form: graceful}",
		"release: {mode: none}", "release: {mode: single, timeout: 100ms}", "ttl: 400ms", "ttl: 4s"), nil))
	n := 0
	for _, x := range s.j.Takeovers {
		if x.Lock != "loop" || x.Fault == "" {
			continue
		}
		if n++; x.Class != verdict.ClassHandOver || x.Lo > 2 {
			t.Errorf("takeover %+v, want a hand-over", x)
		}
	}
	if n == 0 || s.code != verdict.ExitPass {
		t.Errorf("%d takeovers, exit %d\n%s", n, s.code, s.text)
	}
	for _, e := range s.events {
		if e.Kind == history.FaultConfirmed && (e.Fault.Death == nil || e.Fault.Death.End == nil || e.Fault.Death.Means != "signal") {
			t.Errorf("confirmed without a death: %+v", e.Fault)
		}
	}
}
