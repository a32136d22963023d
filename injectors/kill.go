package injectors

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// Await returns the first recorded event, from the given index of the history on, that matches.
type Await func(ctx context.Context, from int, match func(history.Event) bool) (history.Event, error)

// Kill is SIGKILL of the process that holds, or, of the form graceful, SIGTERM and its grace before that.
type Kill struct {
	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // returns the bracket of kill(2)
	Fault  func(id string) fault.Spec                                         // as it is run
	Grace  time.Duration                                                      // from SIGTERM to SIGKILL, where the fault does not say
	Sample func(context.Context) error                                        // as in PodKill
	Await  Await
	Past   func() []history.Event // all that is recorded so far
	Clock  func() int64
}

// startOf is what is known of the shot's victim since it was seen to start; nil = nobody saw it.
func startOf(past []history.Event, shot history.Event) *history.Replica {
	for _, e := range past {
		if e.Kind == history.ReplicaStart && e.Replica.Incarnation == shot.Fault.Victim {
			return e.Replica
		}
	}
	return nil
}

// podOf is the pod in which that was; nil where that is not known.
func podOf(past []history.Event, shot history.Event) *history.Pod {
	if r := startOf(past, shot); r != nil {
		return r.Pod
	}
	return nil
}

// Prepare has nothing to write down but the shot: a death is not undone.
func (k *Kill) Prepare(context.Context, history.Event) (undo.Record, error) {
	return undo.Record{}, nil
}

// Inject sends the signal. The bracket of the call is the fault's time.
func (k *Kill) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	shot := r.Shot
	if shot.Fault.Form == fault.Graceful {
		return k.ask(ctx, shot)
	}
	span, err := k.Signal(shot.Fault.Victim, syscall.SIGKILL)
	if err != nil {
		return span, notSent("kill", shot, err)
	}
	return span, nil
}

// notSent is why a signal was not sent: the process is gone, unless the error says otherwise.
func notSent(what string, shot history.Event, err error) error {
	word := history.Moved
	if v := interface{ Void() history.VoidReason }(nil); errors.As(err, &v) {
		word = v.Void()
	}
	return &voidError{word, fmt.Sprintf("%s %s: %v", what, shot.Fault.Victim, err)}
}

// Confirm waits until the victim's death by SIGKILL was seen, which also means that the last claims of a child have arrived, and
// checks that none of them gave the lock up before the kill, nor renewed it where the kill was to come first.
func (k *Kill) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot, none := r.Shot, history.Fault{}
	if shot.Fault.Form == fault.Graceful {
		return k.asked(ctx, r, applied)
	}
	exit, err := k.Await(ctx, int(shot.N), func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim
	})
	if err != nil {
		return applied, none, &voidError{history.Unconfirmed, fmt.Sprintf("the death of %s was not seen: %v", shot.Fault.Victim, err)}
	}
	if want := "signal: " + syscall.SIGKILL.String(); exit.Replica.Exit != want {
		return applied, none, &voidError{history.Unconfirmed, fmt.Sprintf("%s ended by itself (%s) before the kill", shot.Fault.Victim, exit.Replica.Exit)}
	}
	for _, e := range k.Past() {
		gone := e.Kind == history.ReleaseInvoke || e.Kind == history.FenceObserved
		if gone && e.Epoch == shot.Epoch && e.From <= applied.To {
			return applied, none, &voidError{history.Moved, fmt.Sprintf("%s gave the lock up before the kill (%s)", shot.Fault.Victim, e.Kind)}
		}
		if a := shot.Fault.Anchor; a > 0 && e.Kind == history.RenewInvoke && e.Epoch == shot.Epoch && e.From > a && e.From <= applied.To {
			return applied, none, &voidError{history.Moved, fmt.Sprintf("the kill was meant to come before %s renewed, and came too late: this machine is busy", shot.Fault.Victim)}
		}
	}
	return history.Span{From: applied.From, To: exit.To}, history.Fault{Hits: 1}, nil
}

// Revert has nothing to undo: the fleet replaces the victim.
func (k *Kill) Revert(_ context.Context, r undo.Record) (history.Span, error) {
	return r.Shot.Span, nil
}
