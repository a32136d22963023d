package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// measured is one quantity that is held against one limit.
type measured struct {
	value     // ns, a count or billionths; hi may be open
	measure   string
	unit      string // s, count, ratio or value
	n         int    // what the measure counts
	of        string // what that is, in the singular
	faults    int    // independent faults that could have brought a breach about: the n of "0 of n"; 0 = no such bound
	saw       string // what was seen, for people
	why       string // the cause, where a cause is known
	next      string // what to do about it
	unsure    string // what to do where the limit lies within what was measured; "" = measure closer
	unended   string // what to do where its end was not seen; "" = run on
	least     *value // of several trials: the range of the least of them, which a lower bound is held against
	none      string // what to do where there was less than a lower bound asks for; "" = the usual
	evidence  []int64
	undecided []verdict.Missing // why the figure is no closer
	missing   []verdict.Missing // why a Pass would not be one
	violated  bool              // a violation that the limit does not count: fails whatever the limit
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
		Lock: lock, Measure: m.measure, Unit: m.unit, Ask: b.ask, Limit: m.number(limit), Declared: j.declared(m, limit), Lo: m.number(m.lo), Hi: unlessOpen(m.hi, m.number), N: m.n, Of: m.of,
		Verdict: v, Why: m.saw, Missing: []verdict.Missing{}, Evidence: cite(m.evidence...), Unfit: m.unfit != "", Against: b.against,
		Lateness: seconds(max(m.late, m.shown)),
	}
	if m.faults > 0 && b.ask != verdict.AtLeast && b.against == nil && m.hi <= limit && (m.unit == verdict.UnitSeconds || m.hi == 0) {
		b := stats.UpperBound(0, m.faults)
		r.Bound, r.BoundN = &b, m.faults
	}
	switch {
	case v == verdict.Fail && b.byAbsence(m) && unreached(missing):
		r.Verdict = verdict.Inconclusive
		r.Why, r.Next = verdict.Reasons(missing)
		r.Missing = append(r.Missing, missing...)
	case v == verdict.Fail && b.tooLittle(m):
		r.Why, r.Next = verdict.Sentences(m.saw, b.asked(m)), cmp.Or(m.none, "Check that the faults struck this lock as intended, or ask for less.")
	case v == verdict.Fail:
		r.Why, r.Next = verdict.Sentences(m.saw, m.why), m.next
	case m.unfit != "":
		r.Why, r.Next = m.unfit, m.next
	case len(missing) > 0:
		r.Verdict = verdict.Inconclusive
		r.Why, r.Next = verdict.Reasons(missing)
		r.Missing = append(r.Missing, missing...)
	case v == verdict.Inconclusive && len(m.undecided) > 0:
		why, next := verdict.Reasons(m.undecided)
		r.Why, r.Next = verdict.Sentences(m.saw, why), next
		r.Missing = append(r.Missing, m.undecided...)
	case v == verdict.Inconclusive && m.hi == open:
		r.Why = verdict.Sentences(m.saw, "The end was not seen, so the figure may be larger")
		r.Next = cmp.Or(m.unended, "Let the run go on to its final reads, and keep the probes within max_gap.")
	case v == verdict.Inconclusive && b.against != nil:
		r.Why = verdict.Sentences(m.saw, fmt.Sprintf("%s may be more or less than %g of what lock %s had", m.bracket(), b.against.Share, b.against.Lock))
		r.Next = cmp.Or(m.unsure, "Measure closer (a shorter probe period, a larger time_scale), or choose another share.")
	case v == verdict.Inconclusive:
		r.Why = verdict.Sentences(m.saw, fmt.Sprintf("The limit %s lies within the measured range %s", m.text(limit), m.bracket()))
		r.Next = cmp.Or(m.unsure, "Measure closer (a shorter probe period, a larger time_scale), or choose a limit outside that range.")
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
		return m.dur.String()
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
	j.struck(lock, &m)
	m.missing = append(m.missing, j.unseen(lock)...)
	return m
}

// struck counts the faults that struck the lock.
func (j *judging) struck(lock string, m *measured) {
	if m.faults, _ = j.exposures(lock); m.faults == 0 {
		m.missing = append(m.missing, j.notExposed(lock)...)
	}
}

// RowValues is what a run measured of one row: of takeover and tick_gap, whose measures stand without their quantiles, one value a kill,
// of everything else at most one, namely what verdict.json says of it.
type RowValues struct {
	Lock, Measure, Unit, Of string // as in verdict.json; Of is what one value is of: kill (or burst, pause ...), else run
	Values                  []verdict.Range
}

// Measure is Judge with the values that its rows stand on, each row once however many limits it is held against.
func (ix *Facts) Measure() (*verdict.Judgement, []RowValues) {
	j := ix.judging()
	told := j.judgement()
	return told, j.rowValues(told)
}

func (j *judging) rowValues(told *verdict.Judgement) []RowValues {
	out := []RowValues{}
	for i := range told.SLOs {
		row := &told.SLOs[i]
		s := RowValues{Lock: row.Lock, Measure: row.Measure, Unit: row.Unit, Of: "run"}
		name, _, _ := strings.Cut(row.Measure, ".")
		value := trialValues()[name]
		if value != nil {
			s.Measure = name
		}
		known := slices.ContainsFunc(out, func(x RowValues) bool { return x.Lock == s.Lock && x.Measure == s.Measure })
		if known { // another limit on the same
			continue
		}
		switch {
		case value != nil:
			series := j.ix.seriesOf(row.Lock, value)
			s.Of = series.thing
			for _, d := range series.values() {
				s.Values = append(s.Values, d.Range())
			}
		case row.N == 0 && row.Hi == nil: // nothing was measured
		case name != measureHeld && name != measureWait && len(row.Missing) > 0: // not reached; a quantile may only be too few to claim
		case row.Unfit: // a pause lets any two believe; a series that nobody has shown is not 0
		default:
			s.Values = []verdict.Range{{Lo: row.Lo, Hi: row.Hi}}
		}
		out = append(out, s)
	}
	return out
}

// RowQuantile is what a run says of one quantile of takeovers or tick gaps, for those who judge it over several runs.
type RowQuantile struct {
	Lock, Measure string // as in verdict.json: takeover.p95
	Name          string // p95
	Of            string // what is counted: kill, burst, pause ...
	P             float64
	Limit         float64 // seconds
	N             int     // kills, each by its worst key
	Surely, Maybe int     // that surely missed the limit, and that may have, those included
	Open          string  // why every one of them may have; "" = the evidence was whole
	Broken        bool    // the lock went to another while its holder was still owed it, which no number of kills makes right
}

// Quantiles takes the quantiles of takeovers and tick gaps from what was told of a run.
func (ix *Facts) Quantiles(told *verdict.Judgement) (out []RowQuantile) {
	for _, row := range told.SLOs {
		name, quantile, _ := strings.Cut(row.Measure, ".p")
		p, err := strconv.ParseFloat(quantile, 64)
		value := trialValues()[name]
		if value == nil || err != nil {
			continue
		}
		s := ix.seriesOf(row.Lock, value)
		missed := s.over(time.Duration(figures.Nanoseconds(row.Limit)))
		q := RowQuantile{Lock: row.Lock, Measure: row.Measure, Name: "p" + quantile, Of: s.thing, P: p / 100, Limit: row.Limit, N: len(s.kills), Surely: missed.lo, Maybe: missed.hi, Broken: len(s.falses) > 0}
		for _, m := range row.Missing {
			if !countsAllTheSame(m.Code) {
				q.Open = m.Why
				break
			}
		}
		out = append(out, q)
	}
	return out
}

// countsAllTheSame reports what keeps a row of one run from an answer, and not its kills from being counted.
func countsAllTheSame(c verdict.MissingCode) bool {
	switch c {
	case verdict.MissingCleanTrials, verdict.MissingMoreTrials, verdict.MissingMoreRepeats, verdict.MissingLateMachine, verdict.MissingTrials, verdict.MissingConfirmations,
		verdict.MissingTakeovers, verdict.MissingCompletion, verdict.MissingEnd, verdict.MissingHorizon, verdict.MissingLiveSystem:
		return true
	}
	return false
}
