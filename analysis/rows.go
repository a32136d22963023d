package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// measured is one quantity that is held against one limit.
type measured struct {
	measure   string
	unit      string // s, count, ratio or value
	lo, hi    int64  // ns, a count or billionths; hi may be open
	n         int    // what the measure counts
	of        string // what that is, in the singular
	faults    int    // independent faults that could have brought a breach about: the n of "0 of n"; 0 = no such bound
	saw       string // what was seen, for people
	why       string // the cause, where a cause is known
	next      string // what to do about it
	unsure    string // what to do where the limit lies within what was measured; "" = measure closer
	unended   string // what to do where its end was not seen; "" = run on
	least     *dur   // of several trials: the range of the least of them, which a lower bound is held against
	leastOff  int64  // late, of the least
	none      string // what to do where there was less than a lower bound asks for; "" = the usual
	evidence  []int64
	undecided []verdict.Missing // why the figure is no closer
	missing   []verdict.Missing // why a Pass would not be one
	violated  bool              // a violation that the limit does not count: fails whatever the limit
	late      int64             // of lo, what a late machine may have made: a machine in time would have given [lo - late, hi]
	shown     int64             // how late it was, where nothing is taken off
	belated   []verdict.Missing // a quantile: why a value that the machine may have made is none
	unfit     string            // set: the question cannot be answered in this run, whatever was measured
}

// judge gives the rows of one SLO.
func (j *judging) judge(s *experiments.SLO) []verdict.SLOResult { return j.measures[s.Measure()](j, s) }

// row holds m against b: three values, and what was not reached takes a Pass away.
func (j *judging) row(lock string, b bound, m measured) verdict.SLOResult {
	if j.tap != nil {
		j.tap(b, m)
		return verdict.SLOResult{}
	}
	v := b.word(m.inTime())
	if m.least != nil && b.against == nil {
		v = b.ofTrials(&m)
	}
	switch {
	case m.violated:
		v = verdict.Fail
	case m.unfit != "":
		v = verdict.Inconclusive
	}
	missing := append(j.missingOf(lock), m.missing...)
	if v == verdict.Inconclusive && m.unfit == "" {
		missing = append(missing, m.madeLate(b)...)
	}
	return j.finish(lock, b, m, v, missing)
}

// finish words the row. A Pass without the evidence for it is none, and so is a Fail for want of something that was not looked for.
func (j *judging) finish(lock string, b bound, m measured, v verdict.Verdict, missing []verdict.Missing) verdict.SLOResult {
	limit := b.sure()
	r := verdict.SLOResult{
		Lock: lock, Measure: m.measure, Unit: m.unit, Ask: b.ask, Limit: m.number(limit), Declared: j.declared(m, limit), Lo: m.number(m.lo), N: m.n, Of: m.of,
		Verdict: v, Why: m.saw, Missing: []verdict.Missing{}, Evidence: cite(m.evidence...), Unfit: m.unfit != "", Against: b.against,
		Lateness: seconds(max(m.late, m.shown)),
	}
	if m.hi != open {
		hi := m.number(m.hi)
		r.Hi = &hi
	}
	if m.faults > 0 && b.ask != verdict.AtLeast && b.against == nil && m.hi <= limit && (m.unit == verdict.UnitSeconds || m.hi == 0) {
		b := forecast.UpperBound(0, m.faults)
		r.Bound, r.BoundN = &b, m.faults
	}
	switch {
	case v == verdict.Fail && b.byAbsence(m) && unreached(missing):
		r.Verdict = verdict.Inconclusive
		r.Why, r.Next = reached(missing)
		r.Missing = append(r.Missing, missing...)
	case v == verdict.Fail && b.tooLittle(m):
		r.Why, r.Next = join(m.saw, b.asked(m)), cmp.Or(m.none, "see whether the faults did what they were to do to this lock, or ask for less")
	case v == verdict.Fail:
		r.Why, r.Next = join(m.saw, m.why), m.next
	case m.unfit != "":
		r.Why, r.Next = m.unfit, m.next
	case len(missing) > 0:
		r.Verdict = verdict.Inconclusive
		r.Why, r.Next = reached(missing)
		r.Missing = append(r.Missing, missing...)
	case v == verdict.Inconclusive && len(m.undecided) > 0:
		why, next := reached(m.undecided)
		r.Why, r.Next = join(m.saw, why), next
		r.Missing = append(r.Missing, m.undecided...)
	case v == verdict.Inconclusive && m.hi == open:
		r.Why = join(m.saw, "how much more it was has not been seen")
		r.Next = cmp.Or(m.unended, "let the run go on to its final reads, and keep the probes within max_gap")
	case v == verdict.Inconclusive && b.against != nil:
		r.Why = join(m.saw, fmt.Sprintf("%s may be more and may be less than %g of what lock %s had", m.bracket(), b.against.Share, b.against.Lock))
		r.Next = cmp.Or(m.unsure, "measure closer (a shorter probe period, a larger time_scale), or choose another share")
	case v == verdict.Inconclusive:
		r.Why = join(m.saw, fmt.Sprintf("the limit %s lies within what was measured, %s", m.text(limit), m.bracket()))
		r.Next = cmp.Or(m.unsure, "measure closer (a shorter probe period, a larger time_scale), or choose a limit outside that range")
	}
	return r
}

// number is a quantity in the row's unit.
func (m measured) number(x int64) float64 {
	if m.unit == verdict.UnitCount {
		return float64(x)
	}
	return float64(x) / 1e9
}

func (m measured) text(x int64) string {
	if m.unit == verdict.UnitSeconds {
		return figures.Exact(x)
	}
	return fmt.Sprint(m.number(x))
}

// bracket is what was measured.
func (m measured) bracket() string {
	if m.unit == verdict.UnitSeconds {
		return dur{m.lo, m.hi}.String()
	}
	return fmt.Sprintf("%d to %d", m.lo, m.hi)
}

// declared is the limit as the file has it.
func (j *judging) declared(m measured, limit int64) float64 {
	if m.unit == verdict.UnitSeconds {
		return seconds(forecast.Unscaled(limit, j.scale()))
	}
	return m.number(limit)
}

// reached joins what was not reached, and the first three distinct things to do about it.
func reached(missing []verdict.Missing) (why, next string) {
	var whys, nexts []string
	for _, l := range missing {
		whys = append(whys, l.Why)
		if l.Next != "" && len(nexts) < maxNexts && !slices.Contains(nexts, l.Next) {
			nexts = append(nexts, l.Next)
		}
	}
	return strings.Join(whys, "; "), strings.Join(nexts, "; ")
}

// maxNexts bounds the advice of one row.
const maxNexts = 3

// join puts what was seen before its cause.
func join(saw, why string) string {
	switch {
	case saw == "":
		return why
	case why == "":
		return saw
	}
	return saw + ": " + why
}

// of words a count of n things: those that surely did it, and those that only may have.
func (t tally) of(n int, thing, did, may string) string {
	switch {
	case t.lo == t.hi:
		return fmt.Sprintf("%s of %s %s", figures.Count(t.hi), figures.Plural(n, thing), did)
	case t.lo == 0:
		return fmt.Sprintf("%s of %s %s", figures.Count(t.hi), figures.Plural(n, thing), may)
	}
	return fmt.Sprintf("%s of %s %s and %s more %s", figures.Count(t.lo), figures.Plural(n, thing), did, figures.Count(t.hi-t.lo), may)
}

// needFault adds the clauses of measures that any fault on the lock reaches.
func (j *judging) needFault(lock string, m measured) measured {
	exposed, _ := j.exposures(lock)
	m.faults = exposed
	if exposed == 0 {
		m.missing = append(m.missing, j.notExposed(lock))
	}
	m.missing = append(m.missing, j.unseen(lock)...)
	return m
}
