package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// The fourteen points that a lock must get right: each is a bug that a well-known library has. Undo a point, and its test fails.

func TestPoint01ValidityCountsFromSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		slow := func(_ context.Context, _ lockcore.Op, do func() error) error {
			err := do()
			wait(400 * time.Millisecond) // the reply's way back
			return err
		}
		r.store.set(slow)
		h := r.acquire(t)
		if got, want := h.Remaining(), 10*time.Second-100*time.Millisecond-400*time.Millisecond; got != want {
			t.Errorf("after a grant whose reply took 400ms %s remain, want %s", got, want)
		}
		settle(3*time.Second + 400*time.Millisecond) // a renewal was sent at 3.4s, its reply has come
		if got, want := h.Remaining(), 9900*time.Millisecond-400*time.Millisecond; got != want {
			t.Errorf("after a renewal whose reply took 400ms %s remain, want %s", got, want)
		}
	})
}

func TestPoint02RenewalBoundedByGrantedValidity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.OpTimeout = 5 * time.Second // longer than what is left at the second renewal
		r := newRig(t, p)
		var limits []time.Duration
		r.store.set(only(lockcore.OpRenew, func(ctx context.Context, do func() error) error {
			end, _ := ctx.Deadline()
			limits = append(limits, r.since()+time.Until(end))
			return hanging(ctx, do)
		}))
		h := r.acquire(t)
		awaitEnd(t, h)
		settle(5 * time.Second)
		// The second is sent when the first has timed out, at 8s.
		if want := []time.Duration{8 * time.Second, 9900 * time.Millisecond}; !slices.Equal(limits, want) {
			t.Errorf("renewals may run until %v, want %v: the second not past the validity end", limits, want)
		}
	})
}

func TestPoint03TimerAtValidityEndAlwaysArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		stuck := make(chan struct{})
		r.store.set(only(lockcore.OpRenew, func(context.Context, func() error) error {
			<-stuck // does not even heed its deadline
			return errLost
		}))
		h := r.acquire(t)
		awaitEnd(t, h)
		if got, want := r.since(), 9*time.Second; got != want {
			t.Errorf("work was told at %s, want at validity end - stop budget = %s, while a renewal is stuck", got, want)
		}
		if got := reason(h.Context()); got != lockcore.ReasonDeadline {
			t.Errorf("reason %q, want deadline", got)
		}
		close(stuck)
	})
}

func TestPoint04NotOwnedIsDefinitive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		settle(time.Second)
		r.store.vanish(t, "k")
		awaitEnd(t, h)
		if got, want := r.since(), 3*time.Second; got != want || reason(h.Context()) != lockcore.ReasonNotOwned {
			t.Errorf("told %q at %s, want not_owned at the first renewal, %s", reason(h.Context()), got, want)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("release: %v", err)
		}
		if n := len(r.events.of(history.ReleaseInvoke)); n != 0 {
			t.Errorf("%d releases of a key that is known to be another's", n)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a transient failure is no reason
		r := newRig(t, policy())
		r.store.set(only(lockcore.OpRenew, failing))
		h := r.acquire(t)
		settle(8 * time.Second)
		if err := h.Check(); err != nil {
			t.Errorf("after two transient failures: %v", err)
		}
	})
}

func TestPoint05StopBeforeRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		r.store.set(only(lockcore.OpRenew, failing))
		var stopped time.Duration
		err := r.Do(t.Context(), "k", func(ctx context.Context, _ *client.Handle) error {
			<-ctx.Done()
			wait(500 * time.Millisecond) // work takes its time to stop
			stopped = r.since()
			return nil
		})
		if !errors.Is(err, client.ErrAbandoned) {
			t.Errorf("Do: %v, want ErrAbandoned", err)
		}
		released := r.events.of(history.ReleaseInvoke)
		if len(released) != 1 || time.Duration(released[0].From) < stopped {
			t.Errorf("releases %v, work stopped at %s: want one, afterwards", released, stopped)
		}
	})
	synctest.Test(t, func(t *testing.T) { // nor is a renewal sent once the release has begun
		r := newRig(t, policy())
		r.store.set(only(lockcore.OpRelease, hanging))
		h := r.acquire(t)
		settle(2900 * time.Millisecond)
		over := make(chan error)
		go func() { over <- h.Release(context.Background()) }()
		synctest.Wait()
		if err := h.Check(); !errors.Is(err, client.ErrReleased) || h.Context().Err() == nil { // the work has stopped: nobody may rely on it
			t.Errorf("while it is released: check %v, context %v", err, h.Context().Err())
		}
		<-over
		settle(10 * time.Second)
		if n := len(r.events.of(history.RenewInvoke)); n != 0 {
			t.Errorf("%d renewals while releasing", n)
		}
	})
}

func TestPoint06ReleaseComparesTokenAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Class, p.RenewEvery = lockcore.LegacyWarn, 0 // believes for ever
		slow := newRig(t, p)
		h := slow.acquire(t)
		settle(10 * time.Second)
		other := joinRig(t, policy(), slow.store)
		theirs := other.acquire(t)
		err := h.Release(t.Context())
		var lost *lockcore.NotOwnedError
		if !errors.As(err, &lost) || !lost.Other || lost.Holder != theirs.Epoch() {
			t.Errorf("release after the lease's end: %v, want the store's answer: other", err)
		}
		settle(3 * time.Second)
		if err := theirs.Check(); err != nil || theirs.Remaining() != 9900*time.Millisecond {
			t.Errorf("the new holder's lock: %v, %s remain: it must not have been touched", err, theirs.Remaining())
		}
	})
}

func TestPoint07LostAcquireReplyIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		r.store.set(only(lockcore.OpAcquire, lostReply))
		_, err := r.Acquire(t.Context(), "k")
		var unknown *client.UnknownError
		if !errors.As(err, &unknown) {
			t.Errorf("acquire: %v, want *UnknownError", err)
		}
		synctest.Wait()
		undo := r.events.of(history.UndoReturn)
		asked := r.events.of(history.AcquireInvoke)
		if len(undo) != 1 || undo[0].Outcome != history.OK || undo[0].Epoch != asked[0].Epoch {
			t.Fatalf("undo %+v, want one of epoch %s that is ok", undo, asked[0].Epoch)
		}
		r.store.set(nil)
		r.acquire(t) // the key is free at once, not after its TTL
	})
	synctest.Test(t, func(t *testing.T) { // a caller that gives up during the undo does not cut it off
		p := policy()
		p.Acquire.Mode, p.Acquire.Budget = lockcore.AcquireWait, 10*time.Second
		p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: time.Second}
		r := newRig(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		r.store.set(func(called context.Context, op lockcore.Op, do func() error) error {
			if op == lockcore.OpAcquire {
				return lostReply(called, do)
			}
			cancel()
			if called.Err() != nil {
				return called.Err()
			}
			return do()
		})
		if _, err := r.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire: %v, want canceled", err)
		}
		if undo := r.events.of(history.UndoReturn); len(undo) != 1 || undo[0].Outcome != history.OK {
			t.Errorf("undo %+v, want one that is ok", undo)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the same event that cut off the acquire must not cut off the undo
		r := newRig(t, policy())
		ctx, cancel := context.WithCancel(t.Context())
		r.store.set(only(lockcore.OpAcquire, func(ctx context.Context, do func() error) error {
			_ = do()
			cancel()
			return ctx.Err()
		}))
		if _, err := r.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire: %v, want canceled", err)
		}
		synctest.Wait()
		r.store.set(nil)
		r.acquire(t)
	})
}

func TestPoint08LostReleaseReplyIsReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		lose := true
		r.store.set(only(lockcore.OpRelease, func(ctx context.Context, do func() error) error {
			if lose {
				lose = false
				return lostReply(ctx, do)
			}
			return do()
		}))
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("release: %v: it took effect, and the second try could see that", err)
		}
		got := r.events.of(history.ReleaseReturn)
		if len(got) != 2 || got[0].Outcome != history.Unknown || got[1].Call.Result != history.ResultAbsent {
			t.Errorf("returns %+v, want unknown, then absent", got)
		}
	})
}

func TestPoint09HolderIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		if err := h.Check(); err != nil || h.Context().Err() != nil {
			t.Errorf("a fresh lock: %v, %v", err, h.Context().Err())
		}
		r.store.set(only(lockcore.OpRenew, failing))
		awaitEnd(t, h)
		var cause *client.AbandonedError
		if err := context.Cause(h.Context()); !errors.Is(err, client.ErrAbandoned) || !errors.As(err, &cause) || cause.Failures != 2 {
			t.Errorf("cause %v, want an abandonment after 2 failures", err)
		}
		if err := h.Check(); !errors.Is(err, client.ErrAbandoned) {
			t.Errorf("check: %v, want ErrAbandoned", err)
		}
		fence, abandon := r.events.of(history.FenceObserved), r.events.of(history.AbandonKind)
		if len(fence) != 1 || len(abandon) != 1 || fence[0].Span != abandon[0].Span || fence[0].From != int64(9*time.Second) {
			t.Errorf("fence.observed %+v, abandon %+v: want one each, both at 9s", fence, abandon)
		}
	})
	synctest.Test(t, func(t *testing.T) { // where nothing cancels, Check and Remaining still tell the truth
		p := policy()
		p.Class, p.RenewEvery = lockcore.LegacyWarn, 0
		r := newRig(t, p)
		h := r.acquire(t)
		settle(9900 * time.Millisecond)
		if err := h.Check(); !errors.Is(err, client.ErrExpired) || h.Remaining() != 0 || h.Context().Err() != nil {
			t.Errorf("at the validity end: %v, %s, %v", err, h.Remaining(), h.Context().Err())
		}
	})
}

func TestPoint10SuspensionIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		settle(500 * time.Millisecond)
		r.clock.suspend(time.Minute) // CLOCK_MONOTONIC, and with it every timer, stood still
		if err := h.Check(); !errors.Is(err, client.ErrExpired) {
			t.Errorf("check right after a suspension beyond the TTL: %v, want ErrExpired", err)
		}
		awaitEnd(t, h)
		if got := r.since(); got > 2*time.Second || reason(h.Context()) != lockcore.ReasonDeadline {
			t.Errorf("told %q at %s, want deadline within a heartbeat", reason(h.Context()), got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // only CLOCK_BOOTTIME shows it: somebody has set the wall clock back
		p := policy()
		p.RenewEvery = 0
		r := newRig(t, p)
		h := r.acquire(t)
		settle(500 * time.Millisecond)
		r.clock.mu.Lock()
		r.clock.boot += time.Minute
		r.clock.mu.Unlock()
		awaitEnd(t, h)
		if got := r.since(); got > 2*time.Second {
			t.Errorf("told at %s, want within a heartbeat", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // only the wall clock shows it: ask the store before anything else
		r := newRig(t, policy())
		h := r.acquire(t)
		settle(500 * time.Millisecond)
		r.clock.mu.Lock()
		r.clock.wall += time.Minute
		r.clock.mu.Unlock()
		if err := h.Check(); !errors.Is(err, client.ErrExpired) {
			t.Errorf("check while the wall clock says that the lease is over: %v, want ErrExpired", err)
		}
		settle(time.Second)
		if n := len(r.events.of(history.RenewInvoke)); n != 1 || h.Check() != nil {
			t.Errorf("%d renewals and %v within a heartbeat: want one that settled it", n, h.Check())
		}
	})
}

func TestPoint11FailureCountResetsOnSuccessOnly(t *testing.T) {
	for _, c := range []struct {
		answers string // of the renewals: x fails, o succeeds
		at      time.Duration
	}{
		{"xxx", 9 * time.Second},
		{"xxoxxx", 18 * time.Second},
		{"xoxxoxxx", 24 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := policy()
			p.Class, p.MaxFailures, p.TTL = lockcore.LegacyCount, 3, time.Minute
			r := newRig(t, p)
			n := 0
			r.store.set(only(lockcore.OpRenew, func(_ context.Context, do func() error) error {
				n++
				if n <= len(c.answers) && c.answers[n-1] == 'x' {
					return errLost
				}
				return do()
			}))
			h := r.acquire(t)
			awaitEnd(t, h)
			if got := r.since(); got != c.at || n != len(c.answers) || reason(h.Context()) != lockcore.ReasonCount {
				t.Errorf("%s: told %q at %s after %d renewals, want count at %s", c.answers, reason(h.Context()), got, n, c.at)
			}
		})
	}
}

func TestPoint12FenceIsMintedWithTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Class, p.RenewEvery = lockcore.LegacyWarn, 0
		slow := newRig(t, p)
		h := slow.acquire(t)
		fence, epoch := h.Fence(), h.Epoch()
		settle(11 * time.Second)
		theirs := joinRig(t, policy(), slow.store).acquire(t)
		if h.Fence() != fence || h.Epoch() != epoch || theirs.Fence() <= fence {
			t.Errorf("fence was %d, is %d, the successor's %d: want it unchanged, and below", fence, h.Fence(), theirs.Fence())
		}
	})
}

func TestPoint13NoReentrancy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrReentrant) {
			t.Errorf("second acquire by the same client: %v, want ErrReentrant", err)
		}
		if err := h.Check(); err != nil {
			t.Errorf("the first hold: %v", err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.acquire(t)
	})
}

func TestPoint14WatchdogNeverOutlivesWork(t *testing.T) {
	ends := map[string]func(*rig, *client.Handle){
		"released": func(_ *rig, h *client.Handle) { _ = h.Release(context.Background()) },
		"released with errors": func(r *rig, h *client.Handle) {
			r.store.set(only(lockcore.OpRelease, failing))
			_ = h.Release(context.Background())
		},
		"left":          func(_ *rig, h *client.Handle) { h.Leave() },
		"client closed": func(r *rig, _ *client.Handle) { _ = r.Close(context.Background()) },
		"given up": func(r *rig, h *client.Handle) {
			r.store.set(only(lockcore.OpRenew, failing))
			awaitEnd(t, h)
		},
	}
	for name, end := range ends {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, policy())
			h := r.acquire(t)
			settle(4 * time.Second)
			end(r, h)
			before := len(r.events.of(history.RenewInvoke))
			settle(time.Minute)
			if after := len(r.events.of(history.RenewInvoke)); after != before {
				t.Errorf("%s: %d renewals afterwards", name, after-before)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // work that ends by a panic has ended too
		r := newRig(t, policy())
		func() {
			defer func() {
				if p := recover(); fmt.Sprint(p) != "work failed" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = r.Do(t.Context(), "k", func(context.Context, *client.Handle) error { panic("work failed") })
		}()
		settle(time.Minute)
		if n := len(r.events.of(history.RenewInvoke)); n != 0 {
			t.Errorf("%d renewals after the panic", n)
		}
		r.acquire(t)
	})
}
