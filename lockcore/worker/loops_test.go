package worker

import (
	"testing"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// ticksOf counts accepted writes of a loop by epoch and state.
func ticksOf(events []history.Event) (begins, ticks map[string]int) {
	begins, ticks = map[string]int{}, map[string]int{}
	for _, e := range events {
		switch {
		case !e.Write.Accepted:
		case e.Write.State == history.StateBegin:
			begins[e.Epoch]++
		case e.Write.State == history.StateTick:
			ticks[e.Epoch]++
		}
	}
	return begins, ticks
}

func TestRenewedLoopKeepsItsEpoch(t *testing.T) {
	r := launch(t, startRedis(t), "r1.1", loopLock(lockcore.LoopRenewed))
	r.await(history.WriteReturn, func(e history.Event) bool {
		_, ticks := ticksOf(r.all(history.WriteReturn))
		return ticks[e.Epoch] >= 10
	})
	r.await(history.RenewReturn, nil)
	if r.holder("loop:leader") == "" {
		t.Error("the key is free between ticks")
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	begins, ticks := ticksOf(r.all(history.WriteReturn))
	if len(begins) != 1 || len(ticks) != 1 {
		t.Errorf("begins %v, ticks %v: want one epoch", begins, ticks)
	}
	for _, n := range begins {
		if n != 1 {
			t.Errorf("begin was written %d times, want once an epoch", n)
		}
	}
	enters, exits := r.all(history.WorkEnter), r.all(history.WorkExit)
	if len(enters) != len(exits) {
		t.Errorf("%d enters, %d exits", len(enters), len(exits))
	}
	for i := range exits {
		if enters[i].Op != exits[i].Op || enters[i].Work.Subject != "loop" || exits[i].From < enters[i].To {
			t.Errorf("tick %d: enter %+v, exit %+v", i, enters[i], exits[i])
		}
	}
}

// A renewed loop that loses its key while idle says so, and is elected anew with a new epoch.
func TestRenewedLoopIsElectedAgainAfterALoss(t *testing.T) {
	c := startRedis(t)
	r := launch(t, c, "r1.1", loopLock(lockcore.LoopRenewed))
	first := r.await(history.WriteReturn, nil).Epoch
	if err := c.Del(t.Context(), "run:loop:leader").Err(); err != nil {
		t.Fatal(err)
	}
	r.await(history.FenceObserved, func(e history.Event) bool { return e.Epoch == first })
	r.await(history.WriteReturn, func(e history.Event) bool { return e.Epoch != first && e.Write.State == history.StateBegin })
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestTTLHoldLoopLeavesItsKey(t *testing.T) {
	c := startRedis(t)
	l := loopLock(lockcore.LoopTTLHold)
	r := launch(t, c, "r1.1", l)
	r.await(history.WorkExit, nil)
	skipped := r.await(history.ReleaseSkipped, nil)
	if skipped.Call.Why != "ttl_hold" || r.holder("loop:leader") == "" {
		t.Errorf("after the tick: %+v, holder %q; want a key that is left", skipped.Call, r.holder("loop:leader"))
	}
	// The next polls find the own key held, until its TTL is over.
	r.await(history.AcquireReturn, func(e history.Event) bool { return e.Call.Result == history.ResultHeld })
	if err := c.Del(t.Context(), "run:loop:leader").Err(); err != nil {
		t.Fatal(err)
	}
	r.await(history.WorkExit, func(e history.Event) bool { return e.Epoch != skipped.Epoch })
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if n := len(r.all(history.ReleaseInvoke)); n != 0 {
		t.Errorf("released %d times, want none", n)
	}
	if n := len(r.all(history.RenewInvoke)); n != 0 {
		t.Errorf("renewed %d times outside a tick of 5 ms, want none", n)
	}
}

func TestExplicitLoopReleasesAfterEachTick(t *testing.T) {
	r := launch(t, startRedis(t), "r1.1", loopLock(lockcore.LoopExplicit))
	r.await(history.ReleaseReturn, func(history.Event) bool { return len(r.all(history.ReleaseReturn)) >= 3 })
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	begins, ticks := ticksOf(r.all(history.WriteReturn))
	if len(begins) < 3 || len(begins) != len(ticks) && len(begins) != len(ticks)+1 {
		t.Errorf("begins %v, ticks %v: want an epoch a tick", begins, ticks)
	}
	if r.holder("loop:leader") != "" {
		t.Error("the key is held after the end")
	}
}
