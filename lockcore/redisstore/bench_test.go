package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// BenchmarkPairs is acquire and release of distinct keys on a redis-server of its own, through the client and through the store
// alone: the difference is what the client costs.
//
//	go test -run - -bench Pairs -benchmem ./lockcore/redisstore
func BenchmarkPairs(b *testing.B) {
	opens := map[string]func(c *redis.Client) lockcore.Store{
		"plain":   func(c *redis.Client) lockcore.Store { return redisstore.NewStore(c, "") },
		"batched": func(c *redis.Client) lockcore.Store { return newBatched(b, c, "") },
	}
	for _, path := range []string{"plain", "batched"} {
		for _, callers := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("%s/store/callers=%d", path, callers), func(b *testing.B) {
				rc, _ := startRedis(b)
				storePairs(b, opens[path](rc), callers)
			})
			b.Run(fmt.Sprintf("%s/client/callers=%d", path, callers), func(b *testing.B) {
				rc, _ := startRedis(b)
				clientPairs(b, opens[path](rc), callers)
			})
		}
	}
}

func storePairs(b *testing.B, s lockcore.Store, callers int) {
	pairs(b, callers, func(ctx context.Context, key string) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, key, "token", time.Minute); err != nil {
			return err
		}
		return s.Release(ctx, key, "token")
	})
}

func clientPairs(b *testing.B, s lockcore.Store, callers int) {
	c, err := client.New(client.Options{Store: s, Policy: lockcore.Policy{
		TTL: time.Minute, RenewEvery: 20 * time.Second, Class: lockcore.Standard, OpTimeout: 2 * time.Second, StopBudget: time.Second,
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: 2 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * time.Second},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	pairs(b, callers, func(ctx context.Context, key string) error {
		h, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return h.Release(ctx)
	})
}

// pairs shares b.N pairs among callers, each with a key of its own.
func pairs(b *testing.B, callers int, pair func(ctx context.Context, key string) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	errs := make(chan error, callers)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range callers {
		go func() {
			key := fmt.Sprint("lock", i)
			var err error
			for err == nil && left.Add(-1) >= 0 {
				err = pair(b.Context(), key)
			}
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
