package main

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// Lock is one acquisition by a library. An error that is none of those below leaves open whether the call took effect.
type Lock interface {
	Acquire(ctx context.Context) error
	Extend(ctx context.Context) error
	Release(ctx context.Context) error
}

var (
	errHeld = &lockcore.HeldError{}
	errLost = &lockcore.NotOwnedError{Other: true}
	errGone = &lockcore.NotOwnedError{}
)

// Fenced is a Lock with a fence; Named is one whose grant the store names (empty: not known); Kept is one that renews itself, and says each
// renewal; Ender is one that gives back by itself, and says so.
type (
	Fenced interface{ Fence() int64 }
	Named  interface{ ID() string }
	Kept   interface {
		Lost() <-chan struct{}
		Owed() time.Duration // after a grant or a renewal, what may be relied on: who has waited has a lease that is partly over
	}
	Ender interface{ End() }
)

// hold is one acquisition, from its attempt to its release.
type hold struct {
	tell   *worker.Teller
	want   worker.Want
	lib    Lock
	token  string
	named  atomic.Pointer[claims.Holder] // whom its events name
	asks   *claim                        // its acquire, until that is over
	lost   context.Context
	lose   context.CancelFunc
	told   sync.Once
	ended  context.Context
	end    context.CancelFunc
	keeper sync.WaitGroup
}

// another gives it a new epoch, and the token that it stands for.
func another(w worker.Want) (who *claims.Holder, token string) {
	token = rand.Text()
	return &claims.Holder{Lock: w.Lock.Name, Key: w.Key, Epoch: lockcore.Fingerprint(token)}, token
}

// claim is a call that was announced.
type claim struct {
	call lockcore.Call
	op   string
	who  *claims.Holder
	from int64
}

func (h *hold) announce(op lockcore.Op, who *claims.Holder) *claim {
	c := &claim{call: lockcore.Call{Op: op, Attempt: 1}, op: h.tell.Op(string(op)), who: who, from: monotime.Now()}
	if op == lockcore.OpAcquire || op == lockcore.OpRenew {
		c.call.TTL = h.want.Lock.Policy.TTL
	}
	h.tell.Say(who.Invoke(&c.call, c.op, c.from))
	return c
}

func (h *hold) report(c *claim, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if k, ok := h.lib.(Kept); ok && c.call.TTL != 0 {
		c.call.TTL = k.Owed()
	}
	if f, ok := h.lib.(Fenced); ok && c.call.Op == lockcore.OpAcquire && err == nil {
		c.who.Fence = f.Fence()
	}
	a := claims.AnswerOf(err, text)
	e := c.who.Return(&c.call, c.op, history.Span{From: c.from, To: monotime.Now()}, &a)
	if n, ok := h.lib.(Named); ok && c.call.Op == lockcore.OpAcquire {
		e.Call.ID = n.ID()
	}
	h.tell.Say(e)
}

// call announces, makes and reports one call of the library.
func (h *hold) call(op lockcore.Op, do func() error) error {
	c := h.announce(op, h.named.Load())
	err := do()
	h.report(c, err)
	return err
}

// unclear reports what the acquire has come to so far, of which nobody knows whether it took effect, and announces another.
func (h *hold) unclear(err error) {
	h.report(h.asks, err)
	who, _ := another(h.want)
	h.named.Store(who)
	h.asks = h.announce(lockcore.OpAcquire, who)
}

// again is the acquire of a library that has lost the key, and takes it anew while its work goes on.
func (h *hold) again(do func() error) error {
	who, _ := another(h.want)
	c := h.announce(lockcore.OpAcquire, who)
	err := do()
	if err == nil {
		h.act(lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonNotOwned})
		h.named.Store(who)
	}
	h.report(c, err)
	return err
}

// locker takes keys by a library.
type locker struct {
	tell *worker.Teller
	lock func(h *hold) Lock
}

// Acquire asks the library once. Every attempt has a token of its own.
func (l locker) Acquire(ctx context.Context, w worker.Want) (worker.Held, error) {
	who, token := another(w)
	h := &hold{tell: l.tell, want: w, token: token}
	h.named.Store(who)
	h.lib = l.lock(h)
	h.asks = h.announce(lockcore.OpAcquire, who)
	err := h.lib.Acquire(ctx)
	h.report(h.asks, err)
	if err != nil {
		return nil, err
	}
	h.lost, h.lose = context.WithCancel(context.Background())
	h.ended, h.end = context.WithCancel(context.Background())
	h.keeper.Go(h.keep)
	return h, nil
}

// keep extends every renew_every. A failed extension ends the work, as in the documents of these libraries. A lock that renews itself (Kept)
// says when it is lost.
func (h *hold) keep() {
	if kept, ok := h.lib.(Kept); ok {
		select {
		case <-h.ended.Done():
		case <-kept.Lost():
			h.giveUp(lockcore.ReasonNotOwned)
		}
		return
	}
	due := time.NewTicker(h.want.Lock.Policy.RenewEvery)
	defer due.Stop()
	for h.lost.Err() == nil {
		select {
		case <-h.ended.Done():
			return
		case <-due.C:
		}
		if err := h.call(lockcore.OpRenew, func() error { return h.lib.Extend(h.ended) }); err != nil && h.ended.Err() == nil {
			h.giveUp(lockcore.ReasonNotOwned)
		}
	}
}

func (h *hold) act(a lockcore.Action) { h.tell.Act(*h.named.Load(), a) }

func (h *hold) giveUp(why lockcore.Reason) {
	h.told.Do(func() {
		h.lose()
		h.act(lockcore.Action{Kind: lockcore.ActFence, Reason: why, Working: true})
	})
}

// Release is what `defer lock.Release()` does: also after the lock was lost.
func (h *hold) Release(ctx context.Context) error {
	h.Leave()
	if e, ok := h.lib.(Ender); ok {
		e.End()
		return nil
	}
	return h.call(lockcore.OpRelease, func() error { return h.lib.Release(ctx) })
}

// Leave ends the renewals; no drill leaves a key to its TTL.
func (h *hold) Leave() {
	h.end()
	h.keeper.Wait()
}

func (h *hold) Context() context.Context { return h.lost }
func (h *hold) Check() error             { return h.lost.Err() }
func (h *hold) Epoch() string            { return h.named.Load().Epoch }
func (h *hold) Fence() int64             { return h.named.Load().Fence }
