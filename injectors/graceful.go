package injectors

import (
	"cmp"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// A process that is asked to end: SIGTERM, and SIGKILL when its grace is over, as a supervisor does. As of a pod, the call and the end of
// the process are two instants, and Confirm tells both.

// Within is how long a shot may take until it is confirmed.
func (k *Kill) Within(shot history.Event) time.Duration {
	if shot.Fault.Form == fault.Graceful {
		return k.grace(shot) + graceSlack
	}
	return killWithin
}

// grace is from SIGTERM to SIGKILL: as the fault says, else as a supervisor grants it.
func (k *Kill) grace(shot history.Event) time.Duration {
	return cmp.Or(fault.Of(k.Fault(shot.Fault.ID)).Traits().Grace, k.Grace)
}

// killWithin is from SIGKILL until its end was seen.
const killWithin = 5 * time.Second

// ask sends SIGTERM, once the locks were looked at: what is given back after it was surely held when the call began.
func (k *Kill) ask(ctx context.Context, shot history.Event) (history.Span, error) {
	began := k.Clock()
	if k.Sample != nil {
		ctx, cancel := context.WithTimeout(ctx, sampleWithin)
		defer cancel()
		_ = k.Sample(ctx) // unheard: then less is known of when the victim gave its locks back
	}
	span, err := k.Signal(shot.Fault.Victim, syscall.SIGTERM)
	if err != nil {
		return span, notSent("ask to end", shot, err)
	}
	span.From = min(began, span.From)
	return span, nil
}

// asked waits for the end of the process, and kills it when its grace is over. What the victim gives back meanwhile is the end that was
// asked for.
func (k *Kill) asked(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	shot := r.Shot
	seen := history.Fault{Death: &history.Death{Call: applied, Means: history.MeansSignal}}
	ended := func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == shot.Fault.Victim
	}
	within, cancel := context.WithTimeout(ctx, k.grace(shot))
	exit, err := k.Await(within, int(shot.N), ended)
	cancel()
	if err != nil {
		if ctx.Err() == nil { // one that has just ended is not there to be signalled, and its end is on the way
			_, _ = k.Signal(shot.Fault.Victim, syscall.SIGKILL)
		}
		within, cancel := context.WithTimeout(ctx, killWithin)
		defer cancel()
		if exit, err = k.Await(within, int(shot.N), ended); err != nil {
			return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the death of %s was not seen: %v", shot.Fault.Victim, err)}
		}
	}
	d := seen.Death
	d.By, d.Sign = exit.Replica.By, min(max(exit.From, lastSign(k.Past(), shot.Fault.Victim)), exit.To)
	d.End = &history.Span{From: d.Sign, To: exit.To}
	if exit.To < applied.From {
		return applied, seen, &voidError{history.Unconfirmed, fmt.Sprintf("%s ended by itself (%s) before it was asked to", shot.Fault.Victim, exit.Replica.Exit)}
	}
	if err := movedBefore(k.Past(), shot, applied); err != nil {
		return applied, seen, err
	}
	seen.Hits = 1
	return history.Span{From: applied.From, To: exit.To}, seen, nil
}
