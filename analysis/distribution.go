package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// joined is the distribution of one measure over one class, or over all where class is "".
func joined(ds []*facts.Distribution, measure, class string) *facts.Distribution {
	all := &facts.Distribution{Measure: measure, Class: class}
	for _, d := range ds {
		if d.Measure == measure && (class == "" || d.Class == class) {
			all.Values = append(all.Values, d.Values...)
			all.Ns = append(all.Ns, d.Ns...)
			all.Unended = append(all.Unended, d.Unended...)
			all.Cut += d.Cut
		}
	}
	return all
}

// quantile is the range of the p-quantile of values: nearest rank. p 0 is the largest.
func quantile(values []facts.Value, p float64) facts.Value {
	if len(values) == 0 {
		return facts.Value{Dur: facts.Dur{Hi: facts.Open}}
	}
	i := len(values) - 1
	if p > 0 {
		i = min(max(int(math.Ceil(p*float64(len(values))-1e-9))-1, 0), i)
	}
	nth := func(of func(facts.Value) int64) int64 {
		all := make([]int64, 0, len(values))
		for _, v := range values {
			all = append(all, of(v))
		}
		slices.Sort(all)
		return all[i]
	}
	lo, hi := nth(func(v facts.Value) int64 { return v.Lo }), nth(func(v facts.Value) int64 { return v.Hi })
	return facts.Value{Dur: facts.Dur{Lo: lo, Hi: hi}, Late: lo - nth(func(v facts.Value) int64 { return v.Lo - v.Late })}
}

// over counts the values that are surely above limit (lo), on a machine in time as well, and those that may be (hi).
func over(values []facts.Value, limit int64) facts.Tally {
	var t facts.Tally
	for _, v := range values {
		if v.InTime().Lo > limit {
			t.Lo++
		}
		if v.Hi > limit {
			t.Hi++
		}
	}
	return t
}

// least is the range of the smallest of values; not seen to end where there is none.
func least(values []facts.Value) *facts.Value {
	if len(values) == 0 {
		return &facts.Value{Dur: facts.Dur{Hi: facts.Open}}
	}
	lo, hi, sure := values[0].Lo, values[0].Hi, values[0].InTime().Lo
	for _, v := range values {
		lo, hi, sure = min(lo, v.Lo), min(hi, v.Hi), min(sure, v.InTime().Lo)
	}
	return &facts.Value{Dur: facts.Dur{Lo: lo, Hi: hi}, Late: lo - sure}
}

// spread is how long the jobs of a class held the lock, or waited for it: each hold, or wait, is a trial.
func spread(j *judging, l *experiments.Limit) figure {
	d := joined(j.at[l.Lock].spread, l.Measure, l.Class)
	all := d.Longest()
	f := figure{Value: quantile(all, 0), each: all, least: least(d.Values), n: len(d.Values), evidence: d.Evidence()}
	if f.n == 0 {
		whose := "lock " + l.Lock
		if l.Class != "" {
			whose = "class " + l.Class + " of " + whose
		}
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingValues, j.measureOf(l).of, whose)}
	}
	return f
}

// facingSpread says how many of them kept the limit.
func facingSpread(j *judging, l *experiments.Limit, f *figure) {
	if l.Side != experiments.SideMost || l.Share > 0 {
		f.next = "Change the work under the lock, or the limit."
		return
	}
	d := joined(j.at[l.Lock].spread, l.Measure, l.Class)
	if f.n > 0 {
		longest := "the longest took " + figures.Ceil(f.Hi)
		if f.Hi == facts.Open {
			longest = fmt.Sprintf("another, of which an end was not seen, took at least %s", figures.Floor(f.Lo))
		}
		f.saw = fmt.Sprintf("%s of %s took more than %s; %s", figures.Count(over(d.Values, l.At).Hi), figures.Plural(f.n, f.of), figures.Exact(l.At), longest)
	}
	if d.Cut > 0 {
		f.saw = strings.TrimPrefix(fmt.Sprintf("%s; %s not counted, because the holder died or an end was not seen", f.saw, figures.Plural(d.Cut, f.of)), "; ")
	}
}
