package leader

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// atOnce runs two replicas of a loop for two minutes, and gives the most ticks at once and their number. The first tick takes 25 s
// where its context does not end it, the others 1 s.
func atOnce(t *testing.T, loop func(ctx context.Context, work func(context.Context) error)) (most, ticks int32) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		at := int32(0)
		work := func(ctx context.Context) error {
			mu.Lock()
			at, ticks = at+1, ticks+1
			most = max(most, at)
			length := time.Second
			if ticks == 1 {
				length = 25 * time.Second
			}
			mu.Unlock()
			defer func() { mu.Lock(); at--; mu.Unlock() }()
			select {
			case <-time.After(length):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		var replicas sync.WaitGroup
		for range 2 {
			replicas.Go(func() { loop(ctx, work) })
		}
		<-time.After(2 * time.Minute)
		stop()
		replicas.Wait()
	})
	return most, ticks
}

// A tick that stalls for longer than its lease has a second leader beside it as published, whatever becomes of the key after a tick; that
// of Run is told before.
func TestAStalledTick(t *testing.T) {
	for _, hold := range []bool{true, false} {
		cfg := LeaderLoopConfig{PollInterval: 5 * time.Second, LockTTL: 10 * time.Second, HoldUntilTTL: hold}
		store := memstore.NewStore(nil)
		most, ticks := atOnce(t, func(ctx context.Context, work func(context.Context) error) {
			RunLeaderLoop(ctx, Locks(store), "k", cfg, work)
		})
		if most != 2 || ticks < 5 {
			t.Errorf("hold %v, published: %d at once in %d ticks, want 2", hold, most, ticks)
		}
		store = memstore.NewStore(nil)
		most, ticks = atOnce(t, func(ctx context.Context, work func(context.Context) error) {
			err := Run(ctx, store, "k", cfg, func(ctx context.Context, _ *client.Handle) error { return work(ctx) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
		if most != 1 || ticks < 5 {
			t.Errorf("hold %v, Run: %d at once in %d ticks, want 1", hold, most, ticks)
		}
	}
}

// counted counts the calls to a store.
type counted struct {
	lockcore.Store
	renewals, releases atomic.Int32
}

func (c *counted) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	c.renewals.Add(1)
	return c.Store.Renew(ctx, key, token, ttl)
}

func (c *counted) Release(ctx context.Context, key, token string) error {
	c.releases.Add(1)
	return c.Store.Release(ctx, key, token)
}

// Renewals go out while a tick lasts and not after it, and the key is released only where it is not left to its TTL.
func TestWhatBecomesOfTheKey(t *testing.T) {
	for _, hold := range []bool{true, false} {
		for name, loop := range map[string]func(context.Context, lockcore.Store, LeaderLoopConfig, func()){
			"published": func(ctx context.Context, s lockcore.Store, cfg LeaderLoopConfig, tick func()) {
				RunLeaderLoop(ctx, Locks(s), "k", cfg, func(context.Context) error { tick(); return nil })
			},
			"Run": func(ctx context.Context, s lockcore.Store, cfg LeaderLoopConfig, tick func()) {
				_ = Run(ctx, s, "k", cfg, func(context.Context, *client.Handle) error { tick(); return nil })
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := &counted{Store: memstore.NewStore(nil)}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					cfg := LeaderLoopConfig{PollInterval: 10 * time.Second, LockTTL: 9 * time.Second, RenewEvery: 3 * time.Second, HoldUntilTTL: hold}
					loop(ctx, s, cfg, func() { <-time.After(7 * time.Second) })
				}()
				<-time.After(19 * time.Second) // one tick, from 10 s to 17 s
				stop()
				<-done
				want := int32(1)
				if hold {
					want = 0
				}
				if s.renewals.Load() != 2 || s.releases.Load() != want {
					t.Errorf("%s, hold %v: %d renewals and %d releases, want 2 and %d", name, hold, s.renewals.Load(), s.releases.Load(), want)
				}
			})
		}
	}
}

func TestLocks(t *testing.T) {
	l := Locks(memstore.NewStore(nil))
	token, err := l.TryAcquireLock(t.Context(), "k", time.Hour)
	if err != nil || token == "" {
		t.Fatal(token, err)
	}
	if other, err := l.TryAcquireLock(t.Context(), "k", time.Hour); other != "" || err != nil {
		t.Errorf("a second acquire gives %q, %v; want neither", other, err)
	}
	for name, call := range map[string]func(token string) error{
		"release": func(token string) error { return l.ReleaseLock(t.Context(), "k", token) },
		"renew":   func(token string) error { return l.RenewLock(t.Context(), "k", token, time.Hour) },
	} {
		if err, want := call(""), map[string]string{"release": "lock token required", "renew": "lock not owned"}[name]; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s without a token: %v, want %q", name, err, want)
		}
		if err := call("wrong"); !errors.Is(err, ErrNotOwned) {
			t.Errorf("%s with another's token: %v", name, err)
		}
	}
	if err := errors.Join(l.RenewLock(t.Context(), "k", token, time.Hour), l.ReleaseLock(t.Context(), "k", token)); err != nil {
		t.Errorf("with its own token: %v", err)
	}
}

func TestRunRefusesWhatItCannotFollow(t *testing.T) {
	for _, cfg := range []LeaderLoopConfig{{LockTTL: time.Second}, {PollInterval: time.Second}} {
		if err := Run(t.Context(), memstore.NewStore(nil), "k", cfg, nil); err == nil {
			t.Errorf("%+v was followed", cfg)
		}
	}
}
