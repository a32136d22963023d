package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// Measures of distributions.
const (
	measureHeld = "held"
	measureWait = "wait"
)

// distribution is how long the holds, or the waits, of the jobs of one class were.
type distribution struct {
	measure, lock, class string
	values               []value
	ns                   []int64 // held: the event of each value's grant
	cut                  int     // holds that ended with their holder's death: how long they would have been is not known
}

// distributionsOf gives the holds and, for locks of jobs, the waits of the lock, by class in the order of their appearance.
func (ix *Facts) distributionsOf(lock string) []*distribution {
	var out []*distribution
	at := func(measure, class string) *distribution {
		for _, d := range out {
			if d.measure == measure && d.class == class {
				return d
			}
		}
		out = append(out, &distribution{measure: measure, lock: lock, class: class})
		return out[len(out)-1]
	}
	for _, k := range ix.keysOf(lock) {
		class := ""
		if len(k.jobs) > 0 {
			class = k.jobs[0].class
		}
		held := at(measureHeld, class)
		for _, e := range k.epochs {
			held.hold(ix, e)
		}
		if k.loop {
			continue
		}
		wait := at(measureWait, class)
		for _, w := range ix.waitersOf(k) {
			wait.values = append(wait.values, ix.waits(w)...)
		}
	}
	slices.SortStableFunc(out, func(a, b *distribution) int { return cmp.Compare(a.measure, b.measure) })
	return slices.DeleteFunc(out, func(d *distribution) bool { return len(d.values) == 0 && d.cut == 0 })
}

// hold adds the time for which e's holder relied on the lock.
func (d *distribution) hold(ix *Facts, e *epoch) {
	if e.belief == nil {
		return
	}
	death, dead := ix.deaths[e.replica]
	if dead && e.belief.end == death.Span || e.belief.end.To == open || ix.takenDown(e.belief.end.From) {
		d.cut++
		return
	}
	d.values = append(d.values, value{dur: between(e.belief.start, e.belief.end)})
	d.ns = append(d.ns, e.n)
}

// joined is the distribution of one measure over one class, or over all where class is "".
func joined(ds []*distribution, measure, class string) *distribution {
	all := &distribution{measure: measure, class: class}
	for _, d := range ds {
		if d.measure == measure && (class == "" || d.class == class) {
			all.values = append(all.values, d.values...)
			all.ns = append(all.ns, d.ns...)
			all.cut += d.cut
		}
	}
	return all
}

// evidence cites the longest holds.
func (d *distribution) evidence() []int64 {
	if len(d.ns) != len(d.values) {
		return nil
	}
	order := make([]int, len(d.ns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.values[b].hi, d.values[a].hi) })
	var ns []int64
	for _, i := range order[:min(len(order), maxEvidence)] {
		ns = append(ns, d.ns[i])
	}
	return cite(ns...)
}

// quantile is the range of the p-quantile of values: nearest rank. p 0 is the largest.
func quantile(values []value, p float64) value {
	if len(values) == 0 {
		return value{dur: dur{hi: open}}
	}
	i := len(values) - 1
	if p > 0 {
		i = min(max(int(math.Ceil(p*float64(len(values))-1e-9))-1, 0), i)
	}
	nth := func(of func(value) int64) int64 {
		all := make([]int64, 0, len(values))
		for _, v := range values {
			all = append(all, of(v))
		}
		slices.Sort(all)
		return all[i]
	}
	lo, hi := nth(func(v value) int64 { return v.lo }), nth(func(v value) int64 { return v.hi })
	return value{dur{lo, hi}, lo - nth(func(v value) int64 { return v.lo - v.late })}
}

// over counts the values that are surely above limit (lo), on a machine in time as well, and those that may be (hi).
func over(values []value, limit int64) tally {
	var t tally
	for _, v := range values {
		if v.inTime().lo > limit {
			t.lo++
		}
		if v.hi > limit {
			t.hi++
		}
	}
	return t
}

// distributionRows judges how long jobs held the lock, or waited for it. max goes by its range. A quantile is a claim about the
// share of holds, so it takes a number of them, like that of kills; each hold, or wait, is one.
func (j *judging) distributionRows(lock, measure string, limits *experiments.ClassLimits) []verdict.SLOResult {
	d, thing := joined(j.spread[lock], measure, limits.Class), thingOf(measure)
	var rows []verdict.SLOResult
	for _, l := range forecast.LimitsOf(&limits.DurationLimits) {
		m := j.spreadOf(lock, l.Name, d)
		m.value, m.least, m.belated = quantile(d.values, l.P), nil, belatedAny(d.values, int64(l.Value))
		m.next = "Shorten the work under the lock, or raise the limit."
		if measure == measureWait {
			m.next = "Shorten the holds, or free keys sooner that nobody needs: see debts."
		}
		missed := over(d.values, int64(l.Value))
		if m.n > 0 {
			m.saw = fmt.Sprintf("%s of %s took more than %s; the longest took %s", figures.Count(missed.hi), figures.Plural(m.n, thing), figures.Exact(int64(l.Value)), figures.Ceil(quantile(d.values, 0).hi))
		}
		if d.cut > 0 {
			m.saw += fmt.Sprintf("; %s not counted, because the holder died", figures.Plural(d.cut, thing))
		}
		if l.P == 0 || m.n == 0 {
			rows = append(rows, j.row(lock, atMost(int64(l.Value)), m))
			continue
		}
		rows = append(rows, j.quantileRow(lock, l, m, shareVerdict(l.P, missed, m.n), func() verdict.Missing {
			return verdict.Lacking(verdict.MissingMoreValues, figures.Count(missed.hi), figures.Plural(m.n, thing), l.Name, stats.TrialsNeeded(l.P, missed.hi))
		}))
	}
	rest := limits.Bound
	rest.Max = nil
	return append(rows, bounded(j, lock, &rest, func(lock string) measured {
		return j.spreadOf(lock, "max", joined(j.spread[lock], measure, limits.Class))
	})...)
}

func thingOf(measure string) string {
	return map[string]string{measureHeld: "hold", measureWait: "wait"}[measure]
}

// spreadOf is the longest and the shortest of the holds or the waits of the lock, under a name.
func (j *judging) spreadOf(lock, name string, d *distribution) measured {
	thing, measure, whose := thingOf(d.measure), d.measure, "lock "+lock
	if d.class != "" {
		measure, whose = measure+"["+d.class+"]", "class "+d.class+" of "+whose
	}
	m := measured{measure: measure + "." + name, unit: verdict.UnitSeconds, n: len(d.values), evidence: d.evidence(), value: quantile(d.values, 0), least: least(d.values),
		next: "Change the work under the lock, or the limit."}
	if m.n == 0 {
		m.saw = "0 " + thing + "s"
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingValues, thing, whose))
	} else {
		m.saw = fmt.Sprintf("%s, shortest %s, longest %s", figures.Plural(m.n, thing), m.least, m.value)
	}
	m.missing = append(m.missing, j.unseen(lock)...)
	return m
}

// least is the range of the smallest of values; not seen to end where there is none.
func least(values []value) *value {
	if len(values) == 0 {
		return &value{dur: dur{hi: open}}
	}
	lo, hi, sure := values[0].lo, values[0].hi, values[0].inTime().lo
	for _, v := range values {
		lo, hi, sure = min(lo, v.lo), min(hi, v.hi), min(sure, v.inTime().lo)
	}
	return &value{dur{lo, hi}, lo - sure}
}

// quantileRow is the row of one bound on a quantile. That is a claim about the rate of values that miss the bound, so it takes a number of
// them: v is what they say, and few what is missing where they are too few.
func (j *judging) quantileRow(lock string, l forecast.Limit, m measured, v verdict.Verdict, few func() verdict.Missing) verdict.SLOResult {
	missing := append(j.missingOf(lock), m.missing...)
	if v == verdict.Inconclusive && m.belated != nil {
		missing = append(missing, m.belated...)
	} else if v == verdict.Inconclusive {
		missing = append(missing, few())
	}
	return j.finish(lock, atMost(int64(l.Value)), m, v, missing)
}

// shareVerdict says whether at least the share p of n values surely keep their limit, at 95 % confidence.
func shareVerdict(p float64, missed tally, n int) verdict.Verdict {
	switch {
	case n > 0 && stats.UpperBound(missed.hi, n) <= 1-p:
		return verdict.Pass
	case n > 0 && stats.LowerBound(missed.lo, n) > 1-p:
		return verdict.Fail
	}
	return verdict.Inconclusive
}
