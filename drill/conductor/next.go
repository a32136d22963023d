package conductor

import "math"

// never is the time of what does not come by itself.
const never = int64(math.MaxInt64)

// Next is the instant, after now, at which Step is to be called even if nothing is observed: the first at which it could do anything.
// It is exact, so that virtual time passes from event to event. Step notes each instant that it compares with now.
func (c *Conductor) Next(now int64) int64 { return max(c.wake, now+1) }

// due reports that an instant has come, and else notes it.
func (c *Conductor) due(now, at int64) bool {
	if now < at {
		c.note(at)
	}
	return now >= at
}

func (c *Conductor) note(at int64) { c.wake = min(c.wake, at) }

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

// hung notes the replicas that have not got ready in time.
func (c *Conductor) hung(now int64) {
	for _, r := range c.world.replicas {
		if r.alive && !r.ready && c.due(now, c.world.hungAt(r)) {
			r.failed, r.lastExit = failedStarts, "not ready after "+c.world.ready.String()
		}
	}
}

// hungAt is when a replica that is not ready is given up. One that is not ours may take its time.
func (w *world) hungAt(r *replica) int64 {
	if w.observed {
		return never
	}
	return r.startedA + int64(w.ready) + 1
}
