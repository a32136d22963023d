package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Kill is one independent trial: a shot, valued at the worst of the keys that it exposed. 200 job locks that die with one
// replica share one pickup, so they are one trial with 200 values.
type Kill struct {
	Shot   *Shot
	Value  Value
	Worst  *Trial
	Trials []*Trial
}

// Series is the kills of one lock that an SLO about takeover is judged on.
type Series struct {
	Lock   string
	Class  string // crash, hand-over, pause, theft or store
	Thing  string // what a kill of it is called: kill, burst, pause, deletion, or fault
	Led    string // what its times are of: takeover, or tick gap
	Kills  []Kill
	Falses []*Trial // safety events: granted to another while the victim was still owed its lease
}

// SeriesOf collects the trials of lock, all of the class that its SLOs are judged on.
func (ix *Facts) SeriesOf(lock, measure string) Series {
	out := Series{Lock: lock, Class: ix.classOf(lock), Led: "takeover"}
	if measure == MeasureTicks {
		out.Led = verdict.MeasureWords(measure)
	}
	out.Thing = ix.thingOf(out)
	for _, s := range ix.Shots {
		if ix.LeavesOut(s) {
			continue
		}
		k := Kill{Shot: s}
		for _, t := range s.Trials {
			if t.E.Lock != lock || t.Void.IsVoid() || !out.takes(t) {
				continue
			}
			if t.Class == verdict.ClassFalse {
				out.Falses = append(out.Falses, t)
			}
			v, ok := ix.TimeOf(measure, t)
			if !ok {
				continue
			}
			if k.Worst == nil || v.Hi > k.Value.Hi || v.Hi == k.Value.Hi && v.Lo > k.Value.Lo {
				k.Worst = t
			}
			k.Value = k.Value.Worst(v)
			k.Trials = append(k.Trials, t)
		}
		if k.Worst != nil {
			out.Kills = append(out.Kills, k)
		}
	}
	return out
}

// takes reports whether the trial is one of the series: by the class of its shot, or because a victim that was to hand over died with
// its lock as in a crash.
func (s *Series) takes(t *Trial) bool {
	return t.Shot.Class() == s.Class || s.Class == verdict.ClassCrash && t.Shot.Class() == verdict.ClassHandOver && t.Class == verdict.ClassCrash
}

// classOf is the class that SLOs of the lock are judged on: that of the faults that are aimed at its holder, else that of any.
func (ix *Facts) classOf(lock string) string {
	declared := forecast.Classes{At: lock}
	for i := range ix.Exp.Faults {
		f := &ix.Exp.Faults[i]
		declared.Note(f.Traits().Class, f.Lock())
	}
	for _, s := range ix.Shots { // what the file does not declare is known from the history
		declared.Note(s.Class(), s.lock)
	}
	class, _ := declared.First()
	return class
}

// thingOf names what the series counts: what all its faults are, else a fault.
func (ix *Facts) thingOf(s Series) string {
	var things []string
	note := func(noun string) {
		if !slices.Contains(things, noun) {
			things = append(things, noun)
		}
	}
	for i := range ix.Exp.Faults {
		if f := &ix.Exp.Faults[i]; f.Traits().Class == s.Class && f.Lock() == s.Lock {
			note(f.Traits().Noun)
		}
	}
	for _, x := range ix.Shots {
		if x.Class() == s.Class && (x.lock == s.Lock || x.Locks[s.Lock]) {
			note(x.Does.Noun)
		}
	}
	switch {
	case len(things) == 1:
		return things[0]
	case s.Class == verdict.ClassCrash, s.Class == verdict.ClassHandOver:
		return "kill"
	}
	return "fault"
}

// MeasureTicks is the measure of trials that is not about takeovers.
const MeasureTicks = "tick_gap"

// TimeOf is what a promise about the measure judges of a trial; ok is false where it judges nothing of it. Of takeovers it judges plain ones
// only: hand-overs and recoveries are series of their own. A victim that was asked to stop is to hand over: one that did not, and died with its
// lock, is judged beside those that did.
func (ix *Facts) TimeOf(measure string, t *Trial) (v Value, ok bool) {
	if measure != MeasureTicks {
		return ix.Valued(t.Value, t.Late), t.Class == t.Shot.Class() || t.Shot.Class() == verdict.ClassHandOver && t.Class == verdict.ClassCrash
	}
	if t.Tick == nil {
		return Value{}, false
	}
	return ix.Valued(*t.Tick, t.TickLate), true
}

// Worst is the range of the largest value of all kills; 0 where there is none.
func (s Series) Worst() Value {
	var worst Value
	for _, k := range s.Kills {
		worst = worst.Worst(k.Value)
	}
	return worst
}

// Slowest is the trial with the largest value; nil where there is none.
func (s Series) Slowest() *Trial {
	var worst *Trial
	for _, k := range s.Kills {
		if worst == nil || k.Worst.Value.Hi > worst.Value.Hi {
			worst = k.Worst
		}
	}
	return worst
}

func (s Series) Values() []Value {
	var vs []Value
	for _, k := range s.Kills {
		vs = append(vs, k.Value)
	}
	return vs
}

// Evidence cites the kills, the slowest first.
func (s Series) Evidence() []int64 {
	ks := slices.Clone(s.Kills)
	slices.SortStableFunc(ks, func(a, b Kill) int { return cmp.Compare(b.Value.Hi, a.Value.Hi) })
	var ns []int64
	for _, k := range ks {
		ns = append(ns, k.Worst.Evidence...)
	}
	return Cite(ns...)
}

// Growing reports a series whose length was decided while it was looked at: its percentiles take the sequential test.
func (ix *Facts) Growing(s Series) bool {
	return slices.ContainsFunc(ix.Exp.Faults, func(f experiments.Fault) bool { return f.Repeat.Answered && f.Traits().Class == s.Class })
}

// Saw says what the kills of a series led to, of which so many missed the limit.
func (s *Series) Saw(limit int64, missed Tally) string {
	n := len(s.Kills)
	text := figures.Plural(n, s.Thing)
	if missed.Hi > 0 {
		long := "to a " + s.Led + " of more than " + figures.Exact(limit)
		text = missed.Of(n, s.Thing, "led "+long, "may have led "+long)
	}
	took := s.Worst().String()
	if s.Worst().Hi == Open {
		took = "at least " + figures.Floor(s.Worst().Lo)
	}
	text += "; the slowest took " + took
	if late := s.Slowest().Late; late > 0 {
		text += ", of which this late machine may account for " + figures.Exact(figures.Up(late))
	}
	return text
}
