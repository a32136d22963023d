package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// kill is one independent trial: a shot, valued at the worst of the keys that it exposed. 200 job locks that die with one
// replica share one pickup, so they are one trial with 200 values.
type kill struct {
	shot   *shot
	value  value
	worst  *trial
	trials []*trial
}

// series is the kills of one lock that an SLO about takeover is judged on.
type series struct {
	lock   string
	class  string // crash, hand-over, pause, theft or store
	thing  string // what a kill of it is called: kill, burst, pause, deletion, or fault
	kills  []kill
	falses []*trial // safety events: granted to another while the victim was still owed its lease
}

// seriesOf collects the trials of lock, all of the class that its SLOs are judged on.
func (ix *Facts) seriesOf(lock string, of trialValue) series {
	out := series{lock: lock, class: ix.classOf(lock)}
	out.thing = ix.thingOf(out)
	for _, s := range ix.shots {
		if ix.leavesOut(s) {
			continue
		}
		k := kill{shot: s}
		for _, t := range s.trials {
			if t.e.lock != lock || t.void.IsVoid() || !out.takes(t) {
				continue
			}
			if t.class == verdict.ClassFalse {
				out.falses = append(out.falses, t)
			}
			v, ok := of(ix, t)
			if !ok {
				continue
			}
			if k.worst == nil || v.hi > k.value.hi || v.hi == k.value.hi && v.lo > k.value.lo {
				k.worst = t
			}
			k.value = k.value.worst(v)
			k.trials = append(k.trials, t)
		}
		if k.worst != nil {
			out.kills = append(out.kills, k)
		}
	}
	return out
}

// takes reports whether the trial is one of the series: by the class of its shot, or because a victim that was to hand over died with
// its lock as in a crash.
func (s *series) takes(t *trial) bool {
	return t.shot.class() == s.class || s.class == verdict.ClassCrash && t.shot.class() == verdict.ClassHandOver && t.class == verdict.ClassCrash
}

// classOf is the class that SLOs of the lock are judged on: that of the faults that are aimed at its holder, else that of any.
func (ix *Facts) classOf(lock string) string {
	declared := forecast.Classes{At: lock}
	for i := range ix.exp.Faults {
		f := &ix.exp.Faults[i]
		declared.Note(f.Traits().Class, f.Lock())
	}
	for _, s := range ix.shots { // what the file does not declare is known from the history
		declared.Note(s.class(), s.lock)
	}
	class, _ := declared.First()
	return class
}

// thingOf names what the series counts: what all its faults are, else a fault.
func (ix *Facts) thingOf(s series) string {
	var things []string
	note := func(noun string) {
		if !slices.Contains(things, noun) {
			things = append(things, noun)
		}
	}
	for i := range ix.exp.Faults {
		if f := &ix.exp.Faults[i]; f.Traits().Class == s.class && f.Lock() == s.lock {
			note(f.Traits().Noun)
		}
	}
	for _, x := range ix.shots {
		if x.class() == s.class && (x.lock == s.lock || x.locks[s.lock]) {
			note(x.does.Noun)
		}
	}
	switch {
	case len(things) == 1:
		return things[0]
	case s.class == verdict.ClassCrash, s.class == verdict.ClassHandOver:
		return "kill"
	}
	return "fault"
}

// trialValue is what an SLO judges of a trial; ok is false where it judges nothing of it.
type trialValue func(ix *Facts, t *trial) (v value, ok bool)

// trialValues are those of the measures that are judged by trials.
func trialValues() map[string]trialValue {
	return map[string]trialValue{"takeover": takeoverValue, "tick_gap": tickValue}
}

// takeoverValue is what a takeover SLO judges of a trial: plain takeovers only. Hand-overs and recoveries are series of their own. A
// victim that was asked to stop is to hand over: one that did not, and died with its lock, is judged beside those that did.
func takeoverValue(ix *Facts, t *trial) (value, bool) {
	return ix.valued(t.value, t.late), t.class == t.shot.class() || t.shot.class() == verdict.ClassHandOver && t.class == verdict.ClassCrash
}

// tickValue is what a tick_gap SLO judges of a trial.
func tickValue(ix *Facts, t *trial) (value, bool) {
	if t.tick == nil {
		return value{}, false
	}
	return ix.valued(*t.tick, t.tickLate), true
}

// worst is the range of the largest value of all kills; 0 where there is none.
func (s series) worst() value {
	var worst value
	for _, k := range s.kills {
		worst = worst.worst(k.value)
	}
	return worst
}

// slowest is the trial with the largest value; nil where there is none.
func (s series) slowest() *trial {
	var worst *trial
	for _, k := range s.kills {
		if worst == nil || k.worst.value.hi > worst.value.hi {
			worst = k.worst
		}
	}
	return worst
}

func (s series) values() []value {
	var vs []value
	for _, k := range s.kills {
		vs = append(vs, k.value)
	}
	return vs
}

// over counts the kills that surely took longer than limit (lo), and those that may have (hi).
func (s series) over(limit time.Duration) tally {
	return over(s.values(), int64(limit))
}

// evidence cites the kills, the slowest first.
func (s series) evidence() []int64 {
	ks := slices.Clone(s.kills)
	slices.SortStableFunc(ks, func(a, b kill) int { return cmp.Compare(b.value.hi, a.value.hi) })
	var ns []int64
	for _, k := range ks {
		ns = append(ns, k.worst.evidence...)
	}
	return cite(ns...)
}

// seriesRows judges takeover or tick_gap: max by its range, quantiles by the count of independent kills.
func (j *judging) seriesRows(lock, name string, d *experiments.DurationLimits) []verdict.SLOResult {
	s := j.ix.seriesOf(lock, trialValues()[name])
	var rows []verdict.SLOResult
	missing := j.takeoverMissing(s)
	for _, l := range forecast.LimitsOf(d) {
		m := measured{measure: name + "." + l.Name, unit: verdict.UnitSeconds, n: len(s.kills), of: s.thing, evidence: s.evidence(), missing: missing,
			value: quantile(s.values(), l.P), shown: s.shownLate(name)}
		over := s.over(l.Value)
		if slices.ContainsFunc(s.kills, func(k kill) bool { return k.value.hi == open && k.worst.cut }) {
			m.unended = "Leave more time between faults that strike this lock: another fault struck the key before it had a successor."
		}
		if over.hi == 0 && !j.ix.growing(s) {
			m.faults = len(s.kills)
		}
		m.saw = s.saw(l)
		j.explain(&m, s, l, name)
		rows = append(rows, j.seriesRow(s, l, m, over))
	}
	rest := d.Bound
	rest.Max = nil
	return append(rows, bounded(j, lock, &rest, named(j.extremes, name))...)
}

// extremes are the worst kill and the least trial of a lock.
func (j *judging) extremes(lock, name string) measured {
	of := trialValues()[name]
	s := j.ix.seriesOf(lock, of)
	m := measured{measure: name + ".max", unit: verdict.UnitSeconds, n: len(s.kills), of: s.thing, evidence: s.evidence(), missing: j.takeoverMissing(s), value: quantile(s.values(), 0), shown: s.shownLate(name),
		next: "Look at residual, pickup and warm-up of the slowest trial.", none: "Look at the shortest trial: was the victim's lease still whole, and did the successor wait for its end?"}
	var all []value
	for _, k := range s.kills {
		for _, t := range k.trials {
			v, _ := of(j.ix, t)
			all = append(all, v)
		}
	}
	if m.least = least(all); m.n == 0 {
		m.saw = "No " + s.class + " was measured"
		return m
	}
	m.saw = fmt.Sprintf("%s; the shortest took %s, the slowest %s", figures.Plural(m.n, s.thing), m.least, m.value)
	s.falseTakeovers(j, &m)
	return m
}

// seriesRow gives the verdict of one bound on the kills, of which over may have missed it.
func (j *judging) seriesRow(s series, l forecast.Limit, m measured, over tally) verdict.SLOResult {
	if s.falseTakeovers(j, &m); m.violated || l.P == 0 { // the maximum is judged by its range
		return j.row(s.lock, atMost(int64(l.Value)), m)
	}
	m.belated = belatedAny(s.values(), int64(l.Value))
	if !j.ix.growing(s) {
		return j.quantileRow(s.lock, l, m, shareVerdict(l.P, over, m.n), func() verdict.Missing { return s.tooFew(l, over) })
	}
	asked := forecast.Question{Limit: l, N: m.n, Surely: over.lo, Maybe: over.hi}
	return j.quantileRow(s.lock, l, m, asked.Answer(), func() verdict.Missing {
		return verdict.Lacking(verdict.MissingMoreRepeats, asked.Says(s.thing), m.n+asked.More())
	})
}

// growing reports a series whose length was decided while it was looked at: its percentiles take the sequential test.
func (ix *Facts) growing(s series) bool {
	return slices.ContainsFunc(ix.exp.Faults, func(f experiments.Fault) bool { return f.Repeat.Answered && f.Traits().Class == s.class })
}

// falseTakeovers fails the measure where the lock went to another while the victim was still owed its lease.
func (s series) falseTakeovers(j *judging, m *measured) {
	if len(s.falses) == 0 {
		return
	}
	t := s.falses[0]
	m.violated = true
	m.why = fmt.Sprintf("%d false takeover: key %s was granted to another replica while the victim's lease still had %s to run", len(s.falses), t.e.key, figures.Short(t.e.life.due.From-t.next.granted.To))
	m.next = "Find out who deleted or overwrote the key: releases must compare the token."
	if j.ix.outlivesLease(s.lock) {
		m.next = "Find out who wrote the Lease: only its holder may, and a contender after its end (docs/kubernetes.md)."
	}
	m.evidence = cite(append(t.evidence, m.evidence...)...)
}

// tooFew says how many kills it takes to claim the quantile, when so many of them missed it.
func (s series) tooFew(l forecast.Limit, over tally) verdict.Missing {
	n := len(s.kills)
	need := stats.TrialsNeeded(l.P, over.hi)
	next := fmt.Sprintf("Set repeat: {count: %d}, or promise a max.", need)
	switch {
	case over.hi == 0:
		return verdict.Lacking(verdict.MissingCleanTrials, figures.Plural(n, s.thing), l.Name, need, next)
	case over.lo == n:
		next = "Raise the limit or shorten the lease: every " + s.thing + " missed the limit."
	case over.hi == n:
		next = "Raise the limit or shorten the lease: every " + s.thing + " may have missed the limit."
	}
	missed := over.of(n, s.thing, "missed the limit", "may have missed it")
	return verdict.Lacking(verdict.MissingMoreTrials, missed, l.Name, need, stats.TrialsNeeded(l.P, 0), next)
}

// explain adds the sum of L3: it makes a limit impossible, or lucky, or shows that something else took the time.
func (j *judging) explain(m *measured, s series, l forecast.Limit, name string) {
	declared := j.ix.exp.Lock(s.lock)
	if declared == nil {
		return
	}
	if !j.ix.exp.Leases() {
		m.why = "The lock belongs to its holder's session, so nobody gets it before that ends"
		m.next = "Look at residual, pickup and warm-up of the slowest trial."
		return
	}
	b := j.told(declared, l, name, s.class, j.warmup)
	m.why, m.next = "The lock's timings allow "+b.Sum, b.Advice
	switch {
	case l.Value < b.Lo:
		m.why = "No " + s.thing + " can meet " + figures.Exact(int64(l.Value)) + ", because the lock's timings allow " + b.Sum
	case l.Value < b.Hi && m.lo <= int64(b.Hi):
	case b.Untold != "":
		m.next = "Look at pickup of the slowest trial: it has " + b.Untold + "."
	default: // the limit that the timings keep would be missed again
		m.why += ", so something else took the time"
		m.next = "Look at residual, pickup and warm-up of the slowest trial."
	}
	if k := s.slowest(); s.class == verdict.ClassHandOver && k != nil && k.class == verdict.ClassCrash {
		m.why = "The victim was asked to stop, and died without releasing its lock"
		m.next = "Release the lock on SIGTERM, within the pod's grace."
	}
	if l.P == 0 && l.Value < b.Hi && len(s.kills) > 0 && s.over(l.Value).hi == 0 {
		m.missing = append(m.missing[:len(m.missing):len(m.missing)], verdict.Lacking(verdict.MissingMarginToLuck, s.worst(), b.Sum, b.Advice))
	}
}

// saw says what the kills of a series took.
func (s series) saw(l forecast.Limit) string {
	n := len(s.kills)
	if n == 0 {
		return "No " + s.class + " was measured"
	}
	over := s.over(l.Value)
	w := s.worst()
	worst := "the slowest took " + w.String()
	limit := figures.Exact(int64(l.Value))
	text := over.of(n, s.thing, "took more than "+limit, "may have taken more than "+limit) + "; " + worst
	if over.hi == 0 {
		text = figures.Plural(n, s.thing) + "; " + worst
	}
	if late := s.slowest().late; late > 0 {
		text += ", of which this late machine may account for " + figures.Exact(figures.Up(late))
	}
	return text
}
