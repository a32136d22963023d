package worker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// A wall clock that jumps, there and back, costs the holder of a renewed lock no more than a renewal at once: the belief is neither
// ended nor prolonged by it, and until the store has answered, Check believes the clock that says the worst.
func TestLocksSurviveAWallClockThatIsSetOff(t *testing.T) {
	for _, offset := range []time.Duration{time.Minute, -time.Minute, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f, events := tellTale()
			f.clock.Clock = &bubbleClock{start: time.Now()}
			c, h := held(t, f, bubblePolicy())
			<-time.After(4500 * time.Millisecond) // renewed at 3s
			f.arm(protocol.Arm{Fault: "skew", Shot: 1, Op: "clock", Mode: "offset", Delay: offset, For: 20 * time.Second})
			if e := last(t, events); e.Kind != history.FaultHit || e.Fault.Kind != "clock" || e.Op != "skew#1" {
				t.Errorf("said %s %+v, want a hit", e.Kind, e.Fault)
			}
			refuses := offset > 8*time.Second // beyond what was left
			if err := h.Check(); errors.Is(err, client.ErrExpired) != refuses {
				t.Errorf("offset %s: check right afterwards: %v", offset, err)
			}
			if left := h.Remaining(); left != 8400*time.Millisecond {
				t.Errorf("offset %s: %s remain, want 8.4s: the wall clock must not count", offset, left)
			}
			for range 30 { // until long after the offset's end
				<-time.After(1100 * time.Millisecond)
				synctest.Wait()
				if err := h.Check(); err != nil || h.Context().Err() != nil {
					t.Errorf("offset %s: a heartbeat later: check %v, context %v", offset, err, h.Context().Err())
				}
			}
			if e := last(t, events); e.Kind != history.FaultReverted || len(*events) != 2 || f.clock.ahead.Load() != 0 {
				t.Errorf("said %d events, the last %s: the clock is still %s off", len(*events), e.Kind, time.Duration(f.clock.ahead.Load()))
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A clock that is set back must not keep a belief alive when the store is gone.
func TestWallClockThatIsSetBackProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := tellTale()
		f.clock.Clock = &bubbleClock{start: time.Now()}
		c, h := held(t, f, bubblePolicy())
		f.arm(protocol.Arm{Fault: "gone", Shot: 1, Op: "renew", Mode: "timeout", For: time.Hour})
		f.arm(protocol.Arm{Fault: "skew", Shot: 1, Op: "clock", Mode: "offset", Delay: -time.Hour, For: time.Hour})
		began := time.Now()
		select {
		case <-h.Context().Done():
		case <-time.After(time.Minute):
			t.Fatal("the holder is never told")
		}
		if told := time.Since(began); told != 9*time.Second {
			t.Errorf("told after %s, want at validity end - stop budget, 9s", told)
		}
		f.close()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func held(t *testing.T, f *faults, p lockcore.Policy) (*client.Client, *client.Handle) {
	t.Helper()
	c, err := client.New(client.Options{Store: wrapStore(memstore.NewStore(nil), "job", f), Policy: p, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

// In a live replica: the offset is observed through the clock that the locks read, and a job goes on through it.
func TestArmedWallClockOfAReplica(t *testing.T) {
	r := launch(t, startRedis(t), "r1.1", jobLock())
	r.offer("a", long)
	r.await(history.RenewReturn, nil)
	arm := protocol.Arm{Fault: "skew", Shot: 1, Op: protocol.OpClock, Mode: protocol.ModeOffset, Delay: -time.Minute, For: 300 * time.Millisecond}
	r.send(protocol.Command{Cmd: protocol.CmdArm, Arm: &arm})
	over := r.await(history.FaultReverted, nil)
	hit := r.await(history.FaultHit, nil)
	if hit.Fault.Kind != "clock" || hit.Fault.Form != "offset" || hit.Fault.Detail != "observed offset -1m0s" || hit.Fault.Victim != "r1.1" {
		t.Errorf("hit %+v, want an observed offset of -1m0s", hit.Fault)
	}
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Outcome == history.OK && e.From > over.From })
	if fenced := r.all(history.FenceObserved); len(fenced) != 0 {
		t.Errorf("fenced %+v: expiry must not depend on the wall clock", fenced[0].Abandon)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}
