// Package injectors makes faults, one file a kind: do it, observe that it took effect on the right victim, end it.
//
// It does not decide when or at whom (the conductor does) and does not write the history (the runner does). Its one
// invariant: Confirm returns without an error only if the fault was observed to have happened.
package injectors

import (
	"context"
	"fmt"
	"syscall"

	"github.com/lockdrill/lockdrill/history"
)

// Await returns the first recorded event, from the given index of the history on, that matches.
type Await func(ctx context.Context, from int, match func(history.Event) bool) (history.Event, error)

// Kill is SIGKILL of the process that holds.
type Kill struct {
	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // returns the bracket of kill(2)
	Await  Await
	Past   func() []history.Event // all that is recorded so far
}

// voidError is a shot that must not count; its word is that of fault.void.
type voidError struct{ word, text string }

func (e *voidError) Error() string { return e.text }
func (e *voidError) Void() string  { return e.word }

// Inject sends SIGKILL. The bracket of the call is the fault's time.
func (k *Kill) Inject(_ context.Context, shot history.Event) (history.Span, error) {
	span, err := k.Signal(shot.Fault.Victim, syscall.SIGKILL)
	if err != nil {
		return span, &voidError{"moved", fmt.Sprintf("kill %s: %v", shot.Fault.Victim, err)}
	}
	return span, nil
}

// Confirm waits until waitpid has reported the victim's death by SIGKILL, which also means that its last claims have arrived, and
// checks that none of them gave the lock up before the kill.
func (k *Kill) Confirm(ctx context.Context, shot history.Event, applied history.Span) (history.Span, int64, error) {
	exit, err := k.Await(ctx, int(shot.N), func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim
	})
	if err != nil {
		return applied, 0, &voidError{"unconfirmed", fmt.Sprintf("the death of %s was not seen: %v", shot.Fault.Victim, err)}
	}
	if want := "signal: " + syscall.SIGKILL.String(); exit.Replica.Exit != want {
		return applied, 0, &voidError{"unconfirmed", fmt.Sprintf("%s ended by itself (%s) before the kill", shot.Fault.Victim, exit.Replica.Exit)}
	}
	for _, e := range k.Past() {
		gone := e.Kind == history.ReleaseInvoke || e.Kind == history.FenceObserved
		if gone && e.Epoch == shot.Epoch && e.From <= applied.To {
			return applied, 0, &voidError{"moved", fmt.Sprintf("%s gave the lock up before the kill (%s)", shot.Fault.Victim, e.Kind)}
		}
	}
	return history.Span{From: applied.From, To: exit.To}, 1, nil
}

// Revert has nothing to undo: the fleet replaces the victim.
func (k *Kill) Revert(context.Context, history.Event) error { return nil }
