package client_test

import (
	"context"
	"errors"
	"fmt"
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

// A renewal that is told "not yours" is an error like any other to the published locks: the scheduler's third one gives the job up, and a
// run is never given up.
func TestPublishedLocksTakeALossForAFailure(t *testing.T) {
	for profile, want := range map[string]time.Duration{"cordum/scheduler-job": 60 * second, "cordum/workflow-run": 0} {
		synctest.Test(t, func(t *testing.T) {
			r := profileRig(t, profile)
			r.store.set(only(lockcore.OpRenew, func(context.Context, func() error) error { return &lockcore.NotOwnedError{Other: true} }))
			h := r.acquire(t)
			settle(10 * 60 * second)
			var at []time.Duration
			for _, e := range r.events.of(history.AbandonKind) {
				if at = append(at, time.Duration(e.From)); e.Abandon.Reason != string(lockcore.ReasonCount) || e.Abandon.Failures != 3 {
					t.Errorf("%s: given up by %+v", profile, e.Abandon)
				}
			}
			if given := want > 0; given != (len(at) == 1 && at[0] == want) || !given && (len(at) > 0 || h.Context().Err() != nil) {
				t.Errorf("%s: given up at %v, want %s", profile, at, want)
			}
			_ = h.Release(t.Context())
		})
	}
}

// After the abandonment the lock stays: with renewals that were applied unseen, for a whole TTL more.
func TestSchedulerJobLeavesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/scheduler-job")
		r.store.set(only(lockcore.OpRenew, lostReply))
		h := r.acquire(t)
		awaitEnd(t, h)
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
		settle(60*second - time.Millisecond)
		if left, held := r.heldFor(t); !held || left != time.Millisecond {
			t.Errorf("59.999s after the abandonment the key is held %t for %s, want for 1ms", held, left)
		}
		settle(time.Millisecond)
		if _, held := r.heldFor(t); held {
			t.Error("the key outlives its TTL")
		}
	})
}

// A store that hangs instead of failing: the third failure is known at 62s, and the key was free at 60s. That is L1.
func TestSchedulerJobOverlapsByItsOpTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/scheduler-job")
		r.store.set(only(lockcore.OpRenew, hanging))
		h := r.acquire(t)
		settle(60 * second)
		if _, held := r.heldFor(t); held || h.Context().Err() != nil {
			t.Errorf("at 60s the key is held %t, and the holder told %v: want a free key and a holder at work", held, h.Context().Err())
		}
		awaitEnd(t, h)
		if got := r.since(); got != 62*second {
			t.Errorf("told at %s, want 62s: an overlap of the op timeout", got)
		}
	})
}

// One failure and a success: the count begins anew. (After two, the third renewal comes at the very end of the lease, too late.)
func TestSchedulerJobForgivesIntermittentFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/scheduler-job")
		n := 0
		r.store.set(only(lockcore.OpRenew, func(_ context.Context, do func() error) error {
			if n++; n%2 != 0 {
				return errLost
			}
			return do()
		}))
		h := r.acquire(t)
		settle(10*60*second + time.Millisecond)
		if err := h.Check(); err != nil || n != 30 {
			t.Errorf("after %d renewals of which every other one failed: %v", n, err)
		}
		_ = h.Release(t.Context())
	})
}

// Released twice with fresh contexts of 2s each, then left to its TTL.
func TestSchedulerJobReleasesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/scheduler-job")
		var budgets []time.Duration
		r.store.set(only(lockcore.OpRelease, func(ctx context.Context, do func() error) error {
			end, _ := ctx.Deadline()
			budgets = append(budgets, time.Until(end))
			return hanging(ctx, do)
		}))
		h := r.acquire(t)
		settle(5 * second)
		done, cancel := context.WithCancel(t.Context())
		cancel() // the caller's context is over: the release has its own
		_ = h.Release(done)
		settle(30 * second)
		if want := []time.Duration{2 * second, 2 * second}; !slices.Equal(budgets, want) {
			t.Errorf("releases had %v, want %v", budgets, want)
		}
		if left, held := r.heldFor(t); !held || left != 25*second {
			t.Errorf("35s after the grant the key is held %t for %s, want for the rest of its TTL", held, left)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the first try fails, the second frees the key
		r := profileRig(t, "cordum/scheduler-job")
		n := 0
		r.store.set(only(lockcore.OpRelease, func(_ context.Context, do func() error) error {
			if n++; n == 1 {
				return fmt.Errorf("%w: refused", lockcore.ErrNotSent)
			}
			return do()
		}))
		if err := r.acquire(t).Release(t.Context()); err != nil || n != 2 {
			t.Errorf("release: %v after %d calls, want success with the second", err, n)
		}
		if _, held := r.heldFor(t); held {
			t.Error("the key is not free")
		}
	})
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

// One release, of 2s; then the TTL.
func TestWorkflowRunReleasesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := profileRig(t, "cordum/workflow-run")
		r.store.set(only(lockcore.OpRelease, hanging))
		h := r.acquire(t)
		start := r.since()
		if err := h.Release(t.Context()); err == nil || r.since()-start != 2*second {
			t.Errorf("release: %v after %s, want a failure after 2s", err, r.since()-start)
		}
		if n := len(r.events.of(history.ReleaseInvoke)); n != 1 {
			t.Errorf("%d releases, want 1", n)
		}
		if left, held := r.heldFor(t); !held || left != 28*second {
			t.Errorf("held %t for %s, want 28s of lock debt", held, left)
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

// An error is the answer of a published approval, at once; a call that hangs has its whole 2s, and begins up to 2s after the first; a reply
// that is lost leaves the key taken for its whole TTL.
func TestApprovalLeavesOutWhatWasLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		busy  bool // before the call that goes wrong
		fails func(context.Context, func() error) error
		took  time.Duration
		owed  time.Duration // of the key, when the caller is told
	}{
		"refused":            {false, func(context.Context, func() error) error { return lockcore.ErrNotSent }, 0, 0},
		"lost reply":         {false, lostReply, 0, 10 * second},
		"hangs at last":      {true, hanging, 4 * second, 0},
		"hangs at the first": {false, hanging, 2 * second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := profileRig(t, "cordum/approval")
				r.store.set(func(ctx context.Context, op lockcore.Op, do func() error) error {
					if op != lockcore.OpAcquire || c.busy && r.since() < 2*second {
						return do()
					}
					return c.fails(ctx, do)
				})
				if c.busy {
					if _, err := r.store.Store.Acquire(t.Context(), "k", "dead", 3*second); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := r.Acquire(t.Context(), "k"); err == nil || errors.Is(err, client.ErrBusy) {
					t.Errorf("acquire: %v, want an error that is not busy", err)
				}
				if r.since() != c.took {
					t.Errorf("answered after %s, want %s", r.since(), c.took)
				}
				if n := len(r.events.of(history.UndoInvoke)); n != 0 {
					t.Errorf("%d undos, want none", n)
				}
				if owed, held := r.heldFor(t); owed != c.owed || held != (c.owed > 0) {
					t.Errorf("the key is held for %s, want %s", owed, c.owed)
				}
			})
		})
	}
}

// The three classes of our own, when every renewal hangs: who stops when, and what becomes of the key.
func TestOwnClassesUnderABlackHole(t *testing.T) {
	for _, c := range []struct {
		profile string
		stops   bool
		reason  lockcore.Reason
	}{
		{"lockdrill/critical", true, lockcore.ReasonCount},
		{"lockdrill/standard", true, lockcore.ReasonDeadline},
		{"lockdrill/continuity", false, ""},
	} {
		t.Run(c.profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := profileRig(t, c.profile)
				r.store.set(only(lockcore.OpRenew, hanging))
				h := r.acquire(t)
				settle(29700 * time.Millisecond) // the validity end
				told := h.Context().Err() != nil
				if told != c.stops || reason(h.Context()) != c.reason {
					t.Errorf("at the validity end told %t (%s), want %t (%s)", told, reason(h.Context()), c.stops, c.reason)
				}
				if at := append(r.instants(history.FenceObserved), r.instants(history.UnownedEnter)...); len(at) != 1 || c.stops && at[0] > 28700*time.Millisecond || !c.stops && at[0] != 29700*time.Millisecond {
					t.Errorf("noticed at %v: want once, by 28.7s where it stops, else at 29.7s", at)
				}
				_ = h.Release(t.Context())
				if _, held := r.heldFor(t); held {
					t.Error("released once the work has stopped, the key is still held")
				}
			})
		})
	}
}
