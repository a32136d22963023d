package lockcore

import (
	"errors"
	"time"
)

// Input is one thing that happens to a Machine.
type Input struct {
	Kind   InputKind
	Rand   float64       // uniform in [0, 1), fresh for each Step: backoff and jitter
	Call   int           // reply: the call that it answers
	Result Result        // reply
	Fence  int64         // reply to acquire, ok
	PTTL   time.Duration // reply to acquire, held: what the store still owes the holder; negative = no expiry
	InLine bool          // reply to acquire, held: we stand in line, and a wake will tell when our turn has come
}

// InputKind says what happened.
type InputKind string

const (
	Start  InputKind = "start"  // seek the lock; once, first
	Reply  InputKind = "reply"  // a call is answered, or is past its deadline without an answer
	Tick   InputKind = "tick"   // nothing but time: Next has come
	Wake   InputKind = "wake"   // our turn in line has come: ask the store
	Stop   InputKind = "stop"   // the work has stopped: give the lock back
	Leave  InputKind = "leave"  // the work has stopped: leave the lock to its TTL
	GiveUp InputKind = "giveup" // the caller's context ended: stop seeking, or fence the work
)

// Action is one thing that a driver must do, in order.
type Action struct {
	Kind     ActionKind
	Call     Call   // do
	Reason   Reason // fence, unowned, skip
	Failures int    // fence, unowned: consecutive renewal failures
	Working  bool   // fence: work is in progress and must stop
	Fence    int64  // grant
	Result   Result // refuse, done; waited: ok or failed
}

// ActionKind says what to do.
type ActionKind string

const (
	ActDo      ActionKind = "do"      // send a call; answer it by its deadline with a Reply
	ActWait    ActionKind = "wait"    // a bounded wait begins: the first refusal
	ActWaited  ActionKind = "waited"  // it is over
	ActGrant   ActionKind = "grant"   // the work may begin
	ActRefuse  ActionKind = "refuse"  // the lock is not to be had; an undo may go on
	ActFence   ActionKind = "fence"   // the lock may not be relied on from now on: cancel the holder's context
	ActUnowned ActionKind = "unowned" // the same, but the class lets the work go on
	ActSkip    ActionKind = "skip"    // no release will be sent
	ActDone    ActionKind = "done"    // the machine has ended
)

// Call is one call to the store.
type Call struct {
	ID       int           // 1, 2, 3 ...
	Op       Op            //
	Epoch    int           // which token: each acquire has a new one, everything else uses the last acquire's
	Attempt  int           // 1 is the first try of this operation
	TTL      time.Duration // acquire, renew
	Deadline time.Duration // Mono: no reply by then is a Reply with Unknown
}

// Op is an operation of the store.
type Op string

const (
	OpAcquire Op = "acquire"
	OpUndo    Op = "undo" // a release of an acquire that nobody will use
	OpRenew   Op = "renew"
	OpRelease Op = "release"
)

// Result is what is known about a call, or about an attempt to hold.
type Result string

const (
	OK        Result = "ok"
	Held      Result = "held"      // acquire: by another
	Absent    Result = "absent"    // not owned: the key is gone
	Other     Result = "other"     // not owned: another's token
	Failed    Result = "failed"    // surely no effect
	Unknown   Result = "unknown"   // the effect is not known
	Cancelled Result = "cancelled" // refuse: the caller gave up
	Skipped   Result = "skipped"   // done: without a release
)

// ResultOf classifies a Store's error.
func ResultOf(err error) Result {
	if err == nil {
		return OK // before anything that errors.As needs is made: most calls end here
	}
	var held *HeldError
	var lost *NotOwnedError
	switch {
	case errors.As(err, &held):
		return Held
	case errors.As(err, &lost) && lost.Other:
		return Other
	case errors.As(err, &lost):
		return Absent
	case errors.Is(err, ErrNotSent):
		return Failed
	}
	return Unknown
}

// Reason says why a belief ended, or why no release is sent.
type Reason string

const (
	ReasonCount        Reason = "count"         // too many renewal failures in a row
	ReasonDeadline     Reason = "deadline"      // the validity end is near
	ReasonNotOwned     Reason = "not_owned"     // the store says so
	ReasonContext      Reason = "context"       // the caller gave up
	ReasonExpired      Reason = "expired"       // nobody works: a planned hold, or a grant that came too late, ran out
	ReasonAfterAbandon Reason = "after_abandon" // skip
	ReasonTTLHold      Reason = "ttl_hold"      // skip
)
