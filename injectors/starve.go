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

// Starve is a pause in a duty cycle: the victim stands still for a share of each period. The first SIGSTOP is the fault's time, and the
// cycle goes on while it is confirmed, so that nobody stops the victim once the shot is over; a victim that a dead runner has left
// standing is continued by its record, as after a pause.
type Starve struct {
	Pause
	Fault func(id string) fault.Spec // as it is run: scaled
}

func (s *Set) starve() Injector {
	if s.Signal == nil {
		return nil
	}
	return &Starve{Pause: Pause{Signal: s.Signal, Alone: s.Alone, Past: s.Past, Clock: s.Clock}, Fault: s.Fault}
}

// enoughStood is the part of the declared standstill that must have been seen, in tenths: what a look takes is not counted.
const enoughStood = 8

// Confirm stops and continues the victim until its time is up, and adds up for how long all its threads were seen to stand: from the
// end of the look that found them standing to the beginning of the last one before SIGCONT that still did.
func (s *Starve) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	f := s.Fault(r.Shot.Fault.ID).(*fault.Starve)
	window, end := history.At(applied.To), applied.To+r.Shot.Fault.Declared
	var seen history.Fault
	for now := s.Clock(); now < end && ctx.Err() == nil; now = s.Clock() {
		stood, err := s.turn(ctx, *r.Process, f)
		if errors.Is(err, errGone) {
			err = endedBySomebody(*r.Process, s.Clock(), applied)
		}
		if err != nil {
			return window, seen, err
		}
		if stood > 0 {
			seen.Hits++
		}
		window.To = s.Clock()
		seen.Observed += int64(stood)
		seen.Expected = int64(f.Share * float64(window.Width()))
	}
	if seen.Hits == 0 || seen.Observed*10 < seen.Expected*enoughStood {
		return window, seen, &voidError{"unconfirmed", fmt.Sprintf("process %d was seen to stand still for %s of %s, wanted %s",
			r.Process.PID, time.Duration(seen.Observed), time.Duration(window.Width()), time.Duration(seen.Expected))}
	}
	return window, seen, nil
}

// turn is one period: it returns for how long the victim was seen to stand in it. That it goes on in between is seen as well: what
// somebody else holds is paused, not starved.
func (s *Starve) turn(ctx context.Context, p undo.Process, f *fault.Starve) (time.Duration, error) {
	began := s.Clock()
	if err := signal(p, syscall.SIGSTOP); err != nil {
		return 0, err
	}
	from, err := s.standsFrom(ctx, p)
	if err != nil || from == 0 {
		return 0, err
	}
	rest(ctx, f.Stood())
	looked := s.Clock()
	all, _, err := standing(p)
	if err := errors.Join(err, resume(context.WithoutCancel(ctx), p)); err != nil { // resumed: read back
		return 0, err
	}
	goes := f.Period - f.Stood()
	rest(ctx, max(goes/4, f.Period-time.Duration(s.Clock()-began))) // looking has taken its time, too
	if !all {
		return 0, nil // somebody has continued it
	}
	return time.Duration(looked - from), nil
}

// standsFrom waits until the victim is seen to stand, and returns the end of that look; 0 = the run ended first.
func (s *Starve) standsFrom(ctx context.Context, p undo.Process) (int64, error) {
	limit := time.NewTimer(stopWithin)
	defer limit.Stop()
	for ctx.Err() == nil {
		if all, _, err := standing(p); err != nil || all {
			return s.Clock(), err
		}
		select {
		case <-limit.C:
			return 0, &voidError{"unconfirmed", fmt.Sprintf("process %d was never seen to stand still", p.PID)}
		default:
			rest(ctx, stateEvery)
		}
	}
	return 0, nil
}

// rest lets time go by, or the run end.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
