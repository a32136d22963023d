package lockcore

import (
	"context"
	"errors"
	"time"
)

// Line is implemented by a Store whose waiters stand in line: first come, first served among them, and each is told when its
// turn has come. Store.Acquire goes past the line; policies with the back-off BackoffWake stand in it.
type Line interface {
	// Join returns a place for one attempt to hold key. Nothing is sent yet.
	Join(key string) Place
}

// Place is one waiter's place in line.
type Place interface {
	// Acquire is Store.Acquire for who stands in line: the key is granted where it is free and nobody comes first. After a
	// *HeldError the waiter stands in line; its Holder is "" where a free key is kept for another's turn.
	Acquire(ctx context.Context, token string, ttl time.Duration) (Grant, error)
	// Turn receives when the turn has come. A turn can get lost (with a connection): ask again from time to time.
	Turn() <-chan struct{}
	// Quit gives the place up, also at the store where something may be left there. It is called once, last.
	Quit(ctx context.Context) error
}

// Renewal is one lease to extend, and what came of it.
type Renewal struct {
	Key, Token string
	Err        error // set by RenewMany: as of Store.Renew, or ErrAlone
}

// ErrAlone is what RenewMany says of a renewal that it has not made and that Renew must make: whatever it waits for must not hold up
// the others.
var ErrAlone = errors.New("to be renewed alone")

// ManyRenewer is implemented by a Store that extends many leases at the cost of few round trips.
type ManyRenewer interface {
	// RenewMany is Store.Renew for each of them, and sets every Err. One that fails does not fail the others, and those with
	// ErrAlone are left to the caller. Where ctx ends first, the remaining effects are unknown.
	RenewMany(ctx context.Context, ttl time.Duration, renewals []Renewal)
}
