package injectors

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

// ofStanding is a clock that goes on only from one reading at which the group stands to the next at which it still does: by it only
// standing takes time, however busy the machine.
func ofStanding(p undo.Process) func() int64 {
	last, stood := int64(0), false
	now := monotime.Now()
	return func() int64 {
		all, _, _ := standing(p)
		at := monotime.Now()
		if all && stood {
			now += at - last
		}
		last, stood = at, all
		return now
	}
}

// meanwhile is a clock that sends the group a signal when it is read for the second time while the group stands still: after the
// look that saw it stand, and before the next.
func meanwhile(p undo.Process, sig syscall.Signal) func() int64 {
	seen := 0
	return func() int64 {
		if all, _, _ := standing(p); all {
			if seen++; seen == 2 {
				_ = syscall.Kill(-p.PID, sig)
			}
		}
		return monotime.Now()
	}
}

// What did not stand still, or not for its time, is void, whatever was sent; and what was stopped is continued all the same.
func TestAStandstillThatIsNotFeltIsVoid(t *testing.T) {
	halt := &fault.Pause{}
	starve := &fault.Starve{Share: 0.5, Period: 20 * time.Millisecond}
	to := func(pid func(undo.Process) int) func(*world, undo.Process) {
		return func(w *world, p undo.Process) {
			w.Signal = func(_ string, sig syscall.Signal) (history.Span, error) {
				return history.At(monotime.Now()), syscall.Kill(pid(p), sig)
			}
		}
	}
	whole := to(func(p undo.Process) int { return -p.PID })
	then := func(sig syscall.Signal) func(*world, undo.Process) {
		return func(w *world, p undo.Process) { w.Clock = meanwhile(p, sig) }
	}
	for _, c := range []struct {
		name         string
		spec         fault.Spec
		lasts        time.Duration
		signal, then func(*world, undo.Process) // before it is made, and after
		want         history.VoidReason
	}{
		{"nothing was stopped", halt, 600 * time.Millisecond, func(w *world, _ undo.Process) { w.Signal = unsent }, nil, history.Unconfirmed},
		{"only the parent was stopped", halt, 600 * time.Millisecond, to(func(p undo.Process) int { return p.PID }), nil, history.Unconfirmed},
		{"somebody else continued it", halt, time.Minute, whole, then(syscall.SIGCONT), history.Unconfirmed}, // it never comes to a minute
		{"it was killed meanwhile", halt, time.Minute, whole, then(syscall.SIGKILL), history.Ended},
		{"somebody continues it as soon as it stands", starve, 100 * time.Millisecond, whole, func(w *world, p undo.Process) {
			w.Clock = func() int64 { // read after the look that saw it stand
				_ = resume(w.Context(), p)
				return monotime.Now()
			}
		}, history.Unconfirmed},
		{"it was killed between two turns", starve, time.Minute, whole, func(w *world, p undo.Process) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
			if _, err := w.Await(w.Context(), 0, func(e history.Event) bool { return e.Kind == history.ReplicaExit }); err != nil {
				w.Fatal(err)
			}
		}, history.Ended},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.process(alive)
			w.lasts = c.lasts
			c.signal(w, p)
			s := w.prepare(c.spec)
			applied, err := s.Inject(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.then != nil {
				c.then(w, p)
			}
			if _, _, err := s.confirm(applied); voidOf(err) != string(c.want) {
				t.Errorf("%v, want a void shot: %s", err, c.want)
			}
			if _, err := s.Revert(t.Context()); err != nil {
				t.Errorf("revert: %v", err)
			}
		})
	}
}

func TestAPauseOfWhatIsGoneIsVoid(t *testing.T) {
	w := newWorld(t)
	p := w.process(alive)
	s := w.prepare(&fault.Pause{})
	_ = syscall.Kill(-p.PID, syscall.SIGKILL)
	if _, err := w.Await(t.Context(), 0, func(e history.Event) bool { return e.Kind == history.ReplicaExit }); err != nil {
		t.Fatal(err)
	}
	w.Signal = func(string, syscall.Signal) (history.Span, error) {
		return history.Span{}, errors.New("the replica is dead") // as the fleet says it
	}
	if _, err := w.Prepare(t.Context(), s.Spec, s.Rec.Shot); voidOf(err) != "moved" {
		t.Errorf("prepare: %v, want moved", err)
	}
	if _, err := s.Inject(t.Context()); voidOf(err) != "moved" {
		t.Errorf("inject: %v, want moved", err)
	}
	if _, err := s.Revert(t.Context()); err != nil {
		t.Errorf("what is gone counts as reverted: %v", err)
	}
	// The number may be another's by now: it is not touched.
	other := newWorld(t).process(alive)
	_ = syscall.Kill(-other.PID, syscall.SIGSTOP)
	stranger := other
	stranger.Started, stranger.Mark = stranger.Started+"0", "another's"
	s.Rec.Process = &stranger
	if err := s.elsewhere(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*stopWithin)
	defer cancel()
	for {
		if _, any, _ := standing(other); any {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("a process was continued that only has the number of the victim")
		}
	}
}
