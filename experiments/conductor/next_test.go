package conductor

import (
	"strings"
	"testing"
	"time"

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
				if gaveUp = now; !strings.Contains(a.Phase.Why, "not ready after 20s") {
					t.Errorf("gave up: %s", a.Phase.Why)
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
