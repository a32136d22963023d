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
	task   task
}

// task is a call with the epoch that it is made for.
type task struct {
	call  lockcore.Call
	token string
	epoch string
	fence int64
}

// none says that no call is to be made.
func (t *task) none() bool { return t.call.ID == 0 }

// step gives the machine one input and does what it says, as far as that does not block.
func (h *Handle) step(caller bool, in lockcore.Input) todo {
	return h.stepAt(h.c.clock.Now(), caller, in)
}

// stepAt is step by a reading of the clocks that serves many: one that is a little old counts a validity from earlier.
func (h *Handle) stepAt(now lockcore.Instant, caller bool, in lockcore.Input) todo {
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
	h.meter.input(now, in, h.m.Remaining(now))
	var t todo
	room := h.c.rooms.Get().(*[4]lockcore.Action)
	for _, a := range h.m.Step(now, in, room[:0]) {
		h.act(now, a, &t)
	}
	h.c.rooms.Put(room)
	if !h.driven {
		h.c.times.set(h)
	}
	return t
}

func (h *Handle) act(now lockcore.Instant, a lockcore.Action, t *todo) {
	switch a.Kind {
	case lockcore.ActDo:
		if a.Call.Op == lockcore.OpAcquire {
			h.token = h.c.token()
			h.epoch, h.fence = lockcore.Fingerprint(h.token), 0
		}
		t.task = task{call: a.Call, token: h.token, epoch: h.epoch, fence: h.fence}
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
		h.retire(ErrReleased)
		h.c.free(h, true)
	}
	h.meter.acted(now, a, h, h.m.Remaining(now))
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
	var woken lockcore.InputKind
	h.c.emit(t.events)
	for !h.is(done) {
		switch {
		case !t.task.none() && (ctx.Err() == nil || t.task.call.Op == lockcore.OpAcquire): // an acquire ends with ctx by itself
			t = h.step(byCaller, h.perform(ctx, t.task))
		case t.task.none() && h.pause(ctx, &woken):
			t = h.step(byCaller, lockcore.Input{Kind: woken})
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

// pause waits until the machine's next tick is due, or its turn in line has come; false = ctx has ended first.
func (h *Handle) pause(ctx context.Context, woken *lockcore.InputKind) bool {
	h.mu.Lock()
	at, ok := h.m.Next()
	h.mu.Unlock()
	if !ok {
		return false
	}
	var turn <-chan struct{}
	if h.place != nil {
		turn = h.place.Turn()
	}
	timer := time.NewTimer(at - h.c.clock.Now().Mono)
	defer timer.Stop()
	select {
	case <-timer.C:
		*woken = lockcore.Tick
	case <-turn:
		*woken = lockcore.Wake
	case <-ctx.Done():
		return false
	}
	return true
}

// handOver leaves the machine to the client's goroutines.
func (h *Handle) handOver(t task) {
	h.mu.Lock()
	h.driven = byClient
	h.c.times.set(h)
	h.mu.Unlock()
	h.later(todo{task: t})
}

// quitLine gives up the place in line, in the background where that takes a call.
func (h *Handle) quitLine() {
	switch {
	case h.place == nil:
	case h.is(func() bool { return h.refused == nil }):
		_ = h.place.Quit(context.Background()) // nothing is left of it at the store
	default:
		h.c.calls.submit(func() {
			ctx, cancel := context.WithTimeout(context.Background(), h.c.policy.Acquire.Timeout)
			defer cancel()
			_ = h.place.Quit(ctx) // where it fails, the place's turn passes unused
		})
	}
}

func (h *Handle) giveUpSeeking() {
	h.mu.Lock()
	answered := h.answered
	h.mu.Unlock()
	if !answered {
		h.carryOn(h.step(byClient, lockcore.Input{Kind: lockcore.GiveUp}))
	}
}

// later does t in one of the client's goroutines, if there is anything to do.
func (h *Handle) later(t todo) {
	if !t.task.none() || len(t.events) > 0 {
		h.submit(t)
	}
}

func (h *Handle) submit(t todo) {
	h.c.calls.submit(func() { h.carryOn(t) })
}

// carryOn does t and what follows from it at once, in this goroutine.
func (h *Handle) carryOn(t todo) {
	h.c.emit(t.events)
	for !t.task.none() {
		t = h.step(byClient, h.perform(context.Background(), t.task))
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
	return h.call(ctx, t, h.announce(t, from), from)
}

// call makes a call that was announced at from as op, and reports its return.
func (h *Handle) call(ctx context.Context, t task, op string, from time.Duration) lockcore.Input {
	reply := lockcore.Input{Kind: lockcore.Reply, Call: t.call.ID}
	ctx, cancel := context.WithTimeout(ctx, t.call.Deadline-from)
	grant, err := h.ask(ctx, t)
	cancel()
	reply.Result = lockcore.ResultOf(err)
	reply.Fence = grant.Fence
	if held, ok := errors.AsType[*lockcore.HeldError](err); ok {
		reply.PTTL, reply.InLine = held.PTTL, h.place != nil
	}
	h.remember(t, err)
	at := history.Span{From: int64(from), To: int64(h.c.clock.Now().Mono)}
	h.meter.called(t.call.Op, reply.Result, time.Duration(at.Width()))
	h.answer(t, op, at, reply, err)
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
		if h.place != nil {
			return h.place.Acquire(ctx, t.token, t.call.TTL)
		}
		return h.c.store.Acquire(ctx, h.key, t.token, t.call.TTL)
	case lockcore.OpRenew:
		return lockcore.Grant{}, h.c.store.Renew(ctx, h.key, t.token, t.call.TTL)
	}
	return lockcore.Grant{}, h.c.store.Release(ctx, h.key, t.token)
}
