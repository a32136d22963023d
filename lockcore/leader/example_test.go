package leader_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/leader"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// Two replicas, and a first tick that stalls for longer than its lease. As published a second leader works beside it; under Run the tick
// is told in time to stop.
func Example() {
	cfg := leader.LeaderLoopConfig{PollInterval: 50 * time.Millisecond, LockTTL: 2 * time.Second, HoldUntilTTL: true}

	var published, safe atWork
	var replicas sync.WaitGroup
	ctx, stop := context.WithTimeout(context.Background(), 3500*time.Millisecond)
	defer stop()
	one, other := memstore.NewStore(nil), memstore.NewStore(nil)
	for range 2 {
		replicas.Go(func() { leader.RunLeaderLoop(ctx, leader.Locks(one), "leader", cfg, published.tick) })
		replicas.Go(func() {
			_ = leader.Run(ctx, other, "leader", cfg, func(ctx context.Context, _ *client.Handle) error { return safe.tick(ctx) })
		})
	}
	replicas.Wait()
	fmt.Println("as published, at once:", published.most)
	fmt.Println("under Run, at once:", safe.most)
	// Output:
	// as published, at once: 2
	// under Run, at once: 1
}

// atWork counts how many ticks are under way. The first one stalls.
type atWork struct {
	mu              sync.Mutex
	now, most, done int
}

func (a *atWork) tick(ctx context.Context) error {
	a.mu.Lock()
	a.now, a.most = a.now+1, max(a.most, a.now+1)
	stalls := a.done == 0
	a.done++
	a.mu.Unlock()
	defer func() { a.mu.Lock(); a.now--; a.mu.Unlock() }()
	if stalls {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	return nil
}
