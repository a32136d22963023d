package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Who steps a machine: while a caller's goroutine follows it, the client's keep off.
const (
	byCaller = true
	byClient = false
)

// todo is what a step leaves to be done without the handle's lock: events to emit, then at most one call.
type todo struct {
	events []history.Event
	task   *task
}

// task is a call with the epoch that it is made for.
type task struct {
	call  lockcore.Call
	token string
	epoch string
	fence int64
}

// step gives the machine one input and does what it says, as far as that does not block.
func (h *Handle) step(caller bool, in lockcore.Input) todo {
	now := h.c.clock.Now()
	in.Rand = h.c.random()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.driven != caller {
		return todo{}
	}
	return h.advance(now, in)
}

// advance is step for callers that hold the lock.
func (h *Handle) advance(now lockcore.Instant, in lockcore.Input) todo {
	if in.Fence != 0 {
		h.fence = in.Fence
	}
	var t todo
	var room [4]lockcore.Action
	for _, a := range h.m.Step(now, in, room[:0]) {
		h.act(now, a, &t)
	}
	if !h.driven {
		h.c.times.set(h)
	}
	return t
}

func (h *Handle) act(now lockcore.Instant, a lockcore.Action, t *todo) {
	switch a.Kind {
	case lockcore.ActDo:
		if a.Call.Op == lockcore.OpAcquire {
			h.token = newToken()
			h.epoch, h.fence = lockcore.Fingerprint(h.token), 0
		}
		t.task = &task{call: a.Call, token: h.token, epoch: h.epoch, fence: h.fence}
	case lockcore.ActGrant:
		h.answered = true
	case lockcore.ActRefuse:
		h.answered, h.refused = true, h.refusal(a.Result)
		h.c.free(h, false)
	case lockcore.ActFence:
		h.retire(&AbandonedError{Reason: a.Reason, Failures: a.Failures}) // first of all
	case lockcore.ActSkip:
		h.c.free(h, false)
	case lockcore.ActDone:
		h.result = a.Result
		h.cancel(ErrReleased)
		h.c.free(h, true)
	}
	t.events = h.report(t.events, now, a)
}

// refusal is what Acquire answers.
func (h *Handle) refusal(r lockcore.Result) error {
	last := h.lastErr
	if last == nil {
		last = fmt.Errorf("%w: the grant came too late to be used", ErrExpired)
	}
	switch r {
	case lockcore.Cancelled:
		return errGaveUp
	case lockcore.Held:
		return fmt.Errorf("acquire %s: %w: %w", h.key, ErrBusy, last)
	case lockcore.Unknown:
		return &UnknownError{Op: lockcore.OpAcquire, Key: h.key, Err: last}
	}
	return fmt.Errorf("acquire %s: %w", h.key, last)
}

// follow drives the machine in the caller's goroutine until done, which is asked under the lock, or until ctx ends. What is then
// left goes on in the background.
func (h *Handle) follow(ctx context.Context, t todo, done func() bool) {
	h.c.emit(t.events)
	for !h.is(done) {
		switch {
		case t.task != nil && (ctx.Err() == nil || t.task.call.Op == lockcore.OpAcquire): // an acquire ends with ctx by itself
			t = h.step(byCaller, h.perform(ctx, *t.task))
		case t.task == nil && h.pause(ctx):
			t = h.step(byCaller, lockcore.Input{Kind: lockcore.Tick})
		default:
			h.handOver(t.task)
			return
		}
		h.c.emit(t.events)
	}
	h.handOver(t.task)
}

func (h *Handle) is(done func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return done()
}

// pause waits until the machine's next tick is due; false = ctx has ended first.
func (h *Handle) pause(ctx context.Context) bool {
	h.mu.Lock()
	at, ok := h.m.Next()
	h.mu.Unlock()
	if !ok {
		return false
	}
	timer := time.NewTimer(at - h.c.clock.Now().Mono)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// handOver leaves the machine to the client's goroutines.
func (h *Handle) handOver(t *task) {
	h.mu.Lock()
	h.driven = byClient
	h.c.times.set(h)
	h.mu.Unlock()
	h.later(todo{task: t})
}

func (h *Handle) giveUpSeeking() {
	h.mu.Lock()
	answered := h.answered
	h.mu.Unlock()
	if !answered {
		h.carryOn(h.step(byClient, lockcore.Input{Kind: lockcore.GiveUp}))
	}
}

// later does t in one of the client's goroutines.
func (h *Handle) later(t todo) {
	if t.task != nil || len(t.events) > 0 {
		h.c.calls.submit(func() { h.carryOn(t) })
	}
}

// carryOn does t and what follows from it at once, in this goroutine.
func (h *Handle) carryOn(t todo) {
	h.c.emit(t.events)
	for t.task != nil {
		t = h.step(byClient, h.perform(context.Background(), *t.task))
		h.c.emit(t.events)
	}
}

// perform announces a call, makes it, reports its return, and gives the reply for the machine. Only an acquire ends with ctx: what
// gives a lock back must not be cut off by the same event that ended the work.
func (h *Handle) perform(ctx context.Context, t task) lockcore.Input {
	reply := lockcore.Input{Kind: lockcore.Reply, Call: t.call.ID}
	if t.call.Op != lockcore.OpAcquire {
		ctx = context.WithoutCancel(ctx)
	} else if ctx.Err() != nil {
		reply.Result = lockcore.Failed
		h.remember(t, context.Cause(ctx))
		return reply
	}
	from := h.c.clock.Now().Mono
	op := h.announce(t, from)
	ctx, cancel := context.WithTimeout(ctx, t.call.Deadline-from)
	grant, err := h.ask(ctx, t)
	cancel()
	reply.Result = lockcore.ResultOf(err)
	reply.Fence = grant.Fence
	var held *lockcore.HeldError
	if errors.As(err, &held) {
		reply.PTTL = held.PTTL
	}
	h.remember(t, err)
	h.answer(t, op, history.Span{From: int64(from), To: int64(h.c.clock.Now().Mono)}, reply, err)
	return reply
}

// remember keeps the error that Acquire or Release will return.
func (h *Handle) remember(t task, err error) {
	if t.call.Op == lockcore.OpAcquire || t.call.Op == lockcore.OpRelease {
		h.mu.Lock()
		h.lastErr = err
		h.mu.Unlock()
	}
}

func (h *Handle) ask(ctx context.Context, t task) (lockcore.Grant, error) {
	switch t.call.Op {
	case lockcore.OpAcquire:
		return h.c.store.Acquire(ctx, h.key, t.token, t.call.TTL)
	case lockcore.OpRenew:
		return lockcore.Grant{}, h.c.store.Renew(ctx, h.key, t.token, t.call.TTL)
	}
	return lockcore.Grant{}, h.c.store.Release(ctx, h.key, t.token)
}
