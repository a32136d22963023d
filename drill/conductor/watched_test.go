package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// Where effects of a watched loop are read, a takeover ends with the first one of the next holder: the next shot waits for it, whatever the
// fault. Where none are read it waits for the grant alone.
func TestTheNextShotWaitsForTheFirstEffectOfAWatchedLoop(t *testing.T) {
	const slow = 700 * time.Millisecond // from its grant to a holder's first effect
	for _, c := range []struct {
		spec  fault.Spec
		works bool
	}{{&fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew}, true}, {&fault.DeleteKey{HolderOf: "loop"}, true}, {&fault.DeleteKey{HolderOf: "loop"}, false}, {&fault.Kill{HolderOf: "loop", Phase: fault.AfterRenew}, false}} {
		e := loopDrill(1)
		e.Kubernetes, e.System.Mode = &experiments.Kubernetes{}, experiments.ModeObserve
		e.Faults = []experiments.Fault{{ID: "f", Spec: c.spec, Repeat: experiments.Repeat{Count: 3, Settled: true}}}
		e.Limits.MaxKills = 6
		worked := map[int]int64{} // by holder: when it first did
		var early, shots int
		s := play(t, e, func(s *stage) {
			w := &watched{stage: s, alive: map[string]bool{}}
			w.named = func() {
				var work func()
				of := w.epoch
				work = func() {
					if of != w.epoch || !w.alive[w.holder] {
						return
					}
					if worked[of] == 0 {
						worked[of] = s.now
					}
					s.see(history.Event{Kind: history.LedgerEntry, Lock: "loop", Key: "the-loop", Epoch: fmt.Sprintf("e%d", of),
						Entry: &history.Entry{Loop: true, State: history.StateTick, Accepted: true, Foreign: true}})
					s.after(200*time.Millisecond, work)
				}
				if c.works {
					s.after(slow, work)
				}
			}
			for i := range 3 {
				s.after(time.Duration(i+1)*time.Millisecond, func() { w.appear(fmt.Sprintf("r%d", w.lives+1)) })
			}
			s.after(9*time.Millisecond, w.look)
			s.onFire = func(f Fire, body *history.Fault) {
				if shots++; worked[w.epoch] == 0 {
					early++
				}
				victim := w.holder
				delete(w.alive, victim)
				s.goneObject(victim)
				s.after(300*time.Millisecond, func() { w.appear(victim[:2]) })
				for _, kind := range []history.Kind{history.FaultConfirmed, history.FaultReverted, history.FaultVerified} {
					s.see(history.Event{Kind: kind, Key: f.Key, Epoch: f.Epoch, Fault: body})
				}
			}
		})
		if took := time.Duration(s.firedAt[len(s.firedAt)-1]); shots != 3 || early > 0 == c.works || took > 20*time.Second {
			t.Errorf("%T, effects %v: %d of %d shots came before the holder's first effect, the last after %s", c.spec, c.works, early, shots, took)
		}
	}
}

// A holder that writes another value at each renewal renews: the steady state is there, and what waits for a grant goes on waiting. One that
// has the key again as soon as its lease is over was granted it anew, although no look showed the key free.
func TestAHolderMayRenewByAnotherValue(t *testing.T) {
	for _, c := range []struct {
		holder string // of the second value
		free   bool   // the key was seen free before it
		at     int64  // when it is seen; the first lease ends at 2 s
		lacks  bool
	}{{"r1.1", false, 1.5e9, false}, {"r2.1", false, 1.5e9, true}, {"r1.1", true, 1.5e9, true}, {"r1.1", false, 2.001e9, true}} {
		cd := inPods(experiments.ModeObserve)
		cd.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: "r3", Incarnation: "r3.1"}})
		look := func(at int64, value string, l history.Look) {
			cd.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: "loop", Key: "the-loop", Epoch: value, Look: &l})
		}
		look(1e9, "v1", history.Look{Present: true, PTTL: 1e9, Holder: "r1.1"})
		if c.free {
			look(1.2e9, "", history.Look{})
		}
		look(c.at, "v2", history.Look{Present: true, PTTL: 1e9, Holder: c.holder})
		if lacks := cd.missing(c.at + 1e8); lacks != (unmet{}) != c.lacks {
			t.Errorf("%+v: lacks %q", c, lacks.text)
		}
	}
}
