//go:build full

package etcdstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
)

// pointRig is a client on a server of its own.
type pointRig struct {
	*client.Client
	etcd   *clientv3.Client
	server *etcdtest.Server
	store  *etcdstore.Store
	cutter *cutter
	clock  *movedClock

	mu     sync.Mutex
	events []history.Event
	before func(history.Event) // called with each event before it is kept
}

// cutter loses the reply of the next transaction, once it is armed; of a renewal, which has none, that of the read behind it.
type cutter struct {
	armed atomic.Bool
	reads atomic.Bool  // renewals are meant
	calls atomic.Int64 // all
}

func (c *cutter) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, o...)
	c.calls.Add(1)
	if c.cuts(method) && c.armed.CompareAndSwap(true, false) {
		if !c.reads.Load() {
			return status.Error(codes.Unavailable, "the connection was cut") // which the client does not repeat: it may have had its effect
		}
		<-ctx.Done() // a read would be repeated
		return ctx.Err()
	}
	return err
}

// cuts reports the call that an operation is done with: acquire and release end with a transaction, a renewal with a read.
func (c *cutter) cuts(method string) bool {
	return method == "/etcdserverpb.KV/Txn" || c.reads.Load() && method == "/etcdserverpb.KV/Range"
}

// movedClock is the system's, whose other clocks can be moved on.
type movedClock struct {
	client.Clock
	mu         sync.Mutex
	boot, wall time.Duration
}

func (c *movedClock) Now() lockcore.Instant {
	now := c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	now.Boot, now.Wall = now.Boot+c.boot, now.Wall+c.wall
	return now
}

func (c *movedClock) move(boot, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot, c.wall = c.boot+boot, c.wall+wall
}

func pointPolicy() lockcore.Policy {
	return lockcore.Policy{
		TTL: pointTTL, RenewEvery: 100 * time.Millisecond, Class: lockcore.Standard, OpTimeout: time.Second, Drift: pointDrift, StopBudget: pointBudget,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 3, Timeout: 2 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 10 * time.Second},
	}
}

func newPointRig(t *testing.T, p lockcore.Policy) *pointRig {
	t.Helper()
	r := &pointRig{cutter: &cutter{}, clock: &movedClock{Clock: client.NewSystemClock()}}
	r.server = etcdtest.Start(t)
	r.etcd = connect(t, r.server.Addr, grpc.WithChainUnaryInterceptor(r.cutter.intercept))
	r.store = etcdstore.New(r.etcd, "")
	r.join(t, p)
	return r
}

// join gives the rig another client of the same store.
func (r *pointRig) join(t *testing.T, p lockcore.Policy) {
	t.Helper()
	c, err := client.New(client.Options{Store: r.store, Policy: p, Lock: "job", Source: "r1.1", Clock: r.clock, Emit: r.keep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r.Client = c
}

func (r *pointRig) keep(e history.Event) {
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	if before != nil {
		before(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *pointRig) of(k history.Kind) (found []history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

func (r *pointRig) on(before func(history.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

func (r *pointRig) hold(t *testing.T) *client.Handle {
	t.Helper()
	h, err := r.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// stop makes the server stand still until it is resumed.
func (r *pointRig) stop(t *testing.T) {
	t.Helper()
	if err := r.server.Stop(); err != nil {
		t.Error(err)
	}
}

func (r *pointRig) resume(t *testing.T) {
	t.Helper()
	if err := r.server.Continue(); err != nil {
		t.Error(err)
	}
}

func (r *pointRig) drop(t *testing.T) {
	t.Helper()
	if _, err := r.etcd.Delete(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

func (r *pointRig) token(t *testing.T) string {
	t.Helper()
	got, err := r.etcd.Get(t.Context(), "k")
	if err != nil {
		t.Error(err)
	}
	if err != nil || len(got.Kvs) == 0 {
		return ""
	}
	return string(got.Kvs[0].Value)
}

// until waits for something to come true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll, limit := time.NewTicker(2*time.Millisecond), time.After(patience)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func ended(t *testing.T, h *client.Handle) lockcore.Reason {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the holder is never told")
	}
	var a *client.AbandonedError
	if !errors.As(context.Cause(h.Context()), &a) {
		t.Fatalf("cause %v, want an abandonment", context.Cause(h.Context()))
	}
	return a.Reason
}
