package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// A waiter gets the lock when it is released, and a caller that gives up waiting returns at once.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: time.Second, Budget: 8 * time.Second,
			Backoff: lockcore.Backoff{Mode: lockcore.BackoffDecorrelated, Every: 10 * time.Millisecond, Cap: 100 * time.Millisecond}}
		holder := newRig(t, p)
		waiter := joinRig(t, p, holder.store)
		h := holder.acquire(t)
		time.AfterFunc(5*time.Second, func() { _ = h.Release(context.Background()) })
		got := waiter.acquire(t)
		if at := waiter.since(); at < 5*time.Second || at > 5*time.Second+100*time.Millisecond {
			t.Errorf("granted at %s, released at 5s: want within the longest pause", at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := holder.since()
		if _, err := holder.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || holder.since()-before != time.Second {
			t.Errorf("acquire: %v after %s, want the context's end", err, holder.since()-before)
		}
		if err := got.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsOfAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		r.store.set(func(context.Context, lockcore.Op, func() error) error {
			return fmt.Errorf("dial: %w", lockcore.ErrNotSent)
		})
		if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, lockcore.ErrNotSent) || errors.Is(err, client.ErrBusy) {
			t.Errorf("acquire on a store that is down: %v, want ErrNotSent", err)
		}
		r.store.set(func(_ context.Context, _ lockcore.Op, do func() error) error {
			err := do()
			wait(9500 * time.Millisecond)
			return err
		})
		if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrExpired) {
			t.Errorf("a grant that comes after its deadline: %v, want ErrExpired", err)
		}
		r.store.set(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire with an ended context: %v", err)
		}
		settle(time.Minute)
		r.acquire(t)
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		failed := errors.New("work failed")
		if err := r.Do(t.Context(), "k", func(context.Context, *client.Handle) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("Do: %v, want the work's error", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := r.Do(ctx, "k", func(work context.Context, h *client.Handle) error {
			cancel()
			<-work.Done()
			if reason(work) != lockcore.ReasonContext {
				t.Errorf("cause %v, want the caller's context", context.Cause(work))
			}
			return nil
		})
		if !errors.Is(err, client.ErrAbandoned) {
			t.Errorf("Do whose caller gave up: %v, want ErrAbandoned", err)
		}
		r.acquire(t) // released after the work had stopped
	})
}

func TestReleaseGoesOnWithoutItsCaller(t *testing.T) {
	for _, retry := range []lockcore.ReleaseRetry{"", lockcore.RetryAtOnce} {
		synctest.Test(t, func(t *testing.T) {
			p := policy()
			p.Release.Retry = retry
			r := newRig(t, p)
			h := r.acquire(t)
			tries := 0
			r.store.set(only(lockcore.OpRelease, func(ctx context.Context, do func() error) error {
				if tries++; tries == 1 {
					return hanging(ctx, do)
				}
				return do()
			}))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			var unknown *client.UnknownError
			if err := h.Release(ctx); !errors.As(err, &unknown) {
				t.Errorf("release: %v, want *UnknownError", err)
			}
			settle(5 * time.Second)
			r.store.set(nil)
			r.acquire(t)
		})
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		r.store.set(only(lockcore.OpAcquire, func(ctx context.Context, do func() error) error {
			_ = do()
			return hanging(ctx, nil)
		}))
		seeker := make(chan error)
		go func() {
			_, err := r.Acquire(context.Background(), "other")
			seeker <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- r.Close(context.Background()) }()
		if err := <-seeker; !errors.Is(err, client.ErrClosed) {
			t.Errorf("acquire while the client closes: %v, want ErrClosed", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		if got := reason(h.Context()); got != lockcore.ReasonContext {
			t.Errorf("the held lock: %v, want context", got)
		}
		if undo := r.events.of(history.UndoReturn); len(undo) != 1 || undo[0].Outcome != history.OK {
			t.Errorf("undo of the acquire that was cut off: %+v", undo)
		}
		if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrClosed) {
			t.Errorf("acquire afterwards: %v, want ErrClosed", err)
		}
		if err := h.Release(t.Context()); err != nil { // the work has stopped at last
			t.Errorf("release afterwards: %v", err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestContinuity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Class = lockcore.Continuity
		r := newRig(t, p)
		h := r.acquire(t)
		r.store.set(only(lockcore.OpRenew, failing))
		settle(20 * time.Second)
		got := r.events.of(history.UnownedEnter, history.FenceObserved)
		if len(got) != 1 || got[0].Kind != history.UnownedEnter || got[0].From != int64(9900*time.Millisecond) {
			t.Errorf("events %+v, want one unowned.enter at the validity end", got)
		}
		if h.Context().Err() != nil || !errors.Is(h.Check(), client.ErrExpired) {
			t.Errorf("context %v, check %v: work goes on, Check refuses", h.Context().Err(), h.Check())
		}
	})
}

// goroutines counts those of the test's bubble, while the world stands still. runtime.NumGoroutine adds up free lists that change under it: it is 32 off when a processor fetches a batch.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ", synctest bubble ")
}

// A deadline that an answer brings forward is met, however soon it is.
func TestEachRenewalIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.RenewEvery = 300 * time.Millisecond
		r := newRig(t, p)
		r.acquire(t)
		settle(3 * time.Second)
		for i, e := range r.events.of(history.RenewInvoke) {
			if want := time.Duration(i+1) * p.RenewEvery; time.Duration(e.From) != want {
				t.Fatalf("renewal %d went out at %s, want %s", i+1, time.Duration(e.From), want)
			}
		}
	})
}

// An idle lock costs no goroutine.
func TestOneGoroutineKeepsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		before := goroutines()
		for i := range 500 {
			if _, err := r.Acquire(t.Context(), fmt.Sprint("k", i)); err != nil {
				t.Fatal(err)
			}
		}
		settle(10 * time.Second)
		if after := goroutines(); after > before+1 {
			t.Errorf("500 held locks cost %d goroutines", after-before)
		}
		if n := len(r.events.of(history.RenewReturn)); n != 1500 {
			t.Errorf("%d renewals in 10s, want 3 for each of 500 locks", n)
		}
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	broken := policy()
	broken.OpTimeout = 0
	for want, o := range map[string]client.Options{
		"Store":         {Policy: policy()},
		"OpTimeout":     {Store: memstore.NewStore(nil), Policy: broken},
		"Lock and Sour": {Store: memstore.NewStore(nil), Policy: policy(), Emit: func(history.Event) {}},
	} {
		if _, err := client.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q named", err, want)
		}
	}
}

// The client on the system's clocks, with nothing faked.
func TestSystemClock(t *testing.T) {
	p := policy()
	p.TTL, p.RenewEvery, p.Drift, p.StopBudget = 300*time.Millisecond, 50*time.Millisecond, time.Millisecond, 50*time.Millisecond
	e := &events{}
	c, err := client.New(client.Options{Store: memstore.NewStore(nil), Policy: p, Lock: "job", Source: "r1.1", Emit: e.add})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	h, err := c.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(10 * time.Second)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for len(e.of(history.RenewReturn)) < 10 { // more than one TTL
		select {
		case <-poll.C:
		case <-limit:
			t.Fatal("no renewals")
		}
	}
	if err := h.Check(); err != nil {
		t.Errorf("after ten renewals: %v", err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
