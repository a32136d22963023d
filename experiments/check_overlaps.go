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
func (c *checker) overlaps() {
	allowed := c.allowed()
	for j := range c.e.Faults {
		for i := range j {
			a, b := &c.e.Faults[i], &c.e.Faults[j]
			if a.ID == b.ID || c.Invalid(vocab.At("faults", i)) || a.Kind() == "" || b.Kind() == "" {
				continue
			}
			wa, wb := c.window(a), c.window(b)
			if !wa.meets(wb) {
				continue
			}
			if why := fault.Collide(a.Spec, b.Spec); why != "" {
				c.Check(vocab.At("faults", j), "%s (%s) overlaps %s (%s): %s; move it", b.ID, wb, a.ID, wa, why)
			} else if !slices.Contains(allowed, pair(a.ID, b.ID)) {
				c.Check(vocab.At("faults", j), "%s (%s) overlaps %s (%s): move it, or say allow_overlap: [[%s, %s]]", b.ID, wb, a.ID, wa, a.ID, b.ID)
			}
		}
	}
}

// MayMeet reports whether the file allows two faults to be in effect together.
func (e *Experiment) MayMeet(a, b *Fault) bool {
	return slices.ContainsFunc(e.AllowOverlap, func(p [2]string) bool { return pair(p[0], p[1]) == pair(a.ID, b.ID) })
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

func (c *checker) allowed() [][2]string {
	var ids []string
	for i := range c.e.Faults {
		ids = append(ids, c.e.Faults[i].ID)
	}
	var out [][2]string
	for i, p := range c.e.AllowOverlap {
		for j, id := range p {
			if len(ids) > 0 && !slices.Contains(ids, id) && !slices.Contains(ids, "") {
				c.Check(vocab.At(vocab.At("allow_overlap", i), j), "no fault is called %s", vocab.UnknownWord(id, ids))
			}
		}
		if p[0] == p[1] {
			c.Check(vocab.At("allow_overlap", i), "a fault with itself: two different faults are wanted")
		}
		out = append(out, pair(p[0], p[1]))
	}
	return out
}

// window is when a fault may be in effect, after the steady state.
type window struct {
	from, to time.Duration
}

// open is the end of a window that only the run can know.
const open = time.Duration(math.MaxInt64)

func (w window) meets(o window) bool {
	return w.from == o.from || w.from < o.to && o.from < w.to
}

func (w window) String() string {
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
	w := window{from: f.At, to: f.At + f.For}
	switch {
	case f.Repeat.Count > 1 && f.Repeat.Settled, f.Traits().Count > 0 && f.For == 0:
		w.to = open
	case f.Repeat.Count > 1:
		w.to += time.Duration(f.Repeat.Count-1) * f.Repeat.Every
	}
	return w
}
