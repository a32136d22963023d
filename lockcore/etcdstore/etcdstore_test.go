//go:build full

package etcdstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
)

const patience = 30 * time.Second

func connect(t *testing.T, addr string, options ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialOptions: options, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConformance(t *testing.T) {
	c := connect(t, etcdtest.Start(t).Addr)
	open := func(*testing.T) lockcore.Store { return etcdstore.New(c, fmt.Sprintf("s%x:", rand.Uint64())) }
	// The servers end a lease some time after it has run out: it has no time left before it is gone.
	wait := func(d time.Duration) {
		<-time.After(d)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for {
			all, err := c.Leases(ctx)
			if err != nil {
				t.Fatalf("list leases: %v", err)
			}
			over := 0
			for _, l := range all.Leases {
				if left, err := c.TimeToLive(ctx, l.ID); err == nil && left.TTL == 0 {
					over++
				}
			}
			if over == 0 {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	storetest.StoreOf(t, etcdstore.Unit, open, wait)
}

// A transaction that is guarded by the fence has its effect while the epoch lasts, and none afterwards.
func TestAGuardedEffectIsTheHolders(t *testing.T) {
	c := connect(t, etcdtest.Start(t).Addr)
	s := etcdstore.New(c, "p:")
	write := func(fence int64, value string) bool {
		t.Helper()
		done, err := c.Txn(t.Context()).If(s.Guard("k", fence)).Then(clientv3.OpPut("effect", value)).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return done.Succeeded
	}
	first, err := s.Acquire(t.Context(), "k", "one", time.Minute)
	if err != nil || !write(first.Fence, "one") {
		t.Fatalf("the holder's effect with fence %d was refused: %v", first.Fence, err)
	}
	if err := s.Release(t.Context(), "k", "one"); err != nil {
		t.Fatal(err)
	}
	if write(first.Fence, "late") {
		t.Error("an effect after the release was accepted")
	}
	second, err := s.Acquire(t.Context(), "k", "two", time.Minute)
	if err != nil || second.Fence <= first.Fence || write(first.Fence, "stale") || !write(second.Fence, "two") {
		t.Errorf("fence %d after %d, %v: want the stale effect refused, and the holder's not", second.Fence, first.Fence, err)
	}
	if got, err := c.Get(t.Context(), "effect"); err != nil || string(got.Kvs[0].Value) != "two" {
		t.Errorf("effect %v, %v", got, err)
	}
}

// A lease whose ttl the servers raise would outlive what its holder was told: it is refused, and nothing is left of it.
func TestALeaseUnderTheLeastIsRefused(t *testing.T) {
	c := connect(t, etcdtest.Start(t, "--election-timeout", "2000").Addr)
	s := etcdstore.New(c, "p:")
	for _, ttl := range []time.Duration{time.Second, 1500 * time.Millisecond} {
		if _, err := s.Acquire(t.Context(), "k", "one", ttl); lockcore.ResultOf(err) != lockcore.Failed {
			t.Errorf("acquire for %s: %v, want an error that wraps ErrNotSent", ttl, err)
		}
	}
	if all, err := c.Leases(t.Context()); err != nil || len(all.Leases) != 0 {
		t.Errorf("leases %v, %v: want none left", all, err)
	}
}

// Whoever is refused, gives a lock back or has it taken away leaves no lease behind.
func TestNoLeaseIsLeftOver(t *testing.T) {
	c := connect(t, etcdtest.Start(t).Addr)
	s := etcdstore.New(c, "p:")
	if _, err := s.Acquire(t.Context(), "k", "one", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "k", "two", time.Minute); lockcore.ResultOf(err) != lockcore.Held {
		t.Fatalf("acquire of a held key: %v", err)
	}
	if err := s.Renew(t.Context(), "k", "one", time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Leases(t.Context()); err != nil || len(all.Leases) != 1 {
		t.Errorf("leases %v, %v: want the holder's", all, err)
	}
	if err := s.Release(t.Context(), "k", "one"); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Leases(t.Context()); err != nil || len(all.Leases) != 0 {
		t.Errorf("leases %v, %v: want none", all, err)
	}
}
