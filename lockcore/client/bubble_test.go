package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
)

// The tests run in synctest bubbles: time is exact there, so they compare instants with ==. A bubble does not fake the system
// call behind CLOCK_MONOTONIC, hence a clock of their own.

// clock runs on the bubble's time.
type clock struct {
	start time.Time

	mu         sync.Mutex
	boot, wall time.Duration // ahead of Mono
}

func (c *clock) Now() lockcore.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := time.Since(c.start)
	return lockcore.Instant{Mono: mono, Boot: mono + c.boot, Wall: mono + c.wall}
}

// suspend is what a suspension of d looks like afterwards.
func (c *clock) suspend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot += d
	c.wall += d
}

// faulty is a store in memory whose calls can be made to go wrong: hook, where it is set, decides what a caller sees.
type faulty struct {
	lockcore.Store
	mu     sync.Mutex
	hook   func(ctx context.Context, op lockcore.Op, do func() error) error
	tokens []string // of every acquire
}

func newFaulty() *faulty { return &faulty{Store: memstore.NewStore(nil)} }

func (f *faulty) set(hook func(ctx context.Context, op lockcore.Op, do func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *faulty) call(ctx context.Context, op lockcore.Op, do func() error) error {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		return do()
	}
	return hook(ctx, op, do)
}

func (f *faulty) Acquire(ctx context.Context, key, token string, ttl time.Duration) (g lockcore.Grant, err error) {
	f.mu.Lock()
	f.tokens = append(f.tokens, token)
	f.mu.Unlock()
	err = f.call(ctx, lockcore.OpAcquire, func() (err error) { g, err = f.Store.Acquire(ctx, key, token, ttl); return err })
	if err != nil {
		g = lockcore.Grant{}
	}
	return g, err
}

func (f *faulty) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return f.call(ctx, lockcore.OpRenew, func() error { return f.Store.Renew(ctx, key, token, ttl) })
}

func (f *faulty) Release(ctx context.Context, key, token string) error {
	return f.call(ctx, lockcore.OpRelease, func() error { return f.Store.Release(ctx, key, token) })
}

// vanish deletes a key behind everybody's back.
func (f *faulty) vanish(t *testing.T, key string) {
	t.Helper()
	f.mu.Lock()
	token := f.tokens[len(f.tokens)-1]
	f.mu.Unlock()
	if err := f.Store.Release(context.Background(), key, token); err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
}

var errLost = errors.New("connection reset")

// only makes calls of one operation go wrong.
func only(op lockcore.Op, hook func(ctx context.Context, do func() error) error) func(context.Context, lockcore.Op, func() error) error {
	return func(ctx context.Context, called lockcore.Op, do func() error) error {
		if called != op {
			return do()
		}
		return hook(ctx, do)
	}
}

func failing(context.Context, func() error) error { return errLost }

func hanging(ctx context.Context, _ func() error) error { <-ctx.Done(); return ctx.Err() }

// lostReply lets the call take effect, and loses the answer.
func lostReply(_ context.Context, do func() error) error { _ = do(); return errLost }

// events collects what a client emits.
type events struct {
	mu  sync.Mutex
	all []history.Event
}

func (e *events) add(ev history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) of(kinds ...history.Kind) (found []history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		for _, k := range kinds {
			if ev.Kind == k {
				found = append(found, ev)
			}
		}
	}
	return found
}

// rig is a client of the key "k" in a bubble.
type rig struct {
	*client.Client
	store  *faulty
	clock  *clock
	events *events
}

// policy has round numbers: renewals at 3s, 6s ..., the deadline 9s after the last success was sent.
func policy() lockcore.Policy {
	return lockcore.Policy{
		TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Class: lockcore.Standard, OpTimeout: time.Second,
		Drift: 100 * time.Millisecond, StopBudget: 900 * time.Millisecond,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 3, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second},
	}
}

func newRig(t *testing.T, p lockcore.Policy) *rig { return joinRig(t, p, newFaulty()) }

// joinRig is a rig on a store that is shared.
func joinRig(t *testing.T, p lockcore.Policy, s *faulty) *rig {
	t.Helper()
	return joinRigOn(t, p, s, storeFor(t, s))
}

// joinRigOn is a rig whose client sees seen, which stands on s.
func joinRigOn(t *testing.T, p lockcore.Policy, s *faulty, seen lockcore.Store, with ...func(*client.Options)) *rig {
	t.Helper()
	r := &rig{store: s, clock: &clock{start: time.Now()}, events: &events{}}
	o := client.Options{Store: seen, Policy: p, Lock: "job", Source: "r1.1", Emit: r.events.add, Clock: r.clock, Seed: 1}
	for _, change := range with {
		change(&o)
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Client = c
	t.Cleanup(func() { // inside the bubble: nothing of a client may run on
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, e := range r.events.all {
			if err := e.Check(); err != nil {
				t.Errorf("%s: %v", e.Kind, err)
			}
		}
	})
	return r
}

func (r *rig) acquire(t *testing.T) *client.Handle {
	t.Helper()
	h, err := r.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return h
}

// since is the bubble's time since the rig was made.
func (r *rig) since() time.Duration { return r.clock.Now().Mono }

// wait lets d pass in the bubble.
func wait(d time.Duration) { <-time.After(d) }

// settle lets d pass, and everything that it sets off. Only the test's own goroutine may call it.
func settle(d time.Duration) {
	wait(d)
	synctest.Wait()
}

// awaitEnd waits until the handle's context is cancelled, and everything that goes with it has happened.
func awaitEnd(t *testing.T, h *client.Handle) {
	t.Helper()
	select {
	case <-h.Context().Done():
		synctest.Wait()
	case <-time.After(time.Hour):
		t.Fatal("the holder was never told")
	}
}

// reason is why a context was cancelled.
func reason(ctx context.Context) lockcore.Reason {
	var a *client.AbandonedError
	if errors.As(context.Cause(ctx), &a) {
		return a.Reason
	}
	return ""
}
