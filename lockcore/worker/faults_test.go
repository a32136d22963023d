package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

func TestArmedRenewalsFailAndAreCounted(t *testing.T) {
	r := launch(t, startRedis(t), "r1.1", jobLock())
	r.offer("a", long)
	r.offer("b", long)
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:a" })
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:b" })
	arm := protocol.Arm{Fault: "burst", Shot: 2, Op: "renew", Mode: "error", Lock: "job", Key: "job:a", Count: 3, For: time.Minute}
	r.send(protocol.Command{Cmd: protocol.CmdArm, Arm: &arm})
	over := r.await(history.FaultReverted, nil)
	hits := r.all(history.FaultHit)
	if len(hits) != 3 || over.Fault.Hits != 3 || over.Op != "burst#2" || over.Fault.Kind != "renew_failures" || over.Fault.Want != 3 {
		t.Errorf("%d hits, then %+v; want 3", len(hits), over.Fault)
	}
	for _, e := range hits {
		if e.Key != "job:a" || e.Lock != "job" || e.Epoch == "" || e.Op != "burst#2" {
			t.Errorf("hit %+v", e)
		}
	}
	r.await(history.RenewReturn, func(e history.Event) bool { return e.Key == "job:a" && e.Outcome == history.OK && e.From > over.From })
	made := 0
	for _, e := range r.all(history.RenewReturn) {
		if e.Call.Fault != "" {
			made++
			if e.Outcome != history.Fail || e.Call.Result != history.ResultError || e.Key != "job:a" || e.Call.Fault != "burst#2" {
				t.Errorf("failed renewal %+v %+v, want a definite failure that names the shot", e, e.Call)
			}
		}
	}
	if made != 3 {
		t.Errorf("%d renewals name the shot, want 3", made)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// Replies of a live drill that are lost: the grant is undone, the release is read back, and both name the shot.
func TestLostRepliesOfALiveStore(t *testing.T) {
	l := jobLock()
	l.Policy.Acquire.Timeout, l.Policy.Release.Timeout = 2*time.Second, 2*time.Second // how long a reply is waited for that never comes
	r := launch(t, startRedis(t), "r1.1", l)
	for i, op := range []string{protocol.OpAcquire, protocol.OpRelease} {
		arm := protocol.Arm{Fault: "lose", Shot: 1 + i, Op: op, Mode: protocol.ModeLostReply, Count: 1}
		r.send(protocol.Command{Cmd: protocol.CmdArm, Arm: &arm})
	}
	r.offer("a", 0)
	lost := r.await(history.AcquireReturn, nil)
	undone := r.await(history.UndoReturn, func(e history.Event) bool { return e.Outcome != history.Unknown })
	if lost.Outcome != history.Unknown || lost.Call.Fault != "lose#1" || lost.Fence != 0 {
		t.Errorf("acquire %+v %+v, want unknown without a fence, by lose#1", lost, lost.Call)
	}
	if undone.Epoch != lost.Epoch || undone.Call.Result != history.ResultAbsent { // the first try took effect
		t.Errorf("undo %+v of epoch %s, want absent of epoch %s", undone.Call, undone.Epoch, lost.Epoch)
	}
	for shot, kind := range map[string]string{"lose#1": "acquire_failures", "lose#2": "release_failures"} {
		over := r.await(history.FaultReverted, func(e history.Event) bool { return e.Op == shot })
		if over.Fault.Kind != kind || over.Fault.Form != "lost_reply" || over.Fault.Hits != 1 {
			t.Errorf("%s ended with %+v, want 1 hit of %s", shot, over.Fault, kind)
		}
	}
	r.offer("a", 0)
	r.awaitAck("a", history.AckDone)
	if err := r.stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

// tellTale is a set of faults whose events are kept.
func tellTale() (*faults, *[]history.Event) {
	events := &[]history.Event{}
	return newFaults("r1.1", 7, func(e history.Event) {
		e.Source = "r1.1"
		*events = append(*events, e)
	}), events
}

func last(t *testing.T, events *[]history.Event) history.Event {
	t.Helper()
	if len(*events) == 0 {
		t.Fatal("nothing was said")
	}
	e := (*events)[len(*events)-1]
	if err := e.Check(); err != nil {
		t.Errorf("event %s: %v", e.Kind, err)
	}
	return e
}

// struck is whether a renewal fails on purpose.
func struck(f *faults, lock, key string) bool {
	s := &faultyStore{lock: lock, faults: f}
	return s.call(context.Background(), protocol.OpRenew, key, "token", func() error { return nil }) != nil
}

func TestFaultEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, events := tellTale()
		f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", For: time.Second})
		<-time.After(999 * time.Millisecond)
		if !struck(f, "l", "k") {
			t.Error("an armed fault does not hit")
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if struck(f, "l", "k") {
			t.Error("hit after its time")
		}
		if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 1 || len(*events) != 2 {
			t.Errorf("said %d events, the last %+v", len(*events), e.Fault)
		}
	})
}

func TestFaultFilterDisarmAndClose(t *testing.T) {
	f, events := tellTale()
	f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", Lock: "l", Key: "k", Count: 9})
	f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "error", Count: 9}) // a repetition
	if struck(f, "l", "other") || struck(f, "other", "k") || f.hit("release", "l", "k", "t") != nil {
		t.Error("hit what it was not aimed at")
	}
	struck(f, "l", "k")
	f.disarm(protocol.Disarm{Fault: "b", Shot: 2})
	if !struck(f, "l", "k") {
		t.Error("the end of another shot ended this one")
	}
	f.disarm(protocol.Disarm{Fault: "b", Shot: 1})
	if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 2 || struck(f, "l", "k") {
		t.Errorf("after disarm: %+v", e.Fault)
	}
	f.arm(protocol.Arm{Fault: "b", Shot: 3, Op: "renew", Mode: "error", For: time.Hour})
	f.close()
	if e := last(t, events); e.Kind != history.FaultReverted || e.Op != "b#3" || struck(f, "l", "k") {
		t.Errorf("after close: %+v", e)
	}
	if f.arm(protocol.Arm{Fault: "b", Shot: 4, Op: "renew", Mode: "error", Count: 1}); struck(f, "l", "k") {
		t.Error("armed after the end")
	}
}

func TestFaultThatCannotBeMadeIsRevertedAtOnce(t *testing.T) {
	for _, arm := range []protocol.Arm{
		{Op: "delete", Mode: "error", Count: 1},
		{Op: "acquire", Mode: "offset", Delay: time.Second, For: time.Second},
		{Op: "clock", Mode: "error", For: time.Second},
		{Op: "renew", Mode: "lost_reply"},
		{Op: "renew", Mode: "error", Share: 1.01, Count: 1},
		{Op: "renew", Mode: "error", Share: -0.1, Count: 1},
		{Op: "renew", Mode: "delay", Count: 1},
		{Op: "clock", Mode: "offset", Delay: time.Second, Count: 1},
		{Op: "clock", Mode: "offset", For: time.Second},
	} {
		f, events := tellTale()
		arm.Fault, arm.Shot = "b", 1
		f.arm(arm)
		if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Hits != 0 || e.Fault.Detail == "" || len(f.armed) != 0 {
			t.Errorf("arm %+v: said %+v", arm, e.Fault)
		}
	}
}

// Where a call falls to several shots, each takes its share by the replica's own, repeatable chance.
func TestFaultTakesItsShare(t *testing.T) {
	draw := func(seed int64, shot int) (hits []bool) {
		f, _ := tellTale()
		f.seed = seed
		f.arm(protocol.Arm{Fault: "b", Shot: shot, Op: "renew", Mode: "error", Share: 0.25, For: time.Hour})
		defer f.close()
		for range 1000 {
			hits = append(hits, struck(f, "l", "k"))
		}
		return hits
	}
	first := draw(7, 1)
	n := 0
	for _, hit := range first {
		if hit {
			n++
		}
	}
	if n < 180 || n > 320 { // five standard deviations
		t.Errorf("a quarter of 1000 calls is %d", n)
	}
	if !slices.Equal(first, draw(7, 1)) {
		t.Error("the same seed makes another choice")
	}
	if slices.Equal(first, draw(8, 1)) || slices.Equal(first, draw(7, 2)) {
		t.Error("another seed, or another shot, makes the same choice")
	}
}

// modeWant is what each mode does to a call whose limit is a second; the delay is 400 ms.
var modeWant = map[string]struct {
	result lockcore.Result
	took   time.Duration
	effect bool
}{
	protocol.ModeError:     {lockcore.Failed, 0, false},
	protocol.ModeTimeout:   {lockcore.Unknown, time.Second, false},
	protocol.ModeDelay:     {lockcore.OK, 400 * time.Millisecond, true},
	protocol.ModeLostReply: {lockcore.Unknown, time.Second, true},
}

// opCases make one call of each operation, and tell by the store whether it has had its effect.
var opCases = map[string]struct {
	call func(ctx context.Context, s lockcore.Store) error
	done func(s lockcore.Store) bool
}{
	protocol.OpAcquire: {
		func(ctx context.Context, s lockcore.Store) error {
			g, err := s.Acquire(ctx, "free", "token", time.Minute)
			if err != nil && g != (lockcore.Grant{}) {
				return errors.New("a grant comes with an error")
			}
			return err
		},
		func(s lockcore.Store) bool { return s.Renew(context.Background(), "free", "token", time.Minute) == nil },
	},
	protocol.OpRenew: {
		func(ctx context.Context, s lockcore.Store) error { return s.Renew(ctx, "held", "token", time.Hour) },
		func(s lockcore.Store) bool {
			<-time.After(2 * time.Minute)
			return s.Release(context.Background(), "held", "token") == nil
		},
	},
	protocol.OpRelease: {
		func(ctx context.Context, s lockcore.Store) error { return s.Release(ctx, "held", "token") },
		func(s lockcore.Store) bool { return s.Renew(context.Background(), "held", "token", time.Minute) != nil },
	},
}

func TestEachModeOfEachOperation(t *testing.T) {
	for op, c := range opCases {
		for mode, want := range modeWant {
			synctest.Test(t, func(t *testing.T) {
				f, events := tellTale()
				store := memstore.NewStore(nil)
				if _, err := store.Acquire(t.Context(), "held", "token", time.Minute); err != nil {
					t.Fatal(err)
				}
				f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: op, Mode: mode, Delay: 400 * time.Millisecond, Count: 1})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := c.call(ctx, wrapStore(store, "l", f))
				if got, took := lockcore.ResultOf(err), time.Since(began); got != want.result || took != want.took {
					t.Errorf("%s, %s: %v is %s after %s, want %s after %s", op, mode, err, got, took, want.result, want.took)
				}
				if hung := errors.Is(err, context.DeadlineExceeded); hung != (want.result == lockcore.Unknown) {
					t.Errorf("%s, %s: %v looks like a timeout: %v", op, mode, err, hung)
				}
				var named interface{ Fault() string }
				if err != nil && (!errors.As(err, &named) || named.Fault() != "b#1") {
					t.Errorf("%s, %s: %v does not name the shot", op, mode, err)
				}
				if e := last(t, events); e.Kind != history.FaultReverted || e.Fault.Kind != op+"_failures" || e.Fault.Hits != 1 || len(*events) != 2 {
					t.Errorf("%s, %s: %d events, the last %+v", op, mode, len(*events), e.Fault)
				}
				if got := c.done(store); got != want.effect {
					t.Errorf("%s, %s: effect %v, want %v", op, mode, got, want.effect)
				}
			})
		}
	}
}

// What a shot holds is let go when the shot ends; what it holds when its count is spent is part of it.
func TestHeldCallsAndTheEndOfTheirShot(t *testing.T) {
	for _, c := range []struct {
		name   string
		arm    protocol.Arm
		result lockcore.Result
		took   time.Duration
		why    string
	}{
		{"time is up", protocol.Arm{Mode: "timeout", For: 300 * time.Millisecond}, lockcore.Unknown, 300 * time.Millisecond, "its time was up"},
		{"time is up", protocol.Arm{Mode: "lost_reply", For: 300 * time.Millisecond}, lockcore.Unknown, 300 * time.Millisecond, "its time was up"},
		{"time is up", protocol.Arm{Mode: "delay", Delay: 600 * time.Millisecond, For: 300 * time.Millisecond}, lockcore.OK, 300 * time.Millisecond, "its time was up"},
		{"disarmed", protocol.Arm{Mode: "timeout", For: time.Hour}, lockcore.Unknown, 500 * time.Millisecond, "disarmed"},
		{"count is spent", protocol.Arm{Mode: "timeout", Count: 1}, lockcore.Unknown, 500 * time.Millisecond, "disarmed"},
		{"limit before the delay", protocol.Arm{Mode: "delay", Delay: time.Hour, Count: 1, For: 3 * time.Hour}, lockcore.Unknown, time.Second, "its count was spent"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, events := tellTale()
			c.arm.Fault, c.arm.Shot, c.arm.Op = "b", 1, "renew"
			f.arm(c.arm)
			if c.why == "disarmed" {
				time.AfterFunc(500*time.Millisecond, func() { f.disarm(protocol.Disarm{Fault: "b", Shot: 1}) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			s := &faultyStore{lock: "l", faults: f}
			err := s.call(ctx, protocol.OpRenew, "k", "token", func() error { return nil })
			if got, took := lockcore.ResultOf(err), time.Since(began); got != c.result || took != c.took {
				t.Errorf("%s, %s: %v is %s after %s, want %s after %s", c.name, c.arm.Mode, err, got, took, c.result, c.took)
			}
			synctest.Wait()
			if e := last(t, events); e.Kind != history.FaultReverted || !strings.Contains(e.Fault.Detail, c.why) || len(f.armed) != 0 {
				t.Errorf("%s, %s: %d armed, last said %s %+v", c.name, c.arm.Mode, len(f.armed), e.Kind, e.Fault)
			}
		})
	}
}
