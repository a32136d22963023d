// Package claims says what a lock does as events of a history: each action of its machine, and each call before and after it is made.
//
// It makes events and records none. Real replicas and simulated ones say the same things in the same words, because both say them
// here. Its one invariant: an event depends on its arguments alone.
package claims

import (
	"errors"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Holder is who claims, and of which epoch of which key.
type Holder struct {
	Source string // the incarnation
	Lock   string
	Key    string
	Epoch  string // fingerprint of the token; "" = none yet
	Fence  int64  // 0 = none yet
	Bodies Bodies // nil = each body is allocated by itself
}

// Bodies have room for what events point to, as whoever had it last has left it.
type Bodies interface {
	Call() *history.Call
	Abandon() *history.Abandon
}

// Answer is what a caller learns of its call.
type Answer struct {
	Result lockcore.Result
	Fence  int64         // an acquire that is OK: minted with the grant
	Holder string        // Held, Other: fingerprint of the token that the key carries, where it is known
	PTTL   time.Duration // Held: what the store still owes the holder; negative = no expiry
	Err    string        // text of an error, without addresses
	Fault  string        // the shot that made the call fail on purpose; "" = none
}

// AnswerOf is the answer that an error of a store stands for; text is what is said of one that is no refusal. A grant's fence is to be
// added.
func AnswerOf(err error, text string) Answer {
	a := Answer{Result: lockcore.ResultOf(err)}
	var held *lockcore.HeldError
	var lost *lockcore.NotOwnedError
	var made interface{ Fault() string }
	switch {
	case errors.As(err, &held):
		a.Holder, a.PTTL = held.Holder, held.PTTL
	case errors.As(err, &lost):
		a.Holder = lost.Holder
	default:
		a.Err = text
	}
	if errors.As(err, &made) {
		a.Fault = made.Fault()
	}
	return a
}

// wordsOf are the events of an operation, and the result that an OK stands for.
func wordsOf(op lockcore.Op) (invoke, back history.Kind, ok string) {
	switch op {
	case lockcore.OpAcquire:
		return history.AcquireInvoke, history.AcquireReturn, history.ResultGranted
	case lockcore.OpRenew:
		return history.RenewInvoke, history.RenewReturn, history.ResultRenewed
	case lockcore.OpUndo:
		return history.UndoInvoke, history.UndoReturn, history.ResultReleased
	}
	return history.ReleaseInvoke, history.ReleaseReturn, history.ResultReleased
}

// Event is an event of the holder's, without a body.
func (h *Holder) Event(k history.Kind, at history.Span) (e history.Event) {
	h.fill(&e, k, at)
	return e
}

func (h *Holder) fill(e *history.Event, k history.Kind, at history.Span) {
	*e = history.Event{
		Kind: k, Span: at, Source: h.Source, Clock: history.ClockShared, Lock: h.Lock, Key: h.Key, Epoch: h.Epoch, Fence: h.Fence,
	}
}

// Invoke announces a call that is about to be made, under the name op.
func (h *Holder) Invoke(c *lockcore.Call, op string, at int64) (e history.Event) {
	invoke, _, _ := wordsOf(c.Op)
	h.fill(&e, invoke, history.At(at))
	e.Op = op
	e.Call = h.call(history.Call{TTL: int64(c.TTL), Attempt: c.Attempt, Demand: c.Op == lockcore.OpAcquire})
	return e
}

// Return tells of the end of a call that was announced as op: from its sending to the answer.
func (h *Holder) Return(c *lockcore.Call, op string, at history.Span, a *Answer) (e history.Event) {
	_, back, ok := wordsOf(c.Op)
	h.fill(&e, back, at)
	e.Op, e.Fence = op, max(h.Fence, a.Fence)
	e.Outcome = history.Fail
	body := history.Call{TTL: int64(c.TTL), Attempt: c.Attempt, Result: string(a.Result), Holder: a.Holder, Err: a.Err, Fault: a.Fault}
	switch a.Result {
	case lockcore.OK:
		e.Outcome, body.Result = history.OK, ok
	case lockcore.Unknown:
		e.Outcome, body.Result = history.Unknown, history.ResultError
	case lockcore.Failed:
		body.Result = history.ResultError
	case lockcore.Held:
		body.PTTL = int64(max(a.PTTL, -1))
	}
	e.Call = h.call(body)
	return e
}

// Append adds the events that an action stands for; calls are told of by Invoke and Return. wait names the bounded wait, if there is one.
func (h *Holder) Append(events []history.Event, a *lockcore.Action, wait string, at int64) []history.Event {
	switch a.Kind {
	case lockcore.ActWait:
		e := h.Event(history.WaitBegin, history.At(at))
		e.Epoch, e.Fence, e.Op, e.Call = "", 0, wait, h.call(history.Call{Result: history.ResultHeld})
		return append(events, e)
	case lockcore.ActWaited:
		e := h.Event(history.WaitEnd, history.At(at))
		if e.Op = wait; a.Result == lockcore.OK {
			e.Outcome, e.Call = history.OK, h.call(history.Call{Result: history.ResultGranted})
		} else {
			e.Epoch, e.Outcome, e.Call = "", history.Fail, h.call(history.Call{Result: history.ResultHeld})
		}
		return append(events, e)
	case lockcore.ActFence:
		e := h.Event(history.FenceObserved, history.At(at))
		e.Abandon = h.abandon(a)
		if events = append(events, e); a.Working {
			e.Kind = history.AbandonKind
			events = append(events, e)
		}
	case lockcore.ActUnowned:
		e := h.Event(history.UnownedEnter, history.At(at))
		e.Abandon = h.abandon(a)
		return append(events, e)
	case lockcore.ActSkip:
		e := h.Event(history.ReleaseSkipped, history.At(at))
		e.Call = h.call(history.Call{Why: string(a.Reason)})
		return append(events, e)
	}
	return events
}

func (h *Holder) call(c history.Call) *history.Call {
	var b *history.Call
	if h.Bodies != nil {
		b = h.Bodies.Call()
	} else {
		b = new(history.Call)
	}
	*b = c
	return b
}

func (h *Holder) abandon(a *lockcore.Action) *history.Abandon {
	var b *history.Abandon
	if h.Bodies != nil {
		b = h.Bodies.Abandon()
	} else {
		b = new(history.Abandon)
	}
	*b = history.Abandon{Reason: string(a.Reason), Failures: a.Failures}
	return b
}
