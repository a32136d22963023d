package experiments

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

func (c *checker) faults() {
	ids := map[string]int{}
	for i := range c.e.Faults {
		f, path := &c.e.Faults[i], at("faults", i)
		if first, ok := ids[f.ID]; ok && f.ID != "" {
			c.check(path+".id", "a second fault called %q: the first is faults[%d]", f.ID, first)
		}
		ids[f.ID] = i
		if kinds := setPointers(f); len(kinds) == 0 {
			c.check(path, "does nothing: a fault has one of kill, renew_failures")
			continue
		} else if len(kinds) > 1 {
			c.check(path, "has %s: a fault has exactly one kind", strings.Join(kinds, " and "))
			continue
		}
		switch {
		case f.Kill != nil:
			c.kill(path, f)
		case f.RenewFailures != nil:
			c.renewFailures(path, f)
		}
		if r := f.Repeat; r.Every > 0 && r.Every < f.For {
			c.check(path+".repeat.every", "%s is under for %s: the fault would overlap itself", formatDuration(r.Every), formatDuration(f.For))
		}
	}
}

// setPointers names the pointer fields of a union that are set, as a file spells them.
func setPointers(union any) []string {
	v := reflect.ValueOf(union).Elem()
	var names []string
	for _, f := range fieldsOf(v.Type(), nil) {
		if f.typ.Kind() == reflect.Pointer && !v.FieldByIndex(f.index).IsNil() {
			names = append(names, f.name)
		}
	}
	return names
}

func (c *checker) kill(path string, f *Fault) {
	if f.For > 0 {
		c.check(path+".for", "a kill is an instant: it has no duration")
	}
	k := f.Kill
	l := c.sound(path+".kill.holder_of", k.HolderOf)
	if l == nil {
		return
	}
	why := ""
	switch k.Phase {
	case KillAfterRenew, KillBeforeRenew:
		why = c.neverRenewed(l)
	case KillAfterGrant, KillAcquired:
		why = c.neverGrantedAgain(l)
	}
	if why != "" {
		c.check(path+".kill.phase", "%s never comes: %s", k.Phase, why)
	}
}

// neverGrantedAgain says why the lock is not granted once the faults have begun, or "". Another fault may cost the holder its lock.
func (c *checker) neverGrantedAgain(l *Lock) string {
	if !l.Loop() || l.Policy.Loop.Mode != lockcore.LoopRenewed || len(c.e.Faults) > 1 {
		return ""
	}
	return fmt.Sprintf("loop %s is renewed until its holder dies, so it is granted once, before the first fault; after_renew comes", l.Name)
}

func (c *checker) renewFailures(path string, f *Fault) {
	if f.For == 0 && f.RenewFailures.Count == 0 {
		c.check(path+".renew_failures", "needs a count, or a duration (for) of the fault: nothing may fail without end")
	}
	if l := c.sound(path+".renew_failures.holder_of", f.RenewFailures.HolderOf); l != nil {
		if why := c.neverRenewed(l); why != "" {
			c.check(path+".renew_failures", "there is no renewal to fail: %s", why)
		}
	}
}

// neverRenewed says why no holder of the lock ever renews it, or "".
func (c *checker) neverRenewed(l *Lock) string {
	p := &l.Policy
	first := time.Duration(float64(p.RenewEvery) * (1 - p.RenewJitter))
	if p.RenewEvery == 0 {
		return fmt.Sprintf("lock %s is not renewed (renew_every 0s)", l.Name)
	}
	if l.Loop() {
		if p.Loop.Mode != lockcore.LoopRenewed && p.Loop.Tick <= first {
			return fmt.Sprintf("lock %s is renewed only during a tick, and a tick of %s ends before the first renewal after %s",
				l.Name, formatDuration(p.Loop.Tick), formatDuration(first))
		}
		return ""
	}
	for _, w := range c.e.System.Work {
		if w.Lock == l.Name && w.Hold.P50 == w.Hold.P99 && w.Hold.P99 > 0 && w.Hold.P99 <= first {
			return fmt.Sprintf("work of %s under lock %s ends before the first renewal after %s",
				formatDuration(w.Hold.P99), l.Name, formatDuration(first))
		}
	}
	return ""
}

// overlaps refuses faults that may be in effect together, unless the file allows that pair.
func (c *checker) overlaps() {
	allowed := c.allowed()
	for j := range c.e.Faults {
		for i := range j {
			a, b := &c.e.Faults[i], &c.e.Faults[j]
			if a.ID == b.ID || c.touched(at("faults", i)) || a.Kind() == "" || b.Kind() == "" || slices.Contains(allowed, pair(a.ID, b.ID)) {
				continue
			}
			if wa, wb := c.window(a), c.window(b); wa.meets(wb) {
				c.check(at("faults", j), "%s (%s) overlaps %s (%s): move it, or say allow_overlap: [[%s, %s]]", b.ID, wb, a.ID, wa, a.ID, b.ID)
			}
		}
	}
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
			if !slices.Contains(ids, id) && !slices.Contains(ids, "") {
				c.check(at(at("allow_overlap", i), j), "no fault is called %s", unknownWord(id, ids))
			}
		}
		if p[0] == p[1] {
			c.check(at("allow_overlap", i), "a fault with itself: two different faults are wanted")
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
		return "at " + formatDuration(w.from)
	case open:
		return "from " + formatDuration(w.from) + " until settled"
	}
	return formatDuration(w.from) + " to " + formatDuration(w.to)
}

// window is open-ended for shots that wait for one another, and for bursts that end with their count.
func (c *checker) window(f *Fault) window {
	w := window{from: f.At, to: f.At + f.For}
	switch {
	case f.Repeat.Count > 1 && f.Repeat.Settled, f.RenewFailures != nil && f.For == 0:
		w.to = open
	case f.Repeat.Count > 1:
		w.to += time.Duration(f.Repeat.Count-1) * f.Repeat.Every
	}
	return w
}
