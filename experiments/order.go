package experiments

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/internal/vocab"
)

// The order of faults: each begins at its time, after another, or together with others.

// Fault is the fault of that id; nil = there is none.
func (e *Experiment) Fault(id string) *Fault {
	return find(e.Faults, func(f *Fault) bool { return f.ID == id && id != "" })
}

// Begin is when the first shot of a fault is due: so long after the steady state, or after all shots of another fault have settled.
func (e *Experiment) Begin(f *Fault) (after *Fault, offset time.Duration) {
	for range e.Faults {
		first := (*Fault)(nil)
		if len(f.Together) > 0 {
			first = e.Fault(f.Together[0])
		}
		if first == nil {
			break
		}
		f = first
	}
	if f.After != "" {
		return e.Fault(f.After), f.Delay
	}
	return nil, f.At
}

// Earliest is the earliest that the first shot of a fault can come, after the steady state.
func (e *Experiment) Earliest(f *Fault) time.Duration {
	var at time.Duration
	for range len(e.Faults) + 1 {
		after, offset := e.Begin(f)
		if at += offset; after == nil {
			break
		}
		f = after
		at += time.Duration(max(0, f.Repeat.Count-1))*max(f.For, f.Repeat.Every) + f.For
	}
	return at
}

// behind reports that a begins only when all shots of b have settled, or of a fault that does.
func (e *Experiment) behind(a, b *Fault) bool {
	for range e.Faults {
		after, _ := e.Begin(a)
		if after == nil || after == b || e.within(b, after) {
			return after != nil
		}
		a = after
	}
	return false
}

// within reports that a begins when b does, and is over when b is.
func (e *Experiment) within(a, b *Fault) bool {
	x, at := e.Begin(a)
	y, other := e.Begin(b)
	return x == y && at == other && a.Repeat.Count <= 1 && a.Traits().Count == 0 && a.For <= b.For
}

// begins reports that it is known when the i-th fault begins and ends, and those that it waits for.
func (c *checker) begins(i int) bool {
	if f := &c.e.Faults[i]; f.After != "" || len(f.Together) > 0 {
		return c.sure("faults")
	}
	return c.sure(vocab.At("faults", i))
}

// faultIDs are the ids of all faults; one that is lost is "".
func (c *checker) faultIDs() (ids []string) {
	for i := range c.e.Faults {
		ids = append(ids, c.e.Faults[i].ID)
	}
	return ids
}

// order refuses an order of faults that says two things, or leads back to itself. Which of them overlap is known only where it is right.
func (c *checker) order() (right bool) {
	right = true
	for path, f := range entries("faults", c.e.Faults) {
		given := vocabulary.Said(f, "after", "at", "together")
		if c.Refuse(len(given) > 1, path, "has %s: a fault begins by one of at, after and together", strings.Join(given, " and ")) {
			right = false
			continue
		}
		other := func(path, id string) bool {
			return !c.Refuse(id == f.ID, path, "is the fault itself: another one is wanted") && c.e.Fault(id) != nil
		}
		sound := f.After == "" || other(path+".after", f.After)
		for j, id := range f.Together {
			sound = other(vocab.At(path+".together", j), id) && sound
		}
		circle := c.circle(f)
		c.Refuse(circle != nil && sound, path, "waits for itself: %s", strings.Join(circle, ", "))
		if circle != nil || !sound {
			right = false
			continue
		}
		for j := 1; j < len(f.Together); j++ {
			first, other := c.e.Fault(f.Together[0]), c.e.Fault(f.Together[j])
			if a, x := c.e.Begin(first); c.circle(other) == nil {
				if b, y := c.e.Begin(other); a != b || x != y {
					c.Check(vocab.At(path+".together", j), "%s does not begin when %s does: say there together: [%s]", other.ID, first.ID, first.ID)
					right = false
				}
			}
		}
	}
	return right
}

// circle is the faults by which one waits for itself; nil = it does not.
func (c *checker) circle(f *Fault) []string {
	said, seen := []string{f.ID}, map[string]bool{}
	var follow func(g *Fault) bool
	follow = func(g *Fault) bool {
		next := slices.Clone(g.Together)
		word := " begins with "
		if g.After != "" {
			next, word = append(next, g.After), " comes after "
		}
		for _, id := range next {
			o := c.e.Fault(id)
			if o == nil || seen[id] {
				continue
			}
			seen[id] = true
			said = append(said, g.ID+word+id)
			if o == f || follow(o) {
				return true
			}
			said = said[:len(said)-1]
		}
		return false
	}
	if follow(f) {
		return said[1:]
	}
	return nil
}

// help says what keeps two faults apart, or lets them be in effect together, for whoever let them overlap.
func (c *checker) help(a, b *Fault, collide bool) string {
	ways := []string{"move it"}
	if !c.e.behind(a, b) {
		ways = append(ways, "say after: "+a.ID+" in place of at")
	}
	x, at := c.e.Begin(a)
	y, other := c.e.Begin(b)
	switch {
	case collide:
	case x == y && at == other && len(a.Together)+len(b.Together) == 0:
		ways = append(ways, "together: ["+a.ID+"] if both are meant at once")
	default:
		ways = append(ways, "say allow_overlap: [["+a.ID+", "+b.ID+"]]")
	}
	return strings.Join(ways[:len(ways)-1], ", ") + ", or " + ways[len(ways)-1]
}
