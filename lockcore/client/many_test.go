package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// renewsMany is a faulty store that takes many renewals at once; each goes wrong by itself.
type renewsMany struct {
	*faulty
	mu    sync.Mutex
	sizes []int
}

func (f *renewsMany) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	f.mu.Lock()
	f.sizes = append(f.sizes, len(renewals))
	f.mu.Unlock()
	var all sync.WaitGroup
	for i := range renewals {
		all.Go(func() { renewals[i].Err = f.Renew(ctx, renewals[i].Key, renewals[i].Token, ttl) })
	}
	all.Wait()
}

const onMany = "TestPointsWhereTheStoreRenewsMany"

// storeFor is the store as the client sees it: tests run below onMany give it the means to take many renewals at once.
func storeFor(t *testing.T, s *faulty) lockcore.Store {
	if strings.HasPrefix(t.Name(), onMany+"/") {
		return &renewsMany{faulty: s}
	}
	return s
}

// The fourteen points, and the faults, hold on the fast path as well.
func TestPointsWhereTheStoreRenewsMany(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"01": TestPoint01ValidityCountsFromSend, "02": TestPoint02RenewalBoundedByGrantedValidity,
		"03": TestPoint03TimerAtValidityEndAlwaysArmed, "04": TestPoint04NotOwnedIsDefinitive,
		"05": TestPoint05StopBeforeRelease, "06": TestPoint06ReleaseComparesTokenAtTheStore,
		"07": TestPoint07LostAcquireReplyIsUndone, "08": TestPoint08LostReleaseReplyIsReadBack,
		"09": TestPoint09HolderIsTold, "10": TestPoint10SuspensionIsNoticed,
		"11": TestPoint11FailureCountResetsOnSuccessOnly, "12": TestPoint12FenceIsMintedWithTheEpoch,
		"13": TestPoint13NoReentrancy, "14": TestPoint14WatchdogNeverOutlivesWork,
		"continuity": TestContinuity, "close": TestClose,
		"hold": TestEventsOfAHold, "abandonment": TestEventsOfAnAbandonment, "goroutines": TestOneGoroutineKeepsTheTime,
	} {
		t.Run(name, test)
	}
}

// Renewals that are due together are made in few calls; one that fails, or finds its lock lost, is nobody else's matter.
func TestRenewalsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewsMany{faulty: newFaulty()}
		r := joinRigOn(t, policy(), store.faulty, store)
		const n = 500
		for i := range n {
			if _, err := r.Acquire(t.Context(), fmt.Sprint("k", i)); err != nil {
				t.Fatal(err)
			}
		}
		store.vanish(t, fmt.Sprint("k", n-1))
		settle(4 * time.Second)
		if len(store.sizes) > 2 {
			t.Errorf("renewals came in calls of %v, want one of %d", store.sizes, n)
		}
		if got := len(r.events.of(history.AbandonKind)); got != 1 {
			t.Errorf("%d locks abandoned, want the one that was lost", got)
		}
		settle(20 * time.Second)
		if got := len(r.events.of(history.AbandonKind)); got != 1 {
			t.Errorf("%d locks abandoned after 24s, want 1", got)
		}
	})
}

// Where the store hangs, a renewal of one lock takes its own time and nobody else's: each ends at its own limit, however many hang.
func TestRenewalsThatHangDoNotWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewsMany{faulty: newFaulty()}
		r := joinRigOn(t, policy(), store.faulty, store)
		for i := range 20 {
			if _, err := r.Acquire(t.Context(), fmt.Sprint("k", i)); err != nil {
				t.Fatal(err)
			}
			wait(100 * time.Millisecond)
		}
		store.set(only(lockcore.OpRenew, hanging))
		settle(4 * time.Second) // all have been due once
		returns := r.events.of(history.RenewReturn)
		if len(returns) < 20 {
			t.Errorf("%d renewals have ended, want at least 20", len(returns))
		}
		for _, e := range returns {
			if e.Outcome != history.Unknown || e.Width() != int64(time.Second) {
				t.Errorf("renewal of %s: %s after %s, want unknown after its limit, 1s", e.Key, e.Outcome, time.Duration(e.Width()))
			}
		}
	})
}
