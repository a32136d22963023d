package conductor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Nobody gets ready, and nothing is observed: the conductor is called a few times only, and says so at the very instant at which it
// gives up waiting.
func TestNextIsWhenAHungReplicaIsGivenUp(t *testing.T) {
	e := loopDrill(1)
	e.SteadyState.Timeout = time.Hour
	c := New(e, 1)
	now, started, gaveUp, steps := int64(0), int64(0), int64(0), 0
	for ; steps < 10; steps++ {
		for _, a := range c.Step(now) {
			switch {
			case a.Start != nil:
				started = now
			case a.Phase != nil && a.Phase.Name == history.PhaseFaults:
				if gaveUp = now; !strings.Contains(a.Phase.Why, "not ready after 20s") || a.Phase.Lacks != history.NotReady {
					t.Errorf("gave up: %s (%s)", a.Phase.Why, a.Phase.Lacks)
				}
			case a.Finish:
				if want := started + int64(readyWithin) + 1; gaveUp != want {
					t.Errorf("gave up at %d, want at %d", gaveUp, want)
				}
				return
			}
		}
		now = c.Next(now)
	}
	t.Fatalf("not finished after %d steps, at %s", steps, time.Duration(now))
}

// A loop that was silent for too long was not steady, though nobody looked while it was.
func TestASilenceThatNothingHappenedInEndsTheSteadyState(t *testing.T) {
	e := loopDrill(1)
	e.System.Locks[0].Policy.Loop.Mode = lockcore.LoopTTLHold
	e.SteadyState.For = 10 * time.Second
	e.SteadyState.Timeout = time.Minute
	c := New(e, 1)
	tick := func(now int64) {
		c.Observe(history.Event{Kind: history.LedgerEntry, Span: history.At(now), Lock: "loop", Key: "the-loop", Entry: &history.Entry{Loop: true, State: "tick", Accepted: true}})
	}
	var due []int64 // ticks: 1s, 2s, ... but none from 5s to 8s
	for s := range int64(60) {
		if s < 5 || s >= 8 {
			due = append(due, (s+1)*int64(time.Second))
		}
	}
	for now := int64(1); len(due) > 0; {
		for _, a := range c.Step(now) {
			switch {
			case a.Start != nil:
				c.Observe(history.Event{Kind: history.ReplicaReady, Span: history.At(now), Replica: &history.Replica{Name: a.Start.Name, Incarnation: a.Start.Incarnation}})
			case a.Phase != nil && a.Phase.Name == history.PhaseFaults:
				if want := int64(19 * time.Second); now != want { // the tick at 9s, and steady_state.for
					t.Errorf("steady at %s, want %s", time.Duration(now), time.Duration(want))
				}
				return
			}
		}
		if now = min(max(c.Next(now), now+1), due[0]); now == due[0] {
			tick(now)
			due = due[1:]
		}
	}
	t.Error("never steady")
}

// A fault whose end nobody tells of, because its injector hangs, is waited for as long as it may take and half a minute more, to the very
// instant; the drill goes on without it.
func TestAFaultWhoseEndIsNeverToldIsOverdue(t *testing.T) {
	e := drillOf(experiments.Fault{ID: "pause", For: time.Second, Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "loop"}}})
	var lasted []bool
	s := play(t, e, func(s *stage) {
		s.onFire = func(_ Fire, body *history.Fault) {
			s.see(history.Event{Kind: history.FaultConfirmed, Fault: body})
			due := s.now + int64(time.Second+revertWithin) + 1
			s.after(2, func() { // the Step after what was observed has been
				if next := s.c.Next(s.now); next != due {
					t.Errorf("next after %s, want after %s", time.Duration(next-s.now), time.Duration(due-s.now))
				}
			})
			for _, at := range []int64{due, due + 1} { // before the Step at that instant
				s.after(time.Duration(at-s.now), func() { lasted = append(lasted, s.c.series[0].state == lasting) })
			}
		}
	})
	if !slices.Equal(lasted, []bool{true, false}) || s.abort != "" {
		t.Errorf("lasting at its due instant and just after: %v, abort %q; want true, false and none", lasted, s.abort)
	}
}

// What a drill waits for in which nothing happens: the end of the steady state's time, or of the run's; that the steady state has held; and
// what the settle phase waits for.
func TestNextIsWhenAPhaseIsOver(t *testing.T) {
	e := loopDrill(1)
	e.Kubernetes, e.System.Mode, e.System.Replicas, e.Faults = &experiments.Kubernetes{}, experiments.ModeObserve, 1, nil
	c := New(e, 1)
	next := func(what string, now, want int64) {
		t.Helper()
		c.Step(now)
		if got := c.Next(now); got != want {
			t.Errorf("%s: next at %s, want %s", what, time.Duration(got), time.Duration(want))
		}
	}
	next("no steady state", 1, 1+int64(e.SteadyState.Timeout))
	e.Limits.MaxRun = 5 * time.Second
	next("no time", 2, 1+int64(e.Limits.MaxRun)+1)
	e.Limits.MaxRun = time.Hour
	r := &history.Replica{Name: "r1", Incarnation: "r1.1", Pod: podIn("r1.1")}
	c.Observe(history.Event{Kind: history.ReplicaStart, Replica: r})
	c.Observe(history.Event{Kind: history.ReplicaReady, Replica: r})
	for at := int64(1e9); at <= 2e9; at += 1e9 {
		c.Observe(history.Event{Kind: history.LookKind, Span: history.At(at), Lock: "loop", Key: "the-loop", Epoch: "e1", Look: &history.Look{Present: true, PTTL: 60e9, Holder: "r1.1"}})
	}
	next("steady", 2e9, 2e9+int64(e.SteadyState.For))
	for now := int64(3e9); now < 3e9+3; now++ { // the faults, of which there are none, and what is reverted
		c.Step(now)
	}
	next("settling", 3e9+3, c.settledAt())
}
