// Package client takes locks: it acquires a key under a policy, gives a Handle that says for how long the lock may be relied on, and
// releases it.
//
//	policy := lockcore.Policy{
//		TTL: 30 * time.Second, RenewEvery: 10 * time.Second, Class: lockcore.Standard, OpTimeout: 2 * time.Second, StopBudget: time.Second,
//		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * time.Second},
//		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: 2 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
//	}
//	c, err := client.New(client.Options{Store: redisstore.NewStore(redisstore.NewClient("127.0.0.1:6379"), "app:"), Policy: policy})
//	// ...
//	err = c.Do(ctx, "invoice:7", func(ctx context.Context, h *client.Handle) error {
//		if err := h.Check(); err != nil { // right before a side effect
//			return err
//		}
//		return pay(ctx, h.Fence()) // what is written to refuses lower fences
//	})
//
// It decides nothing about the protocol: package lockcore does, in machines that are driven here against a store, in real time. It knows
// nothing of jobs, loops or ledgers. One goroutine keeps the time of all locks of a Client; an idle lock costs none. Its one invariant: the
// event that announces a call is emitted before the call is made, and a handle's context is cancelled before anything is emitted about it.
package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Options of a Client. Store and Policy are needed; Lock and Source where Emit is set.
type Options struct {
	Store   lockcore.Store
	Policy  lockcore.Policy
	Lock    string              // name put on events
	Source  string              // incarnation put on events
	Emit    func(history.Event) // nil = none; called from several goroutines, without buffering, before the call that it announces
	Clock   Clock               // nil = the system's; events' spans are ns of its Mono
	Metrics Instruments         // nil = none
	Seed    int64               // of jitter

	// Of locks that are wrong on purpose (package mutants).
	Attempt func(lockcore.Policy) lockcore.Attempt // nil = lockcore.NewMachine
	Token   func() string                          // nil = a fresh one for each acquire
}

// maxCalls bounds the calls to the store that a Client makes on its own account: renewals, undos, abandoned releases. Callers of
// Acquire and Release make theirs in their own goroutines.
const maxCalls = 128

// Client takes locks of one policy. It is safe for concurrent use. Close it.
type Client struct {
	store    lockcore.Store
	policy   lockcore.Policy
	lock     string
	source   string
	sink     func(history.Event)
	clock    Clock
	metrics  Instruments
	attempt  func(lockcore.Policy) lockcore.Attempt // nil = the handle's own machine
	token    func() string
	ops      atomic.Int64
	times    *schedule
	calls    *pool
	renewer  lockcore.ManyRenewer // nil = the store renews one at a time
	line     lockcore.Line        // where the policy waits in line, and the store has one; else nil
	many     *pool                // renewals that go together
	gathered gathered
	batches  sync.Pool     // *batch
	rooms    sync.Pool     // *[4]lockcore.Action: for the answer of a step
	stop     chan struct{} // closed by Close
	kept     chan struct{} // closed when keepTime has returned

	seeking sync.WaitGroup // callers in Acquire

	mu     sync.Mutex // never held while a handle's is taken
	rng    *mathrand.Rand
	closed bool
	keys   map[string]*Handle   // sought or held
	live   map[*Handle]struct{} // machines that have not ended
}

// New returns a client that holds nothing. Errors name the option or the policy's field.
func New(o Options) (*Client, error) {
	if o.Store == nil {
		return nil, errors.New("client: Store is missing")
	}
	if o.Emit != nil && (o.Lock == "" || o.Source == "") {
		return nil, errors.New("client: Lock and Source must be named where Emit is set")
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.Token == nil {
		o.Token = newToken
	}
	if o.Clock == nil {
		o.Clock = newSystemClock()
	}
	c := &Client{
		store: o.Store, policy: o.Policy, lock: o.Lock, source: o.Source, sink: o.Emit, clock: o.Clock, metrics: o.Metrics, attempt: o.Attempt, token: o.Token,
		times: newSchedule(), calls: newPool(maxCalls), many: newPool(maxMany),
		stop: make(chan struct{}), kept: make(chan struct{}),
		rng:  mathrand.New(mathrand.NewPCG(uint64(o.Seed), 0)),
		keys: map[string]*Handle{}, live: map[*Handle]struct{}{},
	}
	c.renewer, _ = o.Store.(lockcore.ManyRenewer)
	c.batches.New = func() any { return new(batch) }
	c.rooms.New = func() any { return new([4]lockcore.Action) }
	if a := o.Policy.Acquire; a.Mode == lockcore.AcquireWait && a.Backoff.Mode == lockcore.BackoffWake {
		c.line, _ = o.Store.(lockcore.Line)
	}
	go c.keepTime()
	return c, nil
}

// Acquire seeks the lock as the policy says. It returns when the lock is held, or not to be had: ErrBusy (held by another, or the
// wait budget is spent; errors.As finds the *lockcore.HeldError), *UnknownError (the attempt may have taken effect), ErrReentrant (this client
// already holds or seeks key), ErrClosed, ctx's error, or the store's, wrapping
// lockcore.ErrNotSent. ctx bounds the acquiring only (an undo in flight is waited for); its values go into the handle's context.
func (c *Client) Acquire(ctx context.Context, key string) (*Handle, error) {
	h, ctx, err := c.open(ctx, key)
	if err != nil {
		return nil, err
	}
	defer c.seeking.Done()
	defer h.soughtOut(nil)
	defer h.quitLine()
	h.follow(ctx, h.step(byCaller, lockcore.Input{Kind: lockcore.Start}), func() bool { return h.answered })
	if ctx.Err() != nil { // the machine answers this at once, unless it has already
		h.giveUpSeeking()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.refused == nil:
		return h, nil
	case errors.Is(h.refused, errGaveUp):
		return nil, fmt.Errorf("acquire %s: %w", key, context.Cause(ctx))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w (%w)", h.refused, context.Cause(ctx))
	}
	return nil, h.refused
}

// Do acquires key, runs work, and releases when work has returned. The context given to work ends with the lock and with ctx.
// The error joins work's and the release's; where the lock was given up and work says nothing, it is the *AbandonedError.
func (c *Client) Do(ctx context.Context, key string, work func(ctx context.Context, h *Handle) error) (err error) {
	h, err := c.Acquire(ctx, key)
	if err != nil {
		return err
	}
	told := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(told)
		h.carryOn(h.step(byClient, lockcore.Input{Kind: lockcore.GiveUp}))
	})
	defer func() { // also when work panics: it has stopped then too
		if !unhook() {
			<-told
		}
		if err == nil {
			err = context.Cause(h.Context())
		}
		err = errors.Join(err, h.Release(context.WithoutCancel(ctx)))
	}()
	return work(h.Context(), h)
}

// Close stops renewing, cancels the contexts of handles that are still held (reason: context), ends calls of Acquire, and waits
// until nothing of the client runs, or ctx ends. Keys of handles that were not released are left to their TTL; a handle whose
// work stops later may still be released.
func (c *Client) Close(ctx context.Context) error {
	for _, h := range c.shut() {
		h.soughtOut(ErrClosed)
		h.later(h.step(byClient, lockcore.Input{Kind: lockcore.GiveUp}))
	}
	idle := make(chan struct{})
	go func() { // outlives Close only where ctx ends first, and then by the longest call
		defer close(idle)
		<-c.kept
		c.seeking.Wait() // a seeker may still hand over an undo
		c.many.drain()   // what follows from a reply is a call
		c.calls.drain()
	}()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close lock client: %w", context.Cause(ctx))
	}
}

// shut refuses new attempts and returns the handles of those that have not ended.
func (c *Client) shut() []*Handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.stop)
	}
	return slices.Collect(maps.Keys(c.live))
}

// open registers a new attempt on key, and gives the context that bounds its seeking.
func (c *Client) open(ctx context.Context, key string) (*Handle, context.Context, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("acquire %s: %w", key, context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	if _, busy := c.keys[key]; busy {
		return nil, nil, fmt.Errorf("acquire %s: %w", key, ErrReentrant)
	}
	h, seek := newHandle(ctx, c, key)
	c.keys[key] = h
	c.live[h] = struct{}{}
	c.seeking.Add(1)
	return h, seek, nil
}

// free lets key be sought again; ended also forgets the handle.
func (c *Client) free(h *Handle, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[h.key] == h {
		delete(c.keys, h.key)
	}
	if ended {
		delete(c.live, h)
	}
}

// random is for a step of a machine.
func (c *Client) random() float64 {
	if p := &c.policy; p.RenewJitter == 0 && (p.Acquire.Mode == lockcore.AcquireTry || p.Acquire.Backoff.Mode == lockcore.BackoffFixed) {
		return 0 // nothing is left to chance
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64()
}

// nextOp names an operation, uniquely within the client's source as long as its locks have different names.
func (c *Client) nextOp() string {
	return c.lock + "#" + strconv.FormatInt(c.ops.Add(1), 10)
}

// newToken is what allows a release: a fresh one for every acquire, so that no two epochs can be taken for one another.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the program ends where the system has no randomness
	return hex.EncodeToString(b[:])
}
