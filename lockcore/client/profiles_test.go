package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// The published behaviour of the shipped profiles, at their published numbers: virtual time makes them exact.

const second = time.Second

// profileRig is a rig under a shipped profile's policy.
func profileRig(t *testing.T, name string) *rig {
	t.Helper()
	l, err := experiments.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, l.Policy)
}

// instants is when each event of a kind began.
func (r *rig) instants(k history.Kind) []time.Duration {
	var at []time.Duration
	for _, e := range r.events.of(k) {
		at = append(at, time.Duration(e.From))
	}
	return at
}

// held is the error of a stranger's attempt on the key: nil = it is free (and is the stranger's now).
func (r *rig) heldFor(t *testing.T) (time.Duration, bool) {
	t.Helper()
	var held *lockcore.HeldError
	_, err := r.store.Store.Acquire(t.Context(), "k", "stranger", second)
	if err == nil {
		return 0, false
	}
	if !errors.As(err, &held) {
		t.Fatalf("look at the key: %v", err)
	}
	return held.PTTL, true
}

// Three failed renewals, at 20s, 40s and 60s: abandoned with that as the cause, no fourth, no release.
func TestSchedulerJobGivesUpAfterThreeFailures(t *testing.T) {
	for name, fail := range map[string]func(context.Context, func() error) error{"refused": failing, "lost replies": lostReply} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := profileRig(t, "cordum/scheduler-job")
				r.store.set(only(lockcore.OpRenew, fail))
				var stopped time.Duration
				err := r.Do(t.Context(), "k", func(ctx context.Context, _ *client.Handle) error {
					<-ctx.Done()
					stopped = r.since()
					return nil
				})
				var abandoned *client.AbandonedError
				if !errors.As(err, &abandoned) || abandoned.Reason != lockcore.ReasonCount || abandoned.Failures != 3 || stopped != 60*second {
					t.Errorf("stopped at %s by %v, want count after 3 failures at 1m", stopped, err)
				}
				settle(time.Hour)
				if at, want := r.instants(history.RenewInvoke), []time.Duration{20 * second, 40 * second, 60 * second}; !slices.Equal(at, want) {
					t.Errorf("renewals at %v, want exactly %v", at, want)
				}
				if n, skipped := len(r.events.of(history.ReleaseInvoke)), r.events.of(history.ReleaseSkipped); n != 0 || len(skipped) != 1 || skipped[0].Call.Why != "after_abandon" {
					t.Errorf("%d releases sent, %d skipped: want one that is skipped", n, len(skipped))
				}
			})
		})
	}
}

// The run lock warns and goes on: past its TTL, beside a stranger, until its work is over.
func TestWorkflowRunWarnsAndContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/workflow-run")
		r.store.set(only(lockcore.OpRenew, failing))
		h := r.acquire(t)
		settle(95 * second)
		if h.Context().Err() != nil {
			t.Errorf("told to stop: %v", context.Cause(h.Context()))
		}
		if h.Check() == nil {
			t.Error("Check says that the lock may be relied on, 65s past its TTL")
		}
		want := []time.Duration{10 * second, 20 * second, 30 * second, 40 * second, 50 * second, 60 * second, 70 * second, 80 * second, 90 * second}
		if at := r.instants(history.RenewInvoke); !slices.Equal(at, want) {
			t.Errorf("renewals at %v, want every 10s", at)
		}
		if _, held := r.heldFor(t); held {
			t.Error("the key is not free for a second holder")
		}
		if err := h.Release(t.Context()); err == nil {
			t.Error("the release of a stranger's key succeeded")
		}
		if n := len(r.events.of(history.FenceObserved)); n != 0 {
			t.Errorf("%d abandonments, want none", n)
		}
	})
}

// An approval is asked for every 25ms; after 2s the answer is busy, while the dead holder's lease has 8s to go.
func TestApprovalGivesUpBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/approval")
		if _, err := r.store.Store.Acquire(t.Context(), "k", "dead", 10*second); err != nil {
			t.Fatal(err)
		}
		_, err := r.Acquire(t.Context(), "k")
		var held *lockcore.HeldError
		if !errors.Is(err, client.ErrBusy) || !errors.As(err, &held) {
			t.Fatalf("acquire: %v, want busy, and by whom", err)
		}
		tries := r.instants(history.AcquireInvoke)
		if last := tries[len(tries)-1]; r.since() > 2*second || last < 2*second-25*time.Millisecond || len(tries) != 81 { // the last begins within the 2s
			t.Errorf("busy at %s after %d tries, the last at %s", r.since(), len(tries), last)
		}
		for i := range tries {
			if tries[i] != time.Duration(i)*25*time.Millisecond {
				t.Fatalf("try %d at %s", i+1, tries[i])
			}
		}
		settle(10*second - r.since())
		if h := r.acquire(t); h.Remaining() != 10*second {
			t.Errorf("granted for %s, want 10s", h.Remaining())
		}
	})
}
