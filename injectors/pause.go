package injectors

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// Pause is SIGSTOP of a replica and what it has started, and SIGCONT at the end; of somebody's own, of the very process alone.
type Pause struct {
	Signal func(incarnation string, sig syscall.Signal) (history.Span, error) // returns the bracket of kill(2)
	Alone  bool
	Past   func() []history.Event // all that is recorded so far
	Clock  func() int64
}

// Prepare finds the victim's process: it must be the one that was started as this incarnation.
func (p *Pause) Prepare(_ context.Context, shot history.Event) (undo.Record, error) {
	victim := startOf(p.Past(), shot)
	if victim == nil {
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("%s was never started", shot.Fault.Victim)}
	}
	found := undo.Find(victim.PID)
	found.Started, found.Alone = victim.Started, p.Alone
	if alive, err := found.Lives(); err != nil {
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("%s cannot be paused: %v", shot.Fault.Victim, err)}
	} else if !alive {
		return undo.Record{}, &voidError{history.Moved, fmt.Sprintf("%s is gone already", shot.Fault.Victim)}
	}
	if _, any, err := standing(found); p.Alone && err == nil && any {
		return undo.Record{}, &voidError{history.NoTarget, fmt.Sprintf("%s stands still already: somebody else has stopped it", shot.Fault.Victim)}
	}
	return undo.Record{Process: &found}, nil
}

// Inject sends SIGSTOP. The bracket of the call is the fault's time.
func (p *Pause) Inject(_ context.Context, r undo.Record) (history.Span, error) {
	span, err := p.Signal(r.Shot.Fault.Victim, syscall.SIGSTOP)
	if err != nil {
		return span, notSent("pause", r.Shot, err)
	}
	return span, nil
}

// Confirm watches the victim for as long as the pause lasts: all its threads stand still, the whole time.
func (p *Pause) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	return watchStop(ctx, *r.Process, applied, time.Duration(r.Shot.Fault.Declared), p.Clock)
}

// Revert sends SIGCONT and reads back that the victim goes on.
func (p *Pause) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	return resumed(ctx, r.Process, p.Clock)
}

// resumed is resume with its bracket.
func resumed(ctx context.Context, p *undo.Process, clock func() int64) (history.Span, error) {
	span := history.At(clock())
	if p == nil {
		return span, nil
	}
	err := resume(ctx, *p)
	span.To = clock()
	return span, err
}
