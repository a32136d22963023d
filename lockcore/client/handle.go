package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Handle is one epoch of a key: from its grant until it was released, left or given up. It is safe for concurrent use.
type Handle struct {
	c     *Client
	key   string
	place lockcore.Place // in line, where the policy waits in one; else nil
	// Guarded by the schedule: where the deadline stands, from 1; 0 = nowhere.
	rank int

	mu       sync.Mutex
	own      lockcore.Machine
	m        lockcore.Attempt // own, or what the client was given in its place
	driven   bool             // by a caller's goroutine, in follow; else by the client's
	answered bool             // the acquire has been granted or refused
	refused  error            // why not
	stopped  bool             // released or left by the holder
	over     error            // why it may not be relied on any more
	result   lockcore.Result  // of the whole attempt, once it has ended
	lastErr  error            // of the last acquire or release
	token    string           // of the last acquire
	epoch    string           // its fingerprint
	fence    int64
	waitOp   string
	abort    context.CancelCauseFunc // ends the seeking; nil afterwards
	// The holder's context belongs to the handle as its lifetime; it is not one that a call passed down. It is made when it is
	// first asked for, with the values that Acquire was given.
	values context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	meter  *meter // nil = none
}

func newHandle(ctx context.Context, c *Client, key string) (*Handle, context.Context) {
	h := &Handle{c: c, key: key, own: *lockcore.NewMachine(c.policy), driven: true, meter: newMeter(ctx, c), values: ctx}
	if h.m = &h.own; c.attempt != nil {
		h.m = c.attempt(c.policy)
	}
	seek, abort := context.WithCancelCause(ctx)
	h.abort = abort
	if c.line != nil {
		h.place = c.line.Join(key)
	}
	return h, seek
}

// Context is cancelled when the lock may not be relied on any more; its cause is then an *AbandonedError, or ErrReleased.
func (h *Handle) Context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(h.values))
		if h.over != nil {
			h.cancel(h.over)
		}
	}
	return h.ctx
}

// soughtOut ends the seeking: what bounded it is not needed any more.
func (h *Handle) soughtOut(cause error) {
	h.mu.Lock()
	abort := h.abort
	h.abort = nil
	h.mu.Unlock()
	if abort != nil {
		abort(cause)
	}
}

// Check returns nil while the lock may be relied on: ask right before a side effect. It tells the truth for every class, also
// where the policy lets work go on.
func (h *Handle) Check() error {
	now := h.c.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return h.over
	}
	if !h.m.Held(now) {
		return ErrExpired
	}
	return nil
}

// Remaining is the time until the validity end: negative when it has passed. It counts on after the lock was given up or released;
// Check says whether the lock may be relied on.
func (h *Handle) Remaining() time.Duration {
	now := h.c.clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m.Remaining(now)
}

// Fence is the number minted with the epoch: pass it with every write to the protected resource. It never changes.
func (h *Handle) Fence() int64 { return h.fence }

// Epoch is the fingerprint of the epoch's token.
func (h *Handle) Epoch() string { return h.epoch }

// Release gives the lock back; the work has stopped. No renewal is sent from here on. It returns when the policy's release is done
// or skipped. Errors: *lockcore.NotOwnedError (the lock was lost before), *UnknownError, the store's (surely not released), or
// ErrReleased (released or left before). Where ctx ends first, the try in flight is waited for; the rest goes on in the background.
func (h *Handle) Release(ctx context.Context) error {
	t, first := h.end(lockcore.Stop)
	if !first {
		return ErrReleased
	}
	h.follow(ctx, t, func() bool { return h.result != "" || h.m.State() == lockcore.Left })
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.result == lockcore.OK, h.result == lockcore.Skipped, h.m.State() == lockcore.Left:
		return nil
	case h.result == lockcore.Unknown:
		return &UnknownError{Op: lockcore.OpRelease, Key: h.key, Err: h.lastErr}
	case h.result == "":
		return &UnknownError{Op: lockcore.OpRelease, Key: h.key, Err: context.Cause(ctx)}
	}
	return fmt.Errorf("release %s: %w", h.key, h.lastErr)
}

// Leave stops the renewals and leaves the key to its TTL (ttl_hold); the work has stopped. The key may be sought again at once.
func (h *Handle) Leave() {
	t, _ := h.end(lockcore.Leave)
	h.carryOn(t)
}

// end takes the handle out of its holder's use, once, and tells the machine.
func (h *Handle) end(kind lockcore.InputKind) (t todo, first bool) {
	now, rand := h.c.clock.Now(), h.c.random()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return todo{}, false
	}
	h.stopped = true
	h.retire(ErrReleased)
	h.meter.stop(now, h.m.Remaining(now))
	if kind == lockcore.Stop {
		h.driven = byCaller
	}
	return h.advance(now, lockcore.Input{Kind: kind, Rand: rand}), true
}

// retire ends what may be relied on: the first cause stays.
func (h *Handle) retire(cause error) {
	if h.over == nil {
		h.over = cause
	}
	if h.cancel != nil {
		h.cancel(cause)
	}
}
