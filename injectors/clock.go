package injectors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Clock sets off the wall clock of replicas as their lock cores see it. Each replica says by how much it then sees its clock to be
// off, and sets it right by itself when the time is up, so that a dead runner leaves no clock wrong.
type Clock struct {
	Send   func(incarnation string, c protocol.Command) error
	Await  Await
	Offset func(fault string) time.Duration // by the fault's id
	Now    func() int64
}

// Prepare has nothing to write down but the shot: the fault lives in the replicas, and ends there by itself.
func (c *Clock) Prepare(context.Context, history.Event) (undo.Record, error) {
	return undo.Record{}, nil
}

// Inject tells every victim.
func (c *Clock) Inject(_ context.Context, r undo.Record) (history.Span, error) {
	span := history.At(c.Now())
	for _, victim := range victimsOf(r.Shot) {
		err := c.Send(victim, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &protocol.Arm{
			Fault: r.Shot.Fault.ID, Shot: r.Shot.Fault.Shot,
			Spec: burst.Spec{Op: protocol.OpClock, Mode: protocol.ModeOffset, Delay: c.Offset(r.Shot.Fault.ID), For: time.Duration(r.Shot.Fault.Declared)},
		}})
		if err != nil {
			return span, &voidError{history.Moved, fmt.Sprintf("arm %s: %v", victim, err)}
		}
	}
	span.To = c.Now()
	return span, nil
}

// sawOffset begins what a replica says about its clock: "observed offset 2s".
const sawOffset = "observed offset "

// Confirm waits until every victim has said how far its clock is off, and compares that with what was asked for.
func (c *Clock) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	want := c.Offset(r.Shot.Fault.ID)
	window, seen := applied, history.Fault{Expected: int64(want)}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	for _, victim := range victimsOf(r.Shot) {
		e, err := c.Await(ctx, int(r.Shot.N), func(e history.Event) bool {
			mine := e.Source == victim && e.Op == r.Shot.Op && (e.Kind == history.FaultHit || e.Kind == history.FaultReverted)
			return mine || e.Kind == history.ReplicaExit && e.Replica.Incarnation == victim
		})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return window, seen, &voidError{history.Unconfirmed, victim + " does not say that its clock is off"}
		case err != nil:
			return window, seen, err
		case e.Kind == history.ReplicaExit:
			return window, seen, &voidError{history.Moved, victim + " died"}
		case e.Kind == history.FaultReverted:
			return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("%s did not set its clock off: %s", victim, e.Fault.Detail)}
		}
		text, said := strings.CutPrefix(e.Fault.Detail, sawOffset)
		off, err := time.ParseDuration(text)
		if !said || err != nil {
			return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("%s does not say by how much its clock is off (%q)", victim, e.Fault.Detail)}
		}
		seen.Observed = int64(off)
		if (off - want).Abs() > max(want.Abs()/10, 5*time.Millisecond) {
			return window, seen, &voidError{history.Unconfirmed, fmt.Sprintf("the clock of %s is off by %s, not by %s", victim, off, want)}
		}
		seen.Hits++
		window = history.Span{From: max(window.From, e.From), To: max(window.To, e.To)} // in effect at all of them
	}
	return window, seen, nil
}

// Revert disarms; a replica that has ended, or disarmed itself, has a right clock.
func (c *Clock) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	span := history.At(c.Now())
	disarm(c.Send, r.Shot)
	var errs []error
	for _, victim := range victimsOf(r.Shot) {
		e, err := c.Await(ctx, int(r.Shot.N), func(e history.Event) bool {
			return e.Kind == history.FaultReverted && e.Op == r.Shot.Op && e.Source == victim ||
				e.Kind == history.ReplicaExit && e.Replica.Incarnation == victim
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("set the clock of %s right: no answer: %w", victim, err))
			continue
		}
		span.To = max(span.To, e.To)
	}
	return span, errors.Join(errs...)
}
