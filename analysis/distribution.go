package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

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

func thingOf(measure string) string {
	return map[string]string{measureHeld: "hold", measureWait: "wait"}[measure]
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

// spread is how long the jobs of a class held the lock, or waited for it: each hold, or wait, is a trial.
func spread(j *judging, l *experiments.Limit) figure {
	d := joined(j.spread[l.Lock], l.Measure, l.Class)
	f := figure{value: quantile(d.values, 0), each: d.values, least: least(d.values), n: len(d.values), evidence: d.evidence()}
	if f.n == 0 {
		whose := "lock " + l.Lock
		if l.Class != "" {
			whose = "class " + l.Class + " of " + whose
		}
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingValues, thingOf(l.Measure), whose)}
	}
	return f
}

// facingSpread says how many of them kept the limit.
func facingSpread(j *judging, l *experiments.Limit, f *figure) {
	if l.Side != experiments.SideMost || l.Share > 0 {
		f.next = "Change the work under the lock, or the limit."
		return
	}
	if f.n > 0 {
		f.saw = fmt.Sprintf("%s of %s took more than %s; the longest took %s", figures.Count(over(f.each, l.At).hi), figures.Plural(f.n, f.of), figures.Exact(l.At), figures.Ceil(f.hi))
	}
	if cut := joined(j.spread[l.Lock], l.Measure, l.Class).cut; cut > 0 {
		f.saw = strings.TrimPrefix(fmt.Sprintf("%s; %s not counted, because the holder died", f.saw, figures.Plural(cut, f.of)), "; ")
	}
}
