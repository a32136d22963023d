package rehearsal

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// effects compares the effects that came after one of a later-granted epoch, or after their own epoch had lost the key.
func (c *comparison) effects() {
	stale, unowned, either := map[string]int{}, map[string]int{}, map[string]int{}
	top := map[string]*sim.Epoch{}
	for i := range c.t.Writes {
		w := &c.t.Writes[i]
		e := &c.t.Epochs[w.Epoch]
		if !w.Accepted {
			continue
		}
		late, lost := top[w.Key] != nil && later(top[w.Key], e), w.At > e.Freed && !c.besideRelease(i)
		if late {
			stale[e.Lock]++
		}
		if lost {
			unowned[e.Lock]++
		}
		if late || lost {
			either[e.Lock]++
		}
		if top[w.Key] == nil || later(e, top[w.Key]) {
			top[w.Key] = e
		}
	}
	for i := range c.j.Overlap {
		o := &c.j.Overlap[i]
		if o.Level != "effect" || c.back[o.Lock] {
			continue
		}
		n := either[o.Lock]
		c.tried.count(countEffects, n)
		c.note(o.Lock, "overlap.effect", float64(n))
		hi := o.Hi
		if c.seen != nil && c.seen.names {
			hi = nil // what was written between two holds of one name nobody can tell
		}
		c.counts(countEffects, n, o.Lo, hi, o.Lock)
		if o.Stale > stale[o.Lock] || o.Unowned > unowned[o.Lock] {
			c.wrong = append(c.wrong, fmt.Sprintf("effects of %s: %d stale and %d unowned, %d and %d were measured", o.Lock, stale[o.Lock], unowned[o.Lock], o.Stale, o.Unowned))
		}
	}
}

// besideRelease reports a write that an outsider counts for no unowned one, as docs/judging.md says: its holder gave the key back ahead of
// the lease's end, and by what was seen the write may have come before that.
func (c *comparison) besideRelease(write int) bool {
	if c.seen == nil {
		return false
	}
	e := &c.t.Epochs[c.t.Writes[write].Epoch]
	if e.Reached != e.Freed {
		return false
	}
	gone := slices.IndexFunc(c.looks[e.Key], func(at history.Span) bool { return at.To >= e.Freed })
	return gone >= 0 && c.read[write].From <= c.looks[e.Key][gone].To
}

// counts holds a count against a measured range.
func (c *comparison) counts(measure string, n int, lo float64, hi *float64, lock string) {
	if float64(n) < lo || hi != nil && float64(n) > *hi {
		most := math.Inf(1)
		if hi != nil {
			most = *hi
		}
		c.wrong = append(c.wrong, fmt.Sprintf("%s of %s: %d, measured from %g to %g", measure, lock, n, lo, most))
	}
	c.tried.width(measure, lo, hi)
}

// needs compares whether work had to be given up. It had to where its key was gone, or would have been before any fault let a renewal
// through; it had not where the key was there and no fault kept the client from the store all the time.
func (c *comparison) needs() {
	for i := range c.j.Abandonments {
		a := &c.j.Abandonments[i]
		n, known := c.byID[a.Epoch]
		if a.Reason == "" || !known || c.t.Epochs[n].Back {
			continue
		}
		e := &c.t.Epochs[n]
		own := (e.GaveBack || e.Reached <= e.Freed) && e.Freed < e.Due
		gone, end := e.Freed <= e.Abandoned && !own, e.Freed
		if own {
			end = e.Due
		}
		what := fmt.Sprintf("abandonment of epoch %s of %s", a.Epoch, a.Key)
		switch a.Need {
		case "needless":
			c.tried.count(countNeedless, 1)
			if gone {
				c.wrong = append(c.wrong, what+": needless, and the key was gone")
			} else if op := c.cutThroughout(e, end); op != "" {
				c.wrong = append(c.wrong, what+": needless, and "+op+" kept its client from the store to the end")
			}
		case "needed":
			c.tried.count(countNeeded, 1)
			if !gone && !c.cutUntil(end) {
				c.wrong = append(c.wrong, what+": needed, and nothing kept its client from the store to the end")
			}
		default:
			c.tried.count(countUnclear, 1)
		}
	}
}

// cutThroughout is a fault that surely let no call of e's client through from the abandonment to the end of the lease.
func (c *comparison) cutThroughout(e *sim.Epoch, end int64) string {
	for op, s := range c.shots {
		switch s.kind {
		case "black_hole", "reset", "down":
			if !slices.ContainsFunc(s.victims, func(v string) bool { return nameOf(v) == nameOf(e.Replica) }) {
				continue
			}
		case "store":
			if s.form != string(fault.StoreStop) && s.form != string(fault.StoreFreeze) {
				continue
			}
		default:
			continue
		}
		if s.applied.To > 0 && s.confirmed && s.applied.To <= e.Abandoned && s.reverted >= end {
			return op
		}
	}
	return ""
}

// cutUntil reports that some fault may have lasted until then.
func (c *comparison) cutUntil(end int64) bool {
	for _, s := range c.shots {
		if s.applied.To > 0 && s.kind != "kill" && s.applied.From <= end && s.over >= end {
			return true
		}
	}
	return false
}
