package injectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Failures makes bursts of failing operations: renew_failures, acquire_failures and release_failures.
//
// Via worker the victims' own store clients make them fail, count them, and end the fault by count or by time. Several victims are
// each armed with the whole count; the burst is over once they have hit that many together, and may have hit a few more by then. Via
// proxy one tap on all ways counts, exactly. Either way the fault ends by itself, in the replica or with the runner.
type Failures struct {
	Fault func(id string) fault.Spec // as it is run: scaled
	Clock func() int64

	Send  func(incarnation string, c protocol.Command) error // via worker
	Await Await

	Tap    *tap.Tap                             // via proxy; its listeners have the names of the replicas. nil = no fault needs it
	Glob   func(lock, key string) string        // names as the store knows them: of the key; key "": of all of the lock; lock "": of all locks
	Bare   func(name string) (lock, key string) // the other way round
	Record func(history.Event) error            // takes what was hit on the way

	API string // of a lockdrill proxy that somebody's own replicas go through, in place of Tap
	Run string // part of the names of faults there

	mu    sync.Mutex
	shots map[string]history.Event // armed at the tap, by the shot's name
}

// Prepare has nothing to write down but the shot: the fault ends by itself where it lives.
func (x *Failures) Prepare(_ context.Context, shot history.Event) (undo.Record, error) {
	f, ok := x.Fault(shot.Fault.ID).(*fault.Failures)
	switch {
	case !ok:
		return undo.Record{}, fmt.Errorf("no burst %q in the experiment", shot.Fault.ID)
	case f.Via == fault.ViaProxy && x.API != "":
		return undo.Record{Tap: &undo.Tap{API: x.API, ID: x.Run + "-" + strings.ReplaceAll(shot.Op, "#", ".")}}, nil
	case f.Via == fault.ViaProxy && x.Tap == nil:
		return undo.Record{}, fmt.Errorf("burst %q goes by the proxy, and none was opened", shot.Fault.ID)
	}
	return undo.Record{}, nil
}

// Inject arms the burst: in each victim, or on the way.
func (x *Failures) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	shot, f := r.Shot, x.Fault(r.Shot.Fault.ID).(*fault.Failures)
	span := history.At(x.Clock())
	var err error
	if r.Tap != nil {
		err = x.armProxy(ctx, r, f)
	} else if shot.Fault.Via == fault.ViaProxy {
		err = x.armTap(shot, f)
	} else {
		err = x.armWorkers(shot, f)
	}
	span.To = x.Clock()
	return span, err
}

// Confirm waits for the end of the burst and compares what it hit with what was asked for. The confirmed window reaches from the
// first hit to the last.
func (x *Failures) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	if r.Tap != nil {
		return x.confirmProxy(ctx, r, applied)
	}
	if r.Shot.Fault.Via == fault.ViaProxy {
		return x.confirmTap(ctx, r.Shot, applied)
	}
	return x.confirmWorkers(ctx, r.Shot, applied)
}

// Revert disarms what is still armed. A replica that has ended has nothing armed.
func (x *Failures) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	if r.Tap != nil {
		span := history.At(x.Clock())
		err := endAtProxy(ctx, r)
		span.To = x.Clock()
		return span, err
	}
	if r.Shot.Fault.Via == fault.ViaProxy {
		return x.endTap(r.Shot), nil
	}
	return x.disarm(ctx, r.Shot)
}

// outcome is the tally in the words of a confirmation.
func outcome(shot history.Event, window history.Span, t burst.Tally, why string) (history.Span, history.Fault, error) {
	var err error
	switch t.Outcome() {
	case burst.Moved:
		err = &voidError{history.Moved, strings.Join(victimsOf(shot), ", ") + " died during the burst"}
	case burst.None:
		err = &voidError{history.Unconfirmed, fmt.Sprintf("the burst hit no %s%s", operation(shot), why)}
	case burst.TooFew:
		err = &voidError{history.Unconfirmed, fmt.Sprintf("the burst hit %d of %d operations (%s)%s", t.Hits, t.Want, operation(shot), why)}
	}
	return window, history.Fault{Hits: t.Hits}, err
}

// operation is the word for what fails: renew, acquire, release.
func operation(shot history.Event) string { return strings.TrimSuffix(shot.Fault.Kind, "_failures") }

// victimsOf are the incarnations that a shot strikes.
func victimsOf(shot history.Event) []string {
	if shot.Fault.Victim != "" {
		return []string{shot.Fault.Victim}
	}
	return shot.Fault.Victims
}

// reach is what the burst strikes: the held key, or for acquires any key of its lock; else the operations on the lock that it names.
func reach(shot history.Event, b *fault.Failures) (lock, key string) {
	switch {
	case b.HolderOf == "":
		return b.Lock, ""
	case operation(shot) == burst.Acquire:
		return shot.Lock, ""
	}
	return shot.Lock, shot.Key
}

func (x *Failures) armWorkers(shot history.Event, b *fault.Failures) error {
	lock, key := reach(shot, b)
	arm := protocol.Arm{
		Fault: shot.Fault.ID, Shot: shot.Fault.Shot, Spec: burst.Spec{Op: operation(shot), Mode: string(b.Mode), Share: b.Share, Delay: b.Delay,
			Lock: lock, Key: key, Count: int(shot.Fault.Want), For: time.Duration(shot.Fault.Declared)},
	}
	var errs []error
	for _, v := range victimsOf(shot) {
		if err := x.Send(v, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &arm}); err != nil {
			errs = append(errs, fmt.Errorf("arm %s: %w", v, err))
		}
	}
	if len(errs) == len(victimsOf(shot)) { // of several, those that died meanwhile strike nothing
		return &voidError{history.Moved, fmt.Sprintf("nobody could be armed: %v", errors.Join(errs...))}
	}
	return nil
}

// confirmWorkers: the end is each victim's own word, or its death; or the count, where several share it.
func (x *Failures) confirmWorkers(ctx context.Context, shot history.Event, applied history.Span) (history.Span, history.Fault, error) {
	victims, window := victimsOf(shot), applied
	t := burst.Tally{Victims: len(victims), Want: shot.Fault.Want}
	var over []string
	why := ""
	_, err := x.Await(ctx, int(shot.N), func(e history.Event) bool {
		if v := endOf(e, shot, victims); v != "" && !slices.Contains(over, v) {
			over = append(over, v)
			t.Over++
			if e.Kind == history.ReplicaExit {
				t.Died++
			} else if e.Fault.Hits == 0 && e.Fault.Detail != "" {
				why = ": " + v + " says " + e.Fault.Detail
			}
		}
		if e.Op == shot.Op && e.Kind == history.FaultHit && slices.Contains(victims, e.Source) {
			if t.Hits++; t.Hits == 1 {
				window = e.Span
			}
			window.To = max(window.To, e.To)
		}
		return t.Settled()
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return window, history.Fault{Hits: t.Hits}, &voidError{history.Unconfirmed,
			fmt.Sprintf("the end of the burst in %s was not seen in time; %d operations (%s) failed so far", strings.Join(victims, ", "), t.Hits, operation(shot))}
	case err != nil:
		return window, history.Fault{Hits: t.Hits}, err
	}
	return outcome(shot, window, t, why)
}

// endOf names the victim for which the event is the end of the shot.
func endOf(e, shot history.Event, victims []string) string {
	switch {
	case e.Kind == history.ReplicaExit && slices.Contains(victims, e.Replica.Incarnation):
		return e.Replica.Incarnation
	case e.Kind == history.FaultReverted && e.Op == shot.Op && slices.Contains(victims, e.Source):
		return e.Source
	}
	return ""
}

// disarm tells the victims that the shot is over; a dead replica cannot be told, and need not be.
func disarm(send func(incarnation string, c protocol.Command) error, shot history.Event) {
	for _, v := range victimsOf(shot) {
		_ = send(v, protocol.Command{V: protocol.Version, Cmd: protocol.CmdDisarm, Disarm: &protocol.Disarm{Fault: shot.Fault.ID, Shot: shot.Fault.Shot}})
	}
}

func (x *Failures) disarm(ctx context.Context, shot history.Event) (history.Span, error) {
	victims := victimsOf(shot)
	disarm(x.Send, shot)
	var over []string
	span := history.Span{}
	_, err := x.Await(ctx, int(shot.N), func(e history.Event) bool {
		if v := endOf(e, shot, victims); v != "" && !slices.Contains(over, v) {
			over = append(over, v)
			span = history.Span{From: max(span.From, e.From), To: max(span.To, e.To)}
		}
		return len(over) == len(victims)
	})
	if err != nil {
		left := slices.DeleteFunc(slices.Clone(victims), func(v string) bool { return slices.Contains(over, v) })
		return history.Span{}, fmt.Errorf("disarm %s in %s: no answer: %w", shot.Op, strings.Join(left, ", "), err)
	}
	return span, nil
}
