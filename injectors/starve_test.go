package injectors

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

func starving(p *stepping) *stepping {
	return steps(&fault.Starve{Share: 0.5, Period: 20 * time.Millisecond}, p.Reach)
}

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

// A starved process stands still again and again, is seen to, and goes on when it is over; by its record alone as well.
func TestAStarvedProcessStandsInTurns(t *testing.T) {
	_, proc := sleeper(t)
	p, shot := pausing(proc, group(proc))
	s := starving(p)
	s.Clock = ofStanding(proc)
	r, err := s.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Kind, r.Shot = "starve", shot
	if _, err := s.Inject(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := resume(t.Context(), proc); err != nil { // else it stands, by this clock, while a busy machine lets nobody look
		t.Fatal(err)
	}
	applied := history.At(s.Clock())
	window, seen, err := s.Confirm(t.Context(), r, applied)
	if err != nil || seen.Hits < 2 || seen.Observed < seen.Expected || seen.Expected <= 0 || window.To <= window.From {
		t.Errorf("window %v, seen %+v, %v; want at least two standstills", window, seen, err)
	}
	if _, any, err := standing(proc); any || err != nil {
		t.Errorf("it still stands when its time is up: %v", err)
	}
	if _, err := s.Inject(t.Context(), r); err != nil { // as if the runner had died between SIGSTOP and SIGCONT
		t.Fatal(err)
	}
	if !r.Halts() {
		t.Error("it is undone after the faults that a stopped process cannot be told to end")
	}
	if err := (&Reach{}).Reverters(false)["starve"](t.Context(), r); err != nil {
		t.Error(err)
	}
	if _, any, err := standing(proc); any || err != nil {
		t.Errorf("undone, it still stands: %v", err)
	}
}

// What did not stand still for its share is void: here somebody else continues it as soon as it stands.
func TestAProcessThatSomebodyContinuesIsNotStarved(t *testing.T) {
	_, proc := sleeper(t)
	p, shot := pausing(proc, group(proc))
	s := starving(p)
	shot.Fault.Declared = int64(100 * time.Millisecond)
	r, err := s.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	applied, err := s.Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s.Clock = func() int64 { // read after the look that saw it stand
		_ = resume(t.Context(), proc)
		return monotime.Now()
	}
	if _, _, err := s.Confirm(t.Context(), r, applied); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), "stand still") {
		t.Errorf("%v", err)
	}
}

func TestAStarvedProcessThatEndsIsVoid(t *testing.T) {
	cmd, proc := sleeper(t)
	p, shot := pausing(proc, group(proc))
	s := starving(p)
	r, err := s.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	applied, err := s.Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, _, err := s.Confirm(t.Context(), r, applied); voidOf(err) != "ended" {
		t.Errorf("%v", err)
	}
}
