package conductor

import (
	"slices"
	"strings"
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

// Where looks fail, nobody knows that nobody holds: the steady state and a shot say what the looks get, until one succeeds again.
func TestWhoCannotLookDoesNotSayThatNobodyHolds(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 0
	c := New(e, 1)
	said := func() (steady unmet, shot target) {
		s := c.series[0]
		s.lock = e.Lock("loop")
		return c.missing(0), c.nobody(s)
	}
	steady, shot := said()
	if !strings.Contains(steady.String(), "nobody holds") || !strings.Contains(steady.String(), "no text stands there, and no hash that expires") || steady.code != history.NoKnownHolder || !strings.Contains(shot.why, "nobody held") || shot.word != "" {
		t.Errorf("a key that is not there: %q (%s), %q (%s)", steady, steady.code, shot.why, shot.word)
	}
	c.Unseen("lock_keys", "NOPERM")
	steady, shot = said()
	if text := steady.String(); strings.Contains(text, "nobody") || !strings.Contains(text, "NOPERM") || steady.code != history.CannotLook {
		t.Errorf("the steady state says %q (%s)", text, steady.code)
	}
	if strings.Contains(shot.why, "nobody") || !strings.Contains(shot.why, "NOPERM") || shot.word != history.HolderUnknown {
		t.Errorf("a shot says %q (%s)", shot.why, shot.word)
	}
	c.Unseen("lock_keys", "")
	if steady, _ = said(); steady.code != history.NoKnownHolder {
		t.Errorf("after looks that succeed: %q", steady)
	}
	c.Unseen("ledger", "a time-out")
	if steady, _ = said(); steady.code != history.NoKnownHolder {
		t.Errorf("another probe's looks fail: %q", steady)
	}
}

// Where replicas cannot be looked for, nobody knows that there are none.
func TestWhoCannotLookForReplicasDoesNotSayThatThereAreNone(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 2
	c := New(e, 1)
	for _, forbidden := range []string{"", "pods is forbidden", ""} {
		c.Unseen(Replicas, forbidden)
		steady := c.missing(0)
		if (steady.code == history.CannotLook) != (forbidden != "") || !strings.Contains(steady.String(), "0 of 2") {
			t.Errorf("%q: %q (%s)", forbidden, steady, steady.code)
		}
		for _, says := range []string{steady.String(), c.living("").why, c.living("r1").why, c.some(&series{f: &experiments.Fault{Spec: &fault.Kill{}}}).why} {
			if strings.Contains(says, "cannot be looked for: pods is forbidden") != (forbidden != "") {
				t.Errorf("%q: %q", forbidden, says)
			}
		}
	}
}

// A value is no epoch: two keys may carry the same one, as a replica's name does, and one that comes back was granted anew, here to the
// next life of the replica.
func TestAValueThatComesBackIsAnotherEpoch(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 1
	second := e.System.Locks[0]
	second.Name = "second"
	e.System.Locks = append(e.System.Locks, second)
	c := New(e, 1)
	live := func(inc string) {
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: inc[:2], Incarnation: inc, Pod: podIn(inc)}})
		c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: inc[:2], Incarnation: inc}})
	}
	look := func(at int64, lock, value, holder string) {
		c.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: lock, Key: "key-" + lock, Epoch: value, Look: &history.Look{Present: value != "", PTTL: 1e9, Holder: holder}})
	}
	owns := func(lock, want string) {
		t.Helper()
		if inc, alive := c.owner("key-"+lock, "name"); inc != want || alive != (want != "") || c.isHeld(lock, 0) != (want != "") {
			t.Errorf("%s is held by %q, alive %v; want %q", lock, inc, alive, want)
		}
	}
	live("r1.1")
	look(1e9, "loop", "name", "r1.1")
	look(1e9, "second", "name", "r1.1")
	owns("loop", "r1.1")
	owns("second", "r1.1")
	victim := c.world.shown["key-loop"]
	s := c.series[0]
	s.fired, s.exposed = 2e9, []*exposure{{epoch: victim}}
	c.Observe(history.Event{Kind: history.ReplicaExit, Span: history.At(2e9), Replica: &history.Replica{Name: "r1", Incarnation: "r1.1"}})
	live("r1.2")
	look(3e9, "loop", "", "")
	owns("loop", "")
	if s.exposed[0].closed {
		t.Error("a key that is free ended the trial")
	}
	look(4e9, "loop", "name", "r1.2")
	owns("loop", "r1.2")
	if !s.exposed[0].closed {
		t.Error("the next grant did not end the trial: it has the victim's name")
	}
}

// The next life of a holder goes on with the lease that bears its name: it is whom the next shot strikes, and its extension ends the trial.
func TestTheNextLifeOfANameHoldsItsLease(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 1
	c := New(e, 1)
	for i, inc := range []string{"r1.1", "r1.2"} {
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: inc, Pod: podIn(inc)}})
		c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: "r1", Incarnation: inc}})
		at := int64(i+1) * 1e9
		c.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: "loop", Key: "the-loop", Epoch: "name", Look: &history.Look{Present: true, PTTL: 5e9, Holder: inc}})
		if who, alive := c.owner("the-loop", "name"); who != inc || !alive || !c.isHeld("loop", 0) {
			t.Errorf("held by %q, alive %v, want %q", who, alive, inc)
		}
		s := c.series[0]
		if i == 0 {
			s.fired, s.exposed = 1_500_000_000, []*exposure{{epoch: c.world.shown["the-loop"]}}
			c.Observe(history.Event{Kind: history.ReplicaExit, Span: history.At(1_500_000_000), Replica: &history.Replica{Name: "r1", Incarnation: "r1.1"}})
		} else if !s.exposed[0].closed {
			t.Error("its extension did not end the trial")
		}
	}
}

// A look that was begun before a fault took the key, and is told after it, shows nobody to strike: the next shot is for whoever holds it then.
func TestALookFromBeforeTheKeyWasTakenAimsNoShot(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas = &experiments.Kubernetes{}, experiments.ModeObserve, 2
	e.Faults = []experiments.Fault{{ID: "taken", Spec: &fault.DeleteKey{HolderOf: "loop"}, Repeat: experiments.Repeat{Count: 2, Settled: true}}}
	c := New(e, 1)
	for _, inc := range []string{"r1.1", "r2.1"} {
		c.Observe(history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: inc[:2], Incarnation: inc, Pod: podIn(inc)}})
		c.Observe(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: inc[:2], Incarnation: inc}})
	}
	fired := func(now int64) (at string) {
		for _, a := range append(slices.Clone(c.Step(now)), c.Step(now+1)...) { // it settles, and is armed anew
			if a.Fire != nil {
				at = a.Fire.Epoch + a.Fire.Why
			}
		}
		return at
	}
	look := func(at int64, epoch, holder string) {
		c.Observe(history.Event{Kind: history.LookKind, Span: history.Span{From: at, To: at + 2}, At: at + 2, Lock: "loop", Key: "the-loop", Epoch: epoch, Look: &history.Look{Present: epoch != "", PTTL: 5e9, Holder: holder}})
	}
	fired(1)
	look(1e9, "e1", "r1.1")
	look(2e9, "e1", "r1.1")
	fired(2e9 + 2)
	if got := fired(3e9 + 2); got != "e1" {
		t.Fatalf("the first shot is for %q", got)
	}
	body := &history.Fault{ID: "taken", Shot: 1, Victim: "r1.1"}
	for i, kind := range []history.Kind{history.FaultConfirmed, history.FaultReverted, history.FaultVerified} {
		at := int64(3e9) + 10 + int64(i)
		c.Observe(history.Event{Kind: kind, Span: history.At(at), At: at, Lock: "loop", Key: "the-loop", Epoch: "e1", Fault: body})
	}
	look(3e9+5, "e1", "r1.1")
	if got := fired(3e9 + 20); got != "" {
		t.Errorf("by a look from before, a shot is for %q", got)
	}
	look(3e9+30, "", "")
	look(3e9+40, "e2", "r2.1")
	if got := fired(3e9 + 43); got != "e2" {
		t.Errorf("the second shot is for %q", got)
	}
}
