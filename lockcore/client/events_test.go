package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// story is the events as short lines, with their brackets in ms; ops are left out, but must pair.
func (e *events) story(t *testing.T) string {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	open := map[string]history.Event{}
	for _, ev := range e.all {
		fmt.Fprintf(&b, "%s [%d %d]", ev.Kind, ev.From/1e6, ev.To/1e6)
		if ev.Outcome != "" {
			fmt.Fprintf(&b, " %s", ev.Outcome)
			began, ok := open[ev.Op]
			if !ok || began.Epoch != ev.Epoch && began.Epoch != "" {
				t.Errorf("%s %s has no beginning", ev.Kind, ev.Op)
			}
		} else if ev.Op != "" {
			open[ev.Op] = ev
		}
		if c := ev.Call; c != nil {
			fmt.Fprintf(&b, " %s", strings.Join(strings.Fields(c.Result+" "+c.Why+" "+c.Err+" "+c.Fault), " "))
		}
		if a := ev.Abandon; a != nil {
			fmt.Fprintf(&b, " %s %d", a.Reason, a.Failures)
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

func wantStory(t *testing.T, e *events, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimPrefix(want, "\n"), "\t", "")
	if got := e.story(t); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
}

func TestEventsOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		r.store.set(func(_ context.Context, _ lockcore.Op, do func() error) error {
			wait(2 * time.Millisecond)
			err := do()
			wait(2 * time.Millisecond)
			return err
		})
		h := r.acquire(t)
		settle(3996*time.Millisecond + 4*time.Millisecond)
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantStory(t, r.events, `
			acquire.invoke [0 0]
			acquire.return [0 4] ok granted
			renew.invoke [3004 3004]
			renew.return [3004 3008] ok renewed
			release.invoke [4004 4004]
			release.return [4004 4008] ok released
			`)
		granted := r.events.of(history.AcquireReturn)[0]
		if granted.Epoch != h.Epoch() || granted.Fence != h.Fence() || granted.Lock != "job" || granted.Key != "k" || granted.Source != "r1.1" || granted.Clock != history.ClockShared {
			t.Errorf("envelope %+v", granted)
		}
		if invoke := r.events.of(history.AcquireInvoke)[0]; invoke.Fence != 0 || !invoke.Call.Demand || invoke.Call.TTL != int64(10*time.Second) {
			t.Errorf("acquire.invoke %+v: want no fence yet, demand, the ttl", invoke)
		}
	})
}

// burst is an error as a fault injector makes it.
type burst struct{}

func (burst) Error() string { return "made to fail" }
func (burst) Fault() string { return "burst#1" }
func (burst) Unwrap() error { return lockcore.ErrNotSent }

func TestEventsOfAnAbandonment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Class, p.MaxFailures, p.Release.AfterAbandon = lockcore.LegacyCount, 2, lockcore.AfterAbandonSkip
		r := newRig(t, p)
		r.store.set(only(lockcore.OpRenew, func(context.Context, func() error) error { return burst{} }))
		h := r.acquire(t)
		settle(7 * time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("release after an abandonment: %v", err)
		}
		wantStory(t, r.events, `
			acquire.invoke [0 0]
			acquire.return [0 0] ok granted
			renew.invoke [3000 3000]
			renew.return [3000 3000] fail error made to fail burst#1
			renew.invoke [6000 6000]
			renew.return [6000 6000] fail error made to fail burst#1
			fence.observed [6000 6000] count 2
			abandon [6000 6000] count 2
			release.skipped [7000 7000] after_abandon
			`)
	})
}

func TestEventsOfATTLHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		h := r.acquire(t)
		settle(time.Second)
		h.Leave()
		h.Leave()
		if err := h.Release(t.Context()); !errors.Is(err, client.ErrReleased) {
			t.Errorf("release of what was left: %v, want ErrReleased", err)
		}
		if _, err := r.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrBusy) {
			t.Errorf("acquire of a key of one's own that runs out: %v, want ErrBusy", err)
		}
		settle(20 * time.Second)
		wantStory(t, r.events, `
			acquire.invoke [0 0]
			acquire.return [0 0] ok granted
			release.skipped [1000 1000] ttl_hold
			acquire.invoke [1000 1000]
			acquire.return [1000 1000] fail held
			fence.observed [9900 9900] expired 0
			`)
	})
}

func TestEventsOfABoundedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy()
		p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: time.Second, Budget: 2 * time.Second,
			Backoff: lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: 900 * time.Millisecond}}
		holder := newRig(t, p)
		waiter := joinRig(t, p, holder.store)
		h := holder.acquire(t)
		if _, err := waiter.Acquire(t.Context(), "k"); !errors.Is(err, client.ErrBusy) {
			t.Errorf("acquire: %v, want ErrBusy", err)
		}
		var held *lockcore.HeldError
		if _, err := waiter.Acquire(t.Context(), "k"); !errors.As(err, &held) || held.Holder != h.Epoch() {
			t.Errorf("acquire: %v, want it to know the holder", err)
		}
		wantStory(t, waiter.events, `
			acquire.invoke [0 0]
			acquire.return [0 0] fail held
			wait.begin [0 0] held
			acquire.invoke [900 900]
			acquire.return [900 900] fail held
			acquire.invoke [1800 1800]
			acquire.return [1800 1800] fail held
			wait.end [1800 1800] fail held
			acquire.invoke [1800 1800]
			acquire.return [1800 1800] fail held
			wait.begin [1800 1800] held
			acquire.invoke [2700 2700]
			acquire.return [2700 2700] fail held
			acquire.invoke [3600 3600]
			acquire.return [3600 3600] fail held
			wait.end [3600 3600] fail held
			`)
		if n := len(waiter.events.of(history.AcquireInvoke)); n != 6 {
			t.Fatalf("%d tries", n)
		}
		seen := map[string]bool{}
		for _, e := range waiter.events.of(history.AcquireInvoke) {
			seen[e.Epoch] = true
		}
		if len(seen) != 6 {
			t.Errorf("6 tries had %d epochs: each needs a token of its own", len(seen))
		}
	})
}

// The line that announces a call must be out before the call is made: a worker that is killed in between has announced it.
func TestInvokeIsEmittedBeforeTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, policy())
		kinds := map[lockcore.Op]history.Kind{lockcore.OpAcquire: history.AcquireInvoke, lockcore.OpRenew: history.RenewInvoke, lockcore.OpRelease: history.ReleaseInvoke}
		calls := map[lockcore.Op]int{}
		r.store.set(func(_ context.Context, op lockcore.Op, do func() error) error {
			calls[op]++
			if n := len(r.events.of(kinds[op])); n != calls[op] {
				t.Errorf("%d %s calls, %d announced", calls[op], op, n)
			}
			return do()
		})
		h := r.acquire(t)
		settle(4 * time.Second)
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if len(calls) != 3 {
			t.Errorf("calls %v", calls)
		}
	})
}
