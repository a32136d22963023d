package analysis

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// kill is one independent trial: a shot, valued at the worst of the keys that it exposed. 200 job locks that die with one
// replica share one pickup, so they are one trial with 200 values.
type kill struct {
	shot   *shot
	value  dur
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
func (ix *Facts) seriesOf(lock string, value func(*trial) (dur, bool)) series {
	out := series{lock: lock, class: ix.classOf(lock)}
	out.thing = ix.thingOf(out)
	for _, s := range ix.shots {
		k := kill{shot: s}
		for _, t := range s.trials {
			if t.e.lock != lock || t.void.IsVoid() || !out.takes(t) {
				continue
			}
			if t.class == verdict.ClassFalse {
				out.falses = append(out.falses, t)
			}
			v, ok := value(t)
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

// takeoverValue is what a takeover SLO judges of a trial: plain takeovers only. Hand-overs and recoveries are series of their own. A
// victim that was asked to stop is to hand over: one that did not, and died with its lock, is judged beside those that did.
func takeoverValue(t *trial) (dur, bool) {
	return t.value, t.class == t.shot.class() || t.shot.class() == verdict.ClassHandOver && t.class == verdict.ClassCrash
}

// tickValue is what a tick_gap SLO judges of a trial.
func tickValue(t *trial) (dur, bool) {
	if t.tick == nil {
		return dur{}, false
	}
	return *t.tick, true
}

// worst is the range of the largest value of all kills.
func (s series) worst() dur {
	var d dur
	for _, k := range s.kills {
		d = d.worst(k.value)
	}
	return d
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

// values counts the trials of all kills.
func (s series) values() int {
	n := 0
	for _, k := range s.kills {
		n += len(k.trials)
	}
	return n
}

// ranges are the kills' values.
func (s series) ranges() []dur {
	var ds []dur
	for _, k := range s.kills {
		ds = append(ds, k.value)
	}
	return ds
}

// over counts the kills that surely took longer than limit (lo), and those that may have (hi).
func (s series) over(limit time.Duration) tally { return over(s.ranges(), int64(limit)) }

// quantile is the range of the p-quantile of the kills' values.
func (s series) quantile(p float64) dur { return quantile(s.ranges(), p) }

// evidence cites the kills, the slowest first.
func (s series) evidence() []int64 {
	ks := slices.Clone(s.kills)
	slices.SortStableFunc(ks, func(a, b kill) int {
		switch {
		case a.value.hi > b.value.hi:
			return -1
		case a.value.hi < b.value.hi:
			return 1
		}
		return 0
	})
	var ns []int64
	for _, k := range ks {
		ns = append(ns, k.worst.evidence...)
	}
	return cite(ns...)
}
