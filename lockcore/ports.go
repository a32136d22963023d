package lockcore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store is where lock keys live. Implementations are safe for concurrent use and pass internal/testkit/storetest.
// There are two definite errors, *HeldError and *NotOwnedError; after any other error the effect is unknown, except that
// an error wrapping ErrNotSent surely had none.
type Store interface {
	// Acquire sets key to token for ttl if the key is free, and mints a fence for the new epoch. Asked again with the token
	// that the key already carries, it answers with that epoch's grant and changes nothing (so that a lost reply can be read back).
	Acquire(ctx context.Context, key, token string, ttl time.Duration) (Grant, error)
	// Renew sets the key's expiry to ttl from now if it carries token; else *NotOwnedError.
	Renew(ctx context.Context, key, token string, ttl time.Duration) error
	// Release deletes the key if it carries token; else *NotOwnedError.
	Release(ctx context.Context, key, token string) error
}

// Grant is the store's answer to a successful Acquire.
type Grant struct {
	Fence  int64     // max(last + 1, the server's microseconds): grows per key, also across a flush; without the server's time, a count of its own that is lost with its data
	Server time.Time // the server's clock at the grant: a label; zero = it does not tell
}

// ErrNotSent wraps errors of calls that surely never reached the store: the operation has failed, not become unknown.
var ErrNotSent = errors.New("not sent")

// HeldError says that the key carries another token.
type HeldError struct {
	Holder string        // fingerprint of that token
	PTTL   time.Duration // what the store still owes that holder; negative = the key has no expiry
}

func (e *HeldError) Error() string { return fmt.Sprintf("held by %s for %s more", e.Holder, e.PTTL) }

// NotOwnedError says that the key does not carry the caller's token.
type NotOwnedError struct {
	Other  bool   // true: the key carries another token; false: it is absent
	Holder string // fingerprint of the other token
}

func (e *NotOwnedError) Error() string {
	if e.Other {
		return "lock not owned: the key carries another token"
	}
	return "lock not owned: the key is gone"
}

// Ledger is the resource that the lock protects: it orders effects, and compares fences in the same step.
type Ledger interface {
	// Read returns the subject's current state ("" where it has none yet).
	Read(ctx context.Context, subject string) (SubjectState, error)
	// Write applies the effect, or refuses it. The same Op again returns the first answer and has no new effect.
	// An error means that the effect is unknown, unless it wraps ErrNotSent.
	Write(ctx context.Context, e Effect) (Receipt, error)
}

// Effect is one write at the ledger.
type Effect struct {
	Key      string // lock key that protects the subject: the high-water fence is kept per key
	Subject  string // job id or loop name
	Loop     bool   // the subject is a loop
	State    string // history.StateBegin, history.StateTick, or a state of a job
	Terminal bool   // no further state may follow
	Epoch    string // fingerprint
	Fence    int64  //
	Op       string // operation id, unique per intended effect, the same on a retry
	Writer   string // incarnation
	Unfenced bool   // record the write but do not compare fences: shows what the fence is for
	Strict   bool   // also refuse a terminal state where the subject is already terminal
}

// SubjectState is what the ledger holds for a subject.
type SubjectState struct {
	State    string // last accepted job state ("" = none; begin and tick do not count)
	Terminal bool
	Fence    int64 // of the epoch that wrote it
}

// Receipt is the ledger's answer to a write.
type Receipt struct {
	Pos      int64        // position in the ledger's order
	Accepted bool         //
	Reason   string       // history.ReasonFenced, ReasonTerminal (refused) or ReasonReplay (the first answer again); else ""
	Before   SubjectState // the state at the moment of the write: begin needs no second look
}
