// Package compare holds runs beside other runs: are those of a head worse than those of a base. It judges each run with package
// analysis and adds statistics of its own; what a single run promised is not its business.
// Its one invariant: what could have come about where nothing has changed is never called a change, but for a chance of alpha.
package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// CompareOptions is how two sides are compared.
type CompareOptions struct {
	Alpha     float64  // chance, at most, that any row is called worse or better where nothing has changed
	Tolerance float64  // share of the base's median that a change must exceed
	SLOs      []string // rows: MEASURE, LOCK or LOCK/MEASURE; none = all
	Allow     []string // settings in which the sides may differ, each with all below it; "all" is everything but a rehearsal beside a live run
}

// Compare holds the runs of a head beside those of a base. Neither is empty. An SLO that no run has is an error.
//
// Correctness needs no statistics: what surely happened in the head and not once in the base is a regression. A row is worse or
// better only where the difference is significant, for the least favourable values within their ranges, and beyond the tolerance.
func Compare(base, head []*Observed, o CompareOptions) (*Comparison, error) {
	base, head = byStart(base), byStart(head)
	contest(slices.Concat(base, head))
	asked, err := askedRows(base, head, o.SLOs)
	if err != nil {
		return nil, err
	}
	return comparisonOf(base, head, asked, o), nil
}

// comparisonOf compares rows of two sides, whose runs are by their start.
func comparisonOf(base, head []*Observed, asked []pairing, o CompareOptions) *Comparison {
	c := &Comparison{
		SchemaVersion: ComparisonVersion, Experiment: base[0].Experiment, Rehearsal: base[0].Rehearsal,
		Alpha: o.Alpha, Tolerance: o.Tolerance, Confidence: 1 - o.Alpha,
		Base: runsOf(base), Head: runsOf(head), Differences: append([]Difference{}, differencesAmong(base, head, o.Allow)...),
		Reasons: []string{}, Notes: []Note{}, Correctness: []ComparedFailure{}, Rows: []ComparedRow{},
	}
	if slices.ContainsFunc(c.Differences, func(d Difference) bool { return !d.Allowed }) {
		c.refuse()
		return c
	}
	c.correctness(base, head)
	for _, s := range asked {
		c.Rows = append(c.Rows, s.row(o.Alpha))
	}
	c.test(asked)
	for i := range c.Rows {
		c.Rows[i].judge(&asked[i], c)
	}
	c.note()
	c.decide()
	return c
}

func byStart(runs []*Observed) []*Observed {
	return slices.SortedStableFunc(slices.Values(runs), func(a, b *Observed) int {
		return cmp.Or(cmp.Compare(a.Run.Started, b.Run.Started), cmp.Compare(a.Run.Seed, b.Run.Seed))
	})
}

func runsOf(side []*Observed) []ComparedRun {
	var rs []ComparedRun
	for _, o := range side {
		rs = append(rs, o.Run)
	}
	return rs
}

// pairing is one row of both sides: the values that count, and those of each run.
type pairing struct {
	verdict.Sample // of the first run that has it
	Lock, Measure  string
	base, head     sample
}

// sample is what the runs of one side measured of a row.
type sample struct {
	stats.Sample
	has    bool // some run of it has the row
	values []verdict.Range
	parts  [3][]verdict.Range // of takeovers
	runs   []ComparedValue
}

func (s *sample) add(run ComparedRun, of *verdict.Sample) {
	s.has = true
	s.values = append(s.values, of.Values...)
	if n := len(of.Values); n > 0 {
		s.runs = append(s.runs, ComparedValue{Run: run.ID, Started: run.Started, N: n, Median: *intervalOf(sampleOf(of.Values).Median(), true)})
	}
	for i, part := range of.Parts {
		s.parts[i] = append(s.parts[i], part...)
	}
}

func sampleOf(values []verdict.Range) stats.Sample {
	rs := make([]stats.Range, len(values))
	for i, v := range values {
		rs[i] = stats.Range{Lo: v.Lo, Hi: math.Inf(1)}
		if v.Hi != nil {
			rs[i].Hi = *v.Hi
		}
	}
	return stats.SampleOf(rs)
}

// intervalOf is a range as a document has it; nil where there is none.
func intervalOf(r stats.Range, known bool) *Interval {
	if !known {
		return nil
	}
	var i Interval
	if !math.IsInf(r.Lo, 0) {
		i.Lo = &r.Lo
	}
	if !math.IsInf(r.Hi, 0) {
		i.Hi = &r.Hi
	}
	return &i
}

// pairingsOf pairs the rows of both sides, in the order of their first appearance.
func pairingsOf(base, head []*Observed) (all []pairing) {
	for side, runs := range [][]*Observed{base, head} {
		for _, o := range runs {
			for i := range o.Rows {
				s := &o.Rows[i].Sample
				if o.Rehearsal && s.Question.LiveOnly() {
					continue
				}
				at := slices.IndexFunc(all, func(p pairing) bool { return p.Lock == s.Question.Lock && p.Measure == s.Name() })
				if at < 0 {
					at = len(all)
					all = append(all, pairing{Sample: *s, Lock: s.Question.Lock, Measure: s.Name()})
				}
				[]*sample{&all[at].base, &all[at].head}[side].add(o.Run, s)
			}
		}
	}
	for i := range all {
		p := &all[i]
		p.base.Sample, p.head.Sample = sampleOf(p.base.values), sampleOf(p.head.values)
	}
	return all
}

// askedRows are the rows of both sides, as far as a user asks for them.
func askedRows(base, head []*Observed, slos []string) ([]pairing, error) {
	all := pairingsOf(base, head)
	known := []string{}
	for _, p := range all {
		known = append(known, p.Lock+"/"+p.Measure)
	}
	for _, slo := range slos {
		if !slices.ContainsFunc(all, func(p pairing) bool { return p.is(slo) }) {
			return nil, fmt.Errorf("no run has an SLO %q; there are %s", slo, strings.Join(known, ", "))
		}
	}
	if len(slos) > 0 {
		all = slices.DeleteFunc(all, func(p pairing) bool { return !slices.ContainsFunc(slos, p.is) })
	}
	return all, nil
}

// is reports whether the row is meant by MEASURE, LOCK or LOCK/MEASURE; a measure stands for all of its parts.
func (p pairing) is(slo string) bool {
	part := func(measure string) bool {
		rest, ok := strings.CutPrefix(p.Measure, measure)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	if lock, measure, ok := strings.Cut(slo, "/"); ok {
		return p.Lock == lock && part(measure)
	}
	return p.Lock == slo || part(slo)
}

// row is what both sides show.
func (p *pairing) row(alpha float64) ComparedRow {
	r := ComparedRow{
		Lock: p.Lock, Measure: p.Measure, Unit: p.Unit, Of: p.Of,
		Base: p.base.side(1 - alpha), Head: p.head.side(1 - alpha),
	}
	if a, b := p.base.Sample, p.head.Sample; a.N() > 0 && b.N() > 0 {
		t := stats.RankTest(a, b)
		r.P, r.Superiority = &t.P, intervalOf(t.Superiority, true)
		r.Shift = intervalOf(stats.Shift(a, b), true)
		r.ShiftWithin = intervalOf(stats.ShiftWithin(a, b, 1-alpha))
		r.Relative, r.RelativeWithin = relativeTo(r.Shift, r.Base.Median), relativeTo(r.ShiftWithin, r.Base.Median)
	}
	r.Parts = comparedParts(&p.base, &p.head)
	return r
}

func (s *sample) side(confidence float64) ComparedSide {
	out := ComparedSide{N: s.N(), Within: intervalOf(s.MedianWithin(confidence)), Runs: append([]ComparedValue{}, s.runs...)}
	if s.N() > 0 {
		out.Median = intervalOf(s.Median(), true)
	}
	for _, v := range s.values {
		if v.Hi == nil {
			out.Open++
		}
	}
	return out
}

// relativeTo is the shift as a share of the base's median; nil where that is 0, open, or of unknown sign.
func relativeTo(shift, median *Interval) *Interval {
	if shift == nil || median.Lo == nil || median.Hi == nil || *median.Lo <= 0 && *median.Hi >= 0 {
		return nil
	}
	small, large := math.Abs(*median.Lo), math.Abs(*median.Hi)
	if small > large {
		small, large = large, small
	}
	share := func(v *float64, towards float64) *float64 { // dividing by the smaller base takes it further from 0
		if v == nil {
			return nil
		}
		by := large
		if *v*towards > 0 {
			by = small
		}
		x := *v / by
		return &x
	}
	return &Interval{Lo: share(shift.Lo, -1), Hi: share(shift.Hi, 1)}
}

// correctness compares what is wrong however often it happens, in all runs of a side, those included whose figures do not count.
func (c *Comparison) correctness(base, head []*Observed) {
	for i, kind := range base[0].Failures {
		f := ComparedFailure{What: kind.What}
		for _, o := range base {
			f.Base += o.Failures[i].N
		}
		for _, o := range head {
			if n := o.Failures[i].N; n > 0 {
				f.Head += n
				f.Run = cmp.Or(f.Run, o.Run.ID)
			}
		}
		f.Regressed = f.Head > 0 && f.Base == 0
		c.Correctness = append(c.Correctness, f)
	}
}

// test divides alpha among the rows that could show a difference at all: those whose smallest possible P is within the share that
// they would get, however the values were dealt to the sides (Tarone). Their P are adjusted by Holm.
func (c *Comparison) test(asked []pairing) {
	var tested []*ComparedRow
	for c.Tested = 1; ; c.Tested++ {
		tested = nil
		for i := range asked {
			if r := &c.Rows[i]; r.P != nil && stats.ExtremeP(asked[i].base.Sample, asked[i].head.Sample) <= c.Alpha/float64(c.Tested) {
				tested = append(tested, r)
			}
		}
		if len(tested) <= c.Tested {
			break
		}
	}
	c.Tested = len(tested)
	slices.SortStableFunc(tested, func(a, b *ComparedRow) int { return cmp.Compare(*a.P, *b.P) })
	least := 0.0
	for i, r := range tested {
		least = max(least, min(1, *r.P*float64(len(tested)-i)))
		adjusted := least
		r.Tested, r.Adjusted = true, &adjusted
	}
}
