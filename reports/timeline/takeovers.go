package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// bandsOf lists what is known to be possible for the lock before anything is measured.
func bandsOf(j *verdict.Judgement, lock string) (out []band) {
	for _, b := range j.Bands {
		if b.Lock == lock {
			name := "possible by the timings"
			if b.Untold != "" {
				name = "by the timings, but for the retry"
			}
			out = append(out, band{possible, name, b.Lo, b.Hi})
		}
	}
	for _, b := range j.Predicted {
		if b.Lock == lock && b.Hi != nil { // an open end bounds nothing that could be drawn
			out = append(out, band{rehearsed, "rehearsed, " + b.Class, b.Lo, *b.Hi})
		}
	}
	return out
}

func limitsOf(j *verdict.Judgement, lock string) (out []limit) {
	for _, s := range j.SLOs {
		if q := s.Question; s.Lock == lock && q != nil && q.Measure == "takeover" && s.Ask == verdict.AtMost {
			out = append(out, limit{q.Bound(), s.Limit})
		}
	}
	return out
}

// Takeovers draws the takeovers of each lock that has any against what was promised and what was to be expected: a row each, in the order
// of the run.
func Takeovers(e *experiments.Experiment, j *verdict.Judgement) []Picture {
	var locks []string
	of := map[string]*ranges{}
	last := map[string]string{} // fault of the row before
	for i := range j.Takeovers {
		t := &j.Takeovers[i]
		if t.Fault == "" { // a theft's value is no takeover
			continue
		}
		r := of[t.Lock]
		if r == nil {
			locks = append(locks, t.Lock)
			r = &ranges{title: "Takeovers of lock " + t.Lock, axis: "from the fault to the first effect of the next owner" + scaled(j.Run.TimeScale), text: tickText,
				of: "takeover", bands: bandsOf(j, t.Lock), limits: limitsOf(j, t.Lock),
				columns: []string{"#", "Fault", "Key", "From", "To", "Takeover", "Left of the lease", "Pickup", "Warm-up", "Tick gap", "Class", "Ended by"}}
			of[t.Lock] = r
		}
		tick := ""
		if t.TickGap != nil {
			tick = bracket(*t.TickGap)
		}
		r.rows = append(r.rows, ranged{name: count(i+1) + " " + t.Fault, lo: &t.Lo, hi: t.Hi, drawn: classMark(t.Class), parted: t.Fault != last[t.Lock],
			cells: []string{count(i + 1), t.Fault, t.Key, t.Victim, cmp.Or(t.Successor, "nobody yet"), bracket(t.Whole()),
				optional(t.Residual), optional(t.Pickup), optional(t.Warmup), tick, t.Class, cmp.Or(endWords[t.End], t.End)}})
		last[t.Lock] = t.Fault
	}
	place := func(lock string) int { // in the file; those that only the history knows come last
		for i := range e.System.Locks {
			if e.System.Locks[i].Name == lock {
				return i
			}
		}
		return len(e.System.Locks)
	}
	slices.SortStableFunc(locks, func(a, b string) int { return place(a) - place(b) })
	var out []Picture
	for i, lock := range locks {
		of[lock].desc = describe(of[lock])
		if slices.ContainsFunc(j.Takeovers, func(t verdict.Takeover) bool { return t.Lock == lock && t.End == endedByGrant }) {
			of[lock].axis += ", or its grant where effects are not seen"
		}
		out = append(out, of[lock].draw("takeovers-"+count(i+1)))
	}
	return out
}

func describe(r *ranges) string {
	lo, hi, open := math.Inf(1), 0.0, 0
	for _, t := range r.rows {
		lo, hi = min(lo, *t.lo), max(hi, *t.lo)
		if t.hi == nil {
			open++
		} else {
			hi = max(hi, *t.hi)
		}
	}
	s := figures.Plural(len(r.rows), "takeover") + " of " + duration(lo)
	if duration(hi) != duration(lo) {
		s += " to " + duration(hi)
	}
	if open > 0 {
		s += ", " + figures.Count(open) + " not seen to the end"
	}
	for _, l := range r.limits {
		s += "; promised " + l.name + " <= " + duration(l.value)
	}
	for _, b := range r.bands {
		s += "; " + b.name + " " + duration(b.lo) + " to " + duration(b.hi)
	}
	return s + "."
}

// classMark is how takeovers of one class are drawn.
func classMark(class string) mark {
	switch class {
	case verdict.ClassCrash:
		return shape("after a kill", "mark", 3.6, (*path).dot)
	case verdict.ClassPause:
		return shape("after a fault that cut the holder off", "mark", 4.2, (*path).diamond)
	case verdict.ClassStore:
		return shape("after a fault of the store", "mark", 3.6, square)
	case verdict.ClassTheft:
		return shape("after the key was taken away", "mark", 3.6, triangle)
	case verdict.ClassRecovery:
		return shape("recovery: the victim itself again", "hollow", 3.6, square)
	case verdict.ClassHandOver:
		return shape("hand-over: given back", "hollow", 3.6, (*path).dot)
	}
	return shape(class, "hollow", 4.2, (*path).diamond)
}
