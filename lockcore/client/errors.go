package client

import (
	"errors"
	"fmt"
	"net"

	"github.com/lockdrill/lockdrill/lockcore"
)

var (
	// ErrBusy says that another holds the lock, or held it until the wait budget was spent.
	ErrBusy = errors.New("lock is busy")
	// ErrReentrant says that this client already holds or seeks the key: locks do not nest.
	ErrReentrant = errors.New("lock is not reentrant: this client already holds or seeks it")
	// ErrAbandoned is wrapped by the cause of a handle's context when the lock was given up while held.
	ErrAbandoned = errors.New("lock abandoned")
	// ErrExpired says that the validity end has passed.
	ErrExpired = errors.New("lock validity has ended")
	// ErrReleased says that the handle was released or left.
	ErrReleased = errors.New("lock was released")
	// ErrClosed says that the client was closed.
	ErrClosed = errors.New("lock client is closed")
)

// errGaveUp marks a refusal that the caller asked for.
var errGaveUp = errors.New("gave up")

// AbandonedError is the cause of a handle's context: why the lock was given up. It wraps ErrAbandoned.
type AbandonedError struct {
	Reason   lockcore.Reason // count, deadline, not_owned, context, expired
	Failures int             // consecutive renewal failures
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("%v: %s after %d failed renewals", ErrAbandoned, e.Reason, e.Failures)
}

func (e *AbandonedError) Unwrap() error { return ErrAbandoned }

// UnknownError says that the effect of an acquire or a release is not known. An acquire is being undone in the background, unless the
// policy's undo is none; a release leaves the key to its TTL at the latest.
type UnknownError struct {
	Op  lockcore.Op
	Key string
	Err error // of the last call
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s %s: effect unknown: %v", e.Op, e.Key, e.Err)
}

func (e *UnknownError) Unwrap() error { return e.Err }

// plainText is the error's text without addresses, as histories want it.
func plainText(err error) string {
	var call *net.OpError
	var name *net.DNSError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &name):
		return "lookup: " + name.Err
	case errors.As(err, &call):
		return call.Op + ": " + call.Err.Error()
	}
	return err.Error()
}
