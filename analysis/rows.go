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
	measure  string
	unit     string // s, count, ratio or value
	lo, hi   int64  // ns, a count or billionths; hi may be open
	n        int    // what the measure counts
	of       string // what that is, in the singular
	faults   int    // independent faults that could have brought a breach about: the n of "0 of n"; 0 = no such bound
	saw      string // what was seen, for people
	why      string // the cause, where a cause is known
	next     string // what to do about it
	unsure   string // what to do where the limit lies within what was measured; "" = measure closer
	unended  string // what to do where its end was not seen; "" = run on
	evidence []int64
	missing  []verdict.Missing // why a Pass would not be one
	violated bool              // a violation that the limit does not count: fails whatever the limit
	unfit    string            // set: the question cannot be answered in this run, whatever was measured
}

// judge gives the rows of one SLO.
func (j *judging) judge(s *experiments.SLO) []verdict.SLOResult {
	switch {
	case s.Takeover != nil:
		return j.takeoverRows(s.Lock, s.Takeover)
	case s.TickGap != nil:
		return j.tickRows(s.Lock, s.TickGap)
	case s.DuplicateTerminalStates != nil:
		return j.count(s.Lock, s.DuplicateTerminalStates.Max, j.duplicates(s.Lock, s.DuplicateTerminalStates.MinJobs))
	case s.Abandonments != nil:
		return j.count(s.Lock, s.Abandonments.Max, j.rawAbandonments(s.Lock))
	case s.Abandonment != nil:
		return j.abandonmentRows(s.Lock, s.Abandonment)
	case s.Overlap != nil:
		return j.overlapRows(s.Lock, s.Overlap)
	case s.FenceLag != nil:
		return j.durations(s.Lock, s.FenceLag, j.fenceLag(s.Lock))
	case s.UnownedWork != nil:
		return j.durations(s.Lock, s.UnownedWork, j.unownedWork(s.Lock))
	case s.Busy != nil:
		return j.busyRows(s.Lock, s.Busy)
	case s.Stranded != nil:
		return j.count(s.Lock, s.Stranded.Max, j.stranded(s.Lock, s.Stranded.MinJobs))
	case s.FenceRegressions != nil:
		return j.count(s.Lock, s.FenceRegressions.Max, j.fenceRegressions(s.Lock))
	case s.ReExecuted != nil:
		return j.count(s.Lock, s.ReExecuted.Max, j.reExecutions(s.Lock, s.ReExecuted.MinJobs))
	}
	return j.judgeUpkeep(s)
}

// judgeUpkeep gives the rows of what a lock costs those who want it.
func (j *judging) judgeUpkeep(s *experiments.SLO) []verdict.SLOResult {
	switch {
	case s.LockDebt != nil:
		return j.debtRows(s.Lock, s.LockDebt)
	case s.NotOwned != nil:
		return j.notOwnedRows(s.Lock, s.NotOwned)
	case s.OrphanAcquires != nil:
		return j.count(s.Lock, s.OrphanAcquires.Max, j.orphanAcquires(s.Lock, s.OrphanAcquires.MinJobs))
	case s.Held != nil:
		return j.distributionRows(s.Lock, measureHeld, s.Held)
	case s.Wait != nil:
		return j.distributionRows(s.Lock, measureWait, s.Wait)
	case s.Metric != nil:
		return j.metricRows(s.Lock, s.Metric)
	case s.Logs != nil:
		return j.count(s.Lock, s.Logs.Max, j.logMatches(s.Lock, s.Logs.Pattern))
	}
	return nil
}

func (j *judging) count(lock string, limit int, m measured) []verdict.SLOResult {
	return []verdict.SLOResult{j.row(lock, int64(limit), m)}
}

func (j *judging) durations(lock string, d *experiments.DurationLimits, m measured) []verdict.SLOResult {
	var rows []verdict.SLOResult
	for _, l := range forecast.LimitsOf(d) {
		rows = append(rows, j.row(lock, int64(l.Value), m))
	}
	return rows
}

// row holds m against limit: three values, and what was not reached takes a Pass away.
func (j *judging) row(lock string, limit int64, m measured) verdict.SLOResult {
	v := verdict.Inconclusive
	switch {
	case m.violated:
		v = verdict.Fail
	case m.unfit != "":
	case m.lo > limit:
		v = verdict.Fail
	case m.hi <= limit && m.hi != open:
		v = verdict.Pass
	}
	missing := append(j.missingOf(lock), m.missing...)
	return j.finish(lock, limit, m, v, missing)
}

// finish words the row. A Pass without the evidence for it is none.
func (j *judging) finish(lock string, limit int64, m measured, v verdict.Verdict, missing []verdict.Missing) verdict.SLOResult {
	r := verdict.SLOResult{
		Lock: lock, Measure: m.measure, Unit: m.unit, Limit: m.number(limit), Declared: j.declared(m, limit), Lo: m.number(m.lo), N: m.n, Of: m.of,
		Verdict: v, Why: m.saw, Missing: []verdict.Missing{}, Evidence: cite(m.evidence...), Unfit: m.unfit != "",
	}
	if m.hi != open {
		hi := m.number(m.hi)
		r.Hi = &hi
	}
	if m.faults > 0 && m.hi <= limit && (m.unit == "s" || m.hi == 0) {
		b := forecast.UpperBound(0, m.faults)
		r.Bound, r.BoundN = &b, m.faults
	}
	switch {
	case v == verdict.Fail:
		r.Why, r.Next = join(m.saw, m.why), m.next
	case m.unfit != "":
		r.Why, r.Next = m.unfit, m.next
	case len(missing) > 0:
		r.Verdict = verdict.Inconclusive
		r.Why, r.Next = reached(missing)
		r.Missing = append(r.Missing, missing...)
	case v == verdict.Inconclusive && m.hi == open:
		r.Why = join(m.saw, "how much more it was has not been seen")
		r.Next = cmp.Or(m.unended, "let the run go on to its final reads, and keep the probes within max_gap")
	case v == verdict.Inconclusive:
		r.Why = join(m.saw, fmt.Sprintf("the limit %s lies within what was measured, %s", m.text(limit), m.bracket()))
		r.Next = cmp.Or(m.unsure, "measure closer (a shorter probe period, a larger time_scale), or choose a limit outside that range")
	}
	return r
}

// number is a quantity in the row's unit.
func (m measured) number(x int64) float64 {
	if m.unit == "count" {
		return float64(x)
	}
	return float64(x) / 1e9
}

func (m measured) text(x int64) string {
	if m.unit == "s" {
		return figures.Exact(x)
	}
	return fmt.Sprint(m.number(x))
}

// bracket is what was measured.
func (m measured) bracket() string {
	if m.unit == "s" {
		return dur{m.lo, m.hi}.String()
	}
	return fmt.Sprintf("%d to %d", m.lo, m.hi)
}

// declared is the limit as the file has it.
func (j *judging) declared(m measured, limit int64) float64 {
	if m.unit == "s" {
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

// takeoverRows judges takeover: max by its range, quantiles by the count of independent kills.
func (j *judging) takeoverRows(lock string, d *experiments.DurationLimits) []verdict.SLOResult {
	s := j.ix.seriesOf(lock, takeoverValue)
	return j.seriesRows(s, d, "takeover", j.takeoverMissing(s))
}

func (j *judging) tickRows(lock string, d *experiments.DurationLimits) []verdict.SLOResult {
	s := j.ix.seriesOf(lock, tickValue)
	return j.seriesRows(s, d, "tick_gap", j.takeoverMissing(s))
}

func (j *judging) seriesRows(s series, d *experiments.DurationLimits, name string, missing []verdict.Missing) []verdict.SLOResult {
	var rows []verdict.SLOResult
	for _, l := range forecast.LimitsOf(d) {
		m := measured{measure: name + "." + l.Name, unit: "s", n: len(s.kills), of: s.thing, evidence: s.evidence(), missing: missing, hi: open}
		over := s.over(l.Value)
		if len(s.kills) > 0 {
			w := s.worst()
			if l.P > 0 {
				w = s.quantile(l.P)
			}
			m.lo, m.hi = w.lo, w.hi
		}
		if slices.ContainsFunc(s.kills, func(k kill) bool { return k.value.hi == open && k.worst.cut }) {
			m.unended = "another fault struck the key before it had a successor: leave more time between faults that strike this lock"
		}
		if over.hi == 0 {
			m.faults = len(s.kills)
		}
		m.saw = s.saw(l)
		j.explain(&m, s, l, name)
		rows = append(rows, j.seriesRow(s, l, m, over))
	}
	return rows
}

// seriesRow gives the verdict of one bound. A quantile is a claim about the rate of kills that miss it, so it takes a number of
// kills; max is judged by its range.
func (j *judging) seriesRow(s series, l forecast.Limit, m measured, over tally) verdict.SLOResult {
	n := len(s.kills)
	if len(s.falses) > 0 {
		t := s.falses[0]
		m.why = fmt.Sprintf("%d false takeover: key %s was granted to another while the store still owed the victim %s", len(s.falses), t.e.key, figures.Short(t.e.life.due.From-t.next.granted.To))
		m.next = "find who deleted or overwrote the key: releases must compare the token"
		if j.ix.outlivesLease(s.lock) {
			m.next = "find who wrote the Lease: only its holder may, and a contender after its end (docs/kubernetes.md)"
		}
		m.evidence = cite(append(t.evidence, m.evidence...)...)
		return j.finish(s.lock, int64(l.Value), m, verdict.Fail, nil)
	}
	if l.P == 0 {
		return j.row(s.lock, int64(l.Value), m)
	}
	v := shareVerdict(l.P, over, n)
	missing := append(j.missingOf(s.lock), m.missing...)
	if v == verdict.Inconclusive {
		missing = append(missing, s.tooFew(l, over))
	}
	return j.finish(s.lock, int64(l.Value), m, v, missing)
}

// tooFew says how many kills it takes to claim the quantile, when so many of them missed it.
func (s series) tooFew(l forecast.Limit, over tally) verdict.Missing {
	n := len(s.kills)
	need := forecast.TrialsNeeded(l.P, over.hi)
	next := fmt.Sprintf("repeat: {count: %d}, or promise a max", need)
	switch {
	case over.hi == 0:
		return verdict.Lacking(verdict.MissingCleanTrials, figures.Plural(n, s.thing), l.Name, need, next)
	case over.lo == n:
		next = "raise the limit or shorten the lease: every " + s.thing + " missed it"
	case over.hi == n:
		next = "raise the limit or shorten the lease: every " + s.thing + " may have missed it"
	}
	missed := over.of(n, s.thing, "surely missed it", "may have missed it")
	return verdict.Lacking(verdict.MissingMoreTrials, missed, l.Name, need, forecast.TrialsNeeded(l.P, 0), next)
}

// explain adds the sum of L3: it makes a limit impossible, or lucky, or shows that something else took the time.
func (j *judging) explain(m *measured, s series, l forecast.Limit, name string) {
	declared := j.ix.exp.Lock(s.lock)
	if declared == nil {
		return
	}
	b := j.told(declared, l, name, s.class, j.warmup)
	m.why, m.next = b.Sum, b.Advice
	switch {
	case l.Value < b.Lo:
		m.why = "no " + s.thing + " can meet " + figures.Exact(int64(l.Value)) + ": " + b.Sum
	case l.Value >= b.Hi:
		m.why = "the sum allows it (" + b.Sum + "), so something else took the time"
		m.next = "look at residual, pickup and warm-up of the slowest trial"
	}
	if k := s.slowest(); s.class == verdict.ClassHandOver && k != nil && k.class == verdict.ClassCrash {
		m.why = "the victim was asked to stop, and died with its lock"
		m.next = "give the lock back on SIGTERM, within the pod's grace"
	}
	if l.P == 0 && l.Value < b.Hi && len(s.kills) > 0 && s.over(l.Value).hi == 0 {
		m.missing = append(m.missing[:len(m.missing):len(m.missing)], verdict.Lacking(verdict.MissingMarginToLuck, s.worst(), b.Sum, b.Advice))
	}
}

// saw says what the kills of a series took.
func (s series) saw(l forecast.Limit) string {
	n := len(s.kills)
	if n == 0 {
		return "no " + s.class + " was measured"
	}
	over := s.over(l.Value)
	w := s.worst()
	worst := "worst " + w.String()
	if w.hi == open {
		worst += ", never seen to end"
	}
	limit := figures.Exact(int64(l.Value))
	text := over.of(n, s.thing, "over "+limit, "maybe over "+limit) + ", " + worst
	if over.hi == 0 {
		text = fmt.Sprintf("%s, %s", figures.Plural(n, s.thing), worst)
	}
	if v := s.values(); v > n {
		text += " (" + figures.Plural(v, "value") + ")"
	}
	return text
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
