package experiments

import (
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/vocab"
)

// overlaps refuses faults that may be in effect together, unless the file allows that pair; two faults of the network on one way
// it cannot allow.
func (c *checker) overlaps(ordered bool) {
	allowed := c.allowed()
	if !ordered || !c.sure("allow_overlap") {
		return
	}
	for j := range c.e.Faults {
		for i := range j {
			a, b := &c.e.Faults[i], &c.e.Faults[j]
			if a.ID == b.ID || !c.begins(i) || !c.begins(j) || a.Kind() == "" || b.Kind() == "" {
				continue
			}
			wa, wb := c.window(a), c.window(b)
			if !wa.meets(wb) || c.e.behind(a, b) || c.e.behind(b, a) {
				continue
			}
			if why := fault.Collide(a.Spec, b.Spec); why != "" {
				c.Check(vocab.At("faults", j), "%s (%s) overlaps %s (%s): %s; %s", b.ID, wb, a.ID, wa, why, c.help(a, b, true))
			} else if !slices.Contains(allowed, pair(a.ID, b.ID)) && !together(a, b) {
				c.Check(vocab.At("faults", j), "%s (%s) overlaps %s (%s): %s", b.ID, wb, a.ID, wa, c.help(a, b, false))
			}
		}
	}
}

// MayMeet reports whether the file allows two faults to be in effect together.
func (e *Experiment) MayMeet(a, b *Fault) bool {
	return together(a, b) || slices.ContainsFunc(e.AllowOverlap, func(p [2]string) bool { return pair(p[0], p[1]) == pair(a.ID, b.ID) })
}

// together reports that one of two faults says that it begins with the other, and so is in effect with it.
func together(a, b *Fault) bool {
	return slices.Contains(a.Together, b.ID) || slices.Contains(b.Together, a.ID)
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

func (c *checker) allowed() (out [][2]string) {
	for i, p := range c.e.AllowOverlap {
		c.Refuse(p[0] == p[1], vocab.At("allow_overlap", i), "a fault with itself: two different faults are wanted")
		out = append(out, pair(p[0], p[1]))
	}
	return out
}

// window is when a fault may be in effect, after the steady state.
type window struct {
	from, to time.Duration
	after    string // the fault that it begins after, by a delay; from is then the earliest
}

// open is the end of a window that only the run can know.
const open = time.Duration(math.MaxInt64)

func (w window) meets(o window) bool {
	return w.from == o.from || w.from < o.to && o.from < w.to
}

func (w window) String() string {
	if w.after != "" {
		return "after " + w.after
	}
	switch w.to {
	case w.from:
		return "at " + figures.Spell(w.from)
	case open:
		return "from " + figures.Spell(w.from) + " until settled"
	}
	return figures.Spell(w.from) + " to " + figures.Spell(w.to)
}

// window is open-ended for shots that wait for one another, and for bursts that end with their count.
func (c *checker) window(f *Fault) window {
	from := c.e.Earliest(f)
	w := window{from: from, to: from + f.For}
	switch after, _ := c.e.Begin(f); {
	case after != nil:
		w.to, w.after = open, after.ID
	case f.Repeat.Count > 1 && f.Repeat.Settled, f.Traits().Count > 0 && f.For == 0:
		w.to = open
	case f.Repeat.Count > 1:
		w.to += time.Duration(f.Repeat.Count-1) * f.Repeat.Every
	}
	return w
}
