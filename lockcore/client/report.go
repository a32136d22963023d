package client

import (
	"errors"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// callKinds are the events of each operation, and the result that an ok reply stands for.
var callKinds = map[lockcore.Op]struct {
	invoke, back history.Kind
	ok           string
}{
	lockcore.OpAcquire: {history.AcquireInvoke, history.AcquireReturn, history.ResultGranted},
	lockcore.OpUndo:    {history.UndoInvoke, history.UndoReturn, history.ResultReleased},
	lockcore.OpRenew:   {history.RenewInvoke, history.RenewReturn, history.ResultRenewed},
	lockcore.OpRelease: {history.ReleaseInvoke, history.ReleaseReturn, history.ResultReleased},
}

func (c *Client) emit(events []history.Event) {
	for _, e := range events {
		c.sink(e)
	}
}

// event is an envelope of the handle's.
func (h *Handle) event(kind history.Kind, at history.Span, epoch string, fence int64) history.Event {
	return history.Event{
		Kind: kind, Span: at, Source: h.c.source, Clock: history.ClockShared,
		Lock: h.c.lock, Key: h.key, Epoch: epoch, Fence: fence,
	}
}

// announce emits the invoke event of a call that is about to be made, and names the operation.
func (h *Handle) announce(t task, at time.Duration) (op string) {
	if h.c.sink == nil {
		return ""
	}
	e := h.event(callKinds[t.call.Op].invoke, history.At(int64(at)), t.epoch, t.fence)
	e.Op = h.c.nextOp()
	e.Call = &history.Call{TTL: int64(t.call.TTL), Attempt: t.call.Attempt, Demand: t.call.Op == lockcore.OpAcquire}
	h.c.sink(e)
	return e.Op
}

// answer emits the return event of a call.
func (h *Handle) answer(t task, op string, at history.Span, reply lockcore.Input, err error) {
	if h.c.sink == nil {
		return
	}
	e := h.event(callKinds[t.call.Op].back, at, t.epoch, max(t.fence, reply.Fence))
	e.Op = op
	e.Call = &history.Call{TTL: int64(t.call.TTL), Attempt: t.call.Attempt}
	e.Outcome, e.Call.Result = history.Fail, string(reply.Result)
	switch reply.Result {
	case lockcore.OK:
		e.Outcome, e.Call.Result = history.OK, callKinds[t.call.Op].ok
	case lockcore.Unknown:
		e.Outcome, e.Call.Result = history.Unknown, history.ResultError
	case lockcore.Failed:
		e.Call.Result = history.ResultError
	}
	describe(e.Call, err)
	h.c.sink(e)
}

// describe adds what an error knows.
func describe(c *history.Call, err error) {
	var held *lockcore.HeldError
	var lost *lockcore.NotOwnedError
	var made interface{ Fault() string }
	switch {
	case errors.As(err, &held):
		c.Holder, c.PTTL = held.Holder, int64(max(held.PTTL, -1))
	case errors.As(err, &lost):
		c.Holder = lost.Holder
	default:
		c.Err = plainText(err)
	}
	if errors.As(err, &made) {
		c.Fault = made.Fault()
	}
}

// report appends the events that an action of the machine stands for; its calls report themselves.
func (h *Handle) report(events []history.Event, now lockcore.Instant, a lockcore.Action) []history.Event {
	if h.c.sink == nil {
		return nil
	}
	at := history.At(int64(now.Mono))
	e := h.event("", at, h.epoch, h.fence)
	switch a.Kind {
	case lockcore.ActWait:
		h.waitOp = h.c.nextOp()
		e.Kind, e.Epoch, e.Op, e.Call = history.WaitBegin, "", h.waitOp, &history.Call{Result: history.ResultHeld}
	case lockcore.ActWaited:
		e.Kind, e.Epoch, e.Op, e.Outcome, e.Call = history.WaitEnd, "", h.waitOp, history.Fail, &history.Call{Result: history.ResultHeld}
		if a.Result == lockcore.OK {
			e.Epoch, e.Outcome, e.Call.Result = h.epoch, history.OK, history.ResultGranted
		}
	case lockcore.ActFence:
		body := history.Abandon{Reason: string(a.Reason), Failures: a.Failures}
		e.Kind, e.Abandon = history.FenceObserved, &body
		if a.Working {
			events = append(events, e)
			e.Kind = history.AbandonKind
		}
	case lockcore.ActUnowned:
		e.Kind, e.Abandon = history.UnownedEnter, &history.Abandon{Reason: string(a.Reason), Failures: a.Failures}
	case lockcore.ActSkip:
		e.Kind, e.Call = history.ReleaseSkipped, &history.Call{Why: string(a.Reason)}
	default:
		return events
	}
	return append(events, e)
}
