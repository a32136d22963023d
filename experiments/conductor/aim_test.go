package conductor

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// A source that has to look on for a while, such as MONITOR, knows later: the shot waits for it, and not for ever.
func TestAKillAtRandomWaitsUntilASourceKnowsWhoHolds(t *testing.T) {
	for _, knows := range []bool{true, false} {
		e := loopDrill(1)
		e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, experiments.ModeObserve
		e.System.Locks[0].Lease = "the-loop"
		e.Faults[0].Spec.(*fault.Kill).Phase = fault.RandomPhase
		asked := int64(0)
		s := play(t, e, func(s *stage) {
			s.after(time.Millisecond, func() { s.inPod("r1", "r1.1"); s.inPod("r2", "r2.1"); s.inPod("r3", "r3.1") })
			s.after(2*time.Millisecond, func() {
				for _, name := range []string{"r1", "r2", "r3"} {
					s.see(history.Event{Kind: history.ReplicaReady, Source: "runner", Replica: &history.Replica{Name: name, Incarnation: name + ".1"}})
				}
			})
			show := func() {
				by, epoch := "r1.1", "e1"
				if asked > 0 { // the lock has moved on to somebody
					if by, epoch = "", "e2"; knows && s.now >= asked+int64(2*time.Second) {
						by = "r2.1"
					}
				}
				s.see(history.Event{Kind: history.LookKind, Span: history.Span{From: s.now, To: s.now + 1e6}, Lock: "loop", Key: "the-loop", Epoch: epoch,
					Look: &history.Look{Present: true, PTTL: 1e9, Slack: 50e6, Holder: by}})
			}
			s.onPhase = func(phase string) {
				if phase == history.PhaseFaults {
					asked = s.now
					show()
				}
			}
			var look func()
			look = func() { show(); s.after(200*time.Millisecond, look) }
			s.after(10*time.Millisecond, look)
			s.onFire = func(f Fire, body *history.Fault) {
				s.see(history.Event{Kind: history.FaultVoid, Fault: body})
				if late := time.Duration(s.now - asked); len(s.fires) > 1 {
					return
				} else if inc, _ := s.c.owner(f.Key, f.Epoch); late < 2*time.Second || knows && inc != "r2.1" || !knows && f.Word != history.HolderUnknown {
					t.Errorf("knows %v: after %v it struck %q: %q %s", knows, late, inc, f.Word, f.Why)
				}
			}
		})
		if len(s.fires) == 0 {
			t.Errorf("knows %v: no shot", knows)
		}
	}
}
