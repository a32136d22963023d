package conductor

import (
	"math"

	"github.com/lockdrill/lockdrill/history"
)

// never is the time of what does not come by itself.
const never = int64(math.MaxInt64)

// Next is the instant, after now, at which Step is to be called even if nothing is observed: the first at which it could do anything.
// It is exact, so that virtual time passes from event to event. Every comparison of Step with now has its instant here.
func (c *Conductor) Next(now int64) int64 {
	next := c.next(now)
	if c.phase == "" || c.abort != nil && !c.aborted {
		next = now
	}
	if c.abort == nil {
		next = min(next, c.begun+int64(c.e.Limits.MaxRun)+1)
	}
	if c.abort == nil && c.phase != history.PhaseFinal {
		next = min(next, c.abortNext())
	}
	for _, r := range c.world.replicas {
		if r.alive && !r.ready && r.failed < failedStarts {
			next = min(next, c.world.hungAt(r))
		}
		if r.startAt != 0 && r.failed < failedStarts && c.phase != history.PhaseFinal {
			next = min(next, r.startAt)
		}
	}
	if c.phase != history.PhaseFinal {
		for _, s := range c.streams {
			next = min(next, s.nextDue(c, now))
		}
	}
	return max(next, now+1)
}

// next is when the phase moves on.
func (c *Conductor) next(now int64) int64 {
	switch c.phase {
	case history.PhaseSteady:
		return c.steadyNext(now)
	case history.PhaseFaults:
		next := never
		for _, s := range c.series {
			next = min(next, c.seriesNext(s, now))
		}
		return next
	case history.PhaseSettle:
		if !c.aborted && !c.unsteady {
			return c.settledAt()
		}
	}
	return now
}

// steadyNext is when the steady state has held for long enough, stops to hold, or has been waited for long enough.
func (c *Conductor) steadyNext(now int64) int64 {
	next := c.since + int64(c.e.SteadyState.Timeout)
	if c.steady < 0 {
		return next
	}
	next = min(next, c.steady+int64(c.e.SteadyState.For))
	if c.world.observed { // what else it lacks shows in events
		return min(next, c.world.lapses(now))
	}
	for i := range c.e.System.Locks {
		if l := &c.e.System.Locks[i]; l.Loop() {
			next = min(next, c.world.loops[l.Name].silentAt(l))
		}
	}
	return next
}

// seriesNext is when a series moves on by itself.
func (c *Conductor) seriesNext(s *series, now int64) int64 {
	switch s.state {
	case waiting:
		if now >= s.due && c.mustWait(s, now) { // until another has moved on
			return never
		}
		return s.due
	case armed:
		return s.due // a target that is struck at once was struck by the Step that followed its event
	case lasting:
		return c.overdue(s)
	case settling:
		return c.leftOpen(s)
	}
	return never // flying: the injector answers; or spent
}
