package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
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

// growing reports a series whose length was decided while it was looked at: its percentiles take the sequential test.
func (ix *Facts) growing(s series) bool {
	return slices.ContainsFunc(ix.exp.Faults, func(f experiments.Fault) bool { return f.Repeat.Answered && f.Traits().Class == s.class })
}

// seriesKey tells the series of one judgement apart.
type seriesKey struct{ lock, measure string }

// seriesFor collects the trials that a limit on takeovers or tick gaps is about, once.
func (j *judging) seriesFor(l *experiments.Limit) *series {
	of := seriesKey{l.Lock, l.Measure}
	if j.serieses[of] == nil {
		s := j.ix.seriesOf(l.Lock, trialValues()[l.Measure])
		j.serieses[of] = &s
	}
	return j.serieses[of]
}

// trialsOf are the takeovers or the tick gaps of a lock: each kill is a trial, and the least of them is that of one key.
func trialsOf(j *judging, l *experiments.Limit) figure {
	s, of := j.seriesFor(l), trialValues()[l.Measure]
	f := figure{each: s.values(), n: len(s.kills), of: s.thing, growing: j.ix.growing(*s), evidence: s.evidence(), lacks: j.takeoverMissing(*s), shown: s.shownLate(l.Measure)}
	var all []value
	for _, k := range s.kills {
		for _, t := range k.trials {
			v, _ := of(j.ix, t)
			all = append(all, v)
		}
	}
	f.value, f.least = quantile(f.each, 0), least(all)
	f.few = "Look at the shortest trial: was the victim's lease still whole, and did the successor wait for its end?"
	switch {
	case f.n == 0:
		f.saw = "No " + s.class + " was measured"
	default:
		f.saw = fmt.Sprintf("%s; the shortest took %s, the slowest %s", figures.Plural(f.n, s.thing), f.least, f.value)
	}
	if slices.ContainsFunc(s.kills, func(k kill) bool { return k.value.hi == open && k.worst.cut }) {
		f.unended = "Leave more time between faults that strike this lock: another fault struck the key before it had a successor."
	}
	if len(s.falses) > 0 { // the lock went to another while the victim was still owed its lease
		t := s.falses[0]
		f.broken = fmt.Sprintf("%d false takeover: key %s was granted to another replica while the victim's lease still had %s to run", len(s.falses), t.e.key, figures.Short(t.e.life.due.From-t.next.granted.To))
		f.next = "Find out who deleted or overwrote the key: releases must compare the token."
		if j.ix.outlivesLease(s.lock) {
			f.next = "Find out who wrote the Lease: only its holder may, and a contender after its end (docs/kubernetes.md)."
		}
		f.evidence = slices.Concat(t.evidence, f.evidence)
	}
	return f
}

// facingTrials says how many trials kept an upper limit, and what the lock's timings make of that limit.
func facingTrials(j *judging, l *experiments.Limit, f *figure) {
	if l.Side != experiments.SideMost || l.Share > 0 {
		return
	}
	s := j.seriesFor(l)
	missed := over(f.each, l.At)
	if missed.hi == 0 && !f.growing {
		f.faults = f.n
	}
	if f.n > 0 {
		f.saw = s.saw(l.At, missed)
	}
	j.explain(f, s, l, missed)
}

// explain adds the sum of L3: it makes a limit impossible, or lucky, or shows that something else took the time.
func (j *judging) explain(f *figure, s *series, l *experiments.Limit, missed tally) {
	declared := j.ix.exp.Lock(s.lock)
	if declared == nil {
		return
	}
	var why, next string
	if j.ix.exp.Leases() {
		b := j.told(declared, l, s.class, j.warmup)
		why, next = j.byTimings(f, s, l, b)
		if l.Quantile == 0 && l.At < int64(b.Hi) && f.n > 0 && missed.hi == 0 {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingMarginToLuck, s.worst(), b.Sum, b.Advice))
		}
	} else {
		why = "The lock belongs to its holder's session, so nobody gets it before that ends"
	}
	if f.broken == "" {
		f.why, f.next = why, next
	}
}

// byTimings is the cause of a missed limit, and what to do about it, by what the lock's timings allow.
func (j *judging) byTimings(f *figure, s *series, l *experiments.Limit, b forecast.PromiseBand) (why, next string) {
	held := quantile(f.each, l.Quantile)
	why, next = "The lock's timings allow "+b.Sum, b.Advice
	switch {
	case l.At < int64(b.Lo):
		why = "No " + s.thing + " can meet " + figures.Exact(l.At) + ", because the lock's timings allow " + b.Sum
	case l.At < int64(b.Hi) && held.lo <= int64(b.Hi):
	case b.Untold != "":
		next = "Look at pickup of the slowest trial: it has " + b.Untold + "."
	default: // the limit that the timings keep would be missed again
		why += ", so something else took the time"
		next = ""
	}
	if t := s.slowest(); s.class == verdict.ClassHandOver && t != nil && t.class == verdict.ClassCrash {
		return "The victim was asked to stop, and died without releasing its lock", "Release the lock on SIGTERM, within the pod's grace."
	}
	return why, next
}

// saw says what the kills of a series took, of which so many missed the limit.
func (s *series) saw(limit int64, missed tally) string {
	n := len(s.kills)
	text := figures.Plural(n, s.thing)
	if missed.hi > 0 {
		text = missed.of(n, s.thing, "took more than "+figures.Exact(limit), "may have taken more than "+figures.Exact(limit))
	}
	text += "; the slowest took " + s.worst().String()
	if late := s.slowest().late; late > 0 {
		text += ", of which this late machine may account for " + figures.Exact(figures.Up(late))
	}
	return text
}
