package conductor

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// A rolling restart that is not its pods' owner's: a series of which each shot restarts one replica, the next one when all are ready again.
// Which lives it is to restart is known when it begins: what is started meanwhile is new already.

// round is one pass through all replicas.
type round struct {
	left  []string // incarnations that are to be restarted
	fleet int      // how many there were
	last  string   // whom the last shot was for
	lost  string   // the one that was not replaced in time: the restart ends there
}

// roll fires the next restart, once it is known whose turn it is.
func (c *Conductor) roll(s *series, now int64) {
	r := &s.round
	if len(r.left) == 0 {
		r.left = c.living("").victims
		r.fleet = len(r.left)
	}
	if r.lost != "" {
		c.fire(s, now, target{word: history.NotReturned,
			why: fmt.Sprintf("%s was restarted, and no replica took its place within %s: the rolling restart ends there", r.lost, s.rolling.Within)})
		return
	}
	c.rolled(s, "")
	victim, known := c.turn(s)
	switch {
	case known && victim == "":
		c.fire(s, now, c.living(""))
	case known:
		c.fire(s, now, target{victims: []string{victim}})
	case now >= s.due:
		t := target{why: fmt.Sprintf("nobody led %s, so it is not known whose turn it is", s.rolling.Lock)}
		if why := c.unlooked(c.e.Lock(s.rolling.Lock)); why != "" {
			t = target{why: why, word: history.HolderUnknown}
		} else if word, why := c.world.unnamedHolder(s.rolling.Lock); word != "" {
			t = target{why: why, word: word}
		}
		c.fire(s, now, t)
	}
}

// turn is who is restarted next; known is false while nobody leads whose place in the order counts.
func (c *Conductor) turn(s *series) (incarnation string, known bool) {
	left := s.round.left
	first, last := len(left) == s.round.fleet, len(left) == 1
	if len(left) == 0 || s.rolling.Order == fault.ByIndex || s.rolling.Order == fault.LeaderFirst && !first || s.rolling.Order == fault.LeaderLast && last {
		return slices.Concat(left, []string{""})[0], true
	}
	keys := c.world.heldKeys(s.rolling.Lock)
	if len(keys) == 0 {
		return "", false
	}
	leader := c.world.held[keys[0]].inc
	for _, inc := range left {
		if (inc == leader) == (s.rolling.Order == fault.LeaderFirst) {
			return inc, true
		}
	}
	return left[0], true // who leads was started since
}

// struck notes whom a shot is for; all of them, where that is up to the pods' owner.
func (r *round) struck(victims []string, one bool) {
	if r.last = victims[0]; !one {
		r.fleet = len(victims)
	}
}

// rolled takes whom a shot has restarted off the round, and whoever has ended by itself.
func (c *Conductor) rolled(s *series, victim string) {
	s.round.left = slices.DeleteFunc(s.round.left, func(inc string) bool { return inc == victim || !c.world.isAlive(inc) })
}

// turnWithin is how long a shot waits until somebody leads.
func (c *Conductor) turnWithin(s *series) time.Duration {
	if l := c.e.Lock(s.rolling.Lock); l != nil {
		return 3*cycleOf(l) + time.Second
	}
	return 0
}

// whole reports that as many replicas are ready as there were.
func (c *Conductor) whole(s *series) bool { return len(c.living("").victims) >= s.round.fleet }

// count is how many shots are to be confirmed. Of somebody's own replicas there may be more than the file knows of.
func (s *series) count() int { return max(s.f.Repeat.Count, 1, s.valid+len(s.round.left)) }

// rollOn is when the next shot may be. Where the last victim was not replaced, that is one that says so.
func (c *Conductor) rollOn(s *series, now int64) int64 {
	if s.rolling == nil || !s.hit {
		return now
	}
	if !c.whole(s) {
		s.round.lost = s.round.last
	}
	return now + int64(s.rolling.Pause)
}
