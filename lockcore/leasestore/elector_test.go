package leasestore

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockdrill/lockdrill/lockcore"
)

// client-go's own elector waits for the lock's holder, and the lock for the elector; the fence lives on through the elector's term.
func TestALockAndAnElectorTakeTurns(t *testing.T) {
	const patience = 20 * time.Second
	c := newFake()
	s := New(c.CoordinationV1(), "ns", "")
	first := acquired(t, s, "leader", "ours", time.Hour)

	saw, leads, ended := make(chan string, 8), make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: "leader", Namespace: "ns"}, Client: c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "theirs"},
		},
		LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 20 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() {}, OnNewLeader: func(who string) { saw <- who },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		elector.Run(ctx)
		close(ended)
	}()
	select {
	case who := <-saw:
		if who != digest("ours") || elector.IsLeader() {
			t.Fatalf("the elector sees %q and leads: %v", who, elector.IsLeader())
		}
	case <-time.After(patience):
		t.Fatalf("the elector sees nobody within %s", patience)
	}
	if err := s.Release(t.Context(), "leader", "ours"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-leads:
	case <-time.After(patience):
		t.Fatalf("the elector does not lead within %s of the release", patience)
	}
	if _, err := s.Acquire(t.Context(), "leader", "again", time.Hour); lockcore.ResultOf(err) != lockcore.Held {
		t.Errorf("acquire while the elector leads: %v, want held", err)
	}
	stop()
	<-ended // it has released
	if second := acquired(t, s, "leader", "again", time.Hour); second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
}
