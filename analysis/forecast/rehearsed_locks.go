package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// RehearsedLock is what a lock's sums say, and what the seeds gave.
type RehearsedLock struct {
	LockSums
	Seeds SeedSums `json:"seeds"`
}

// SeedSums is what all seeds together gave, beside what LockSums says of one lock. Values are seconds; null where there were none.
type SeedSums struct {
	Takeovers int64         `json:"takeovers"`      // of the class that the lock is judged on; one for each key
	Open      int64         `json:"open,omitempty"` // of these, without an end: they count nowhere below
	Min       *float64      `json:"min"`
	Mean      *float64      `json:"mean"`
	Error     *float64      `json:"error"` // standard error of the mean
	Max       *float64      `json:"max"`
	Met       []PromiseSeed `json:"met"`                 // as LockSums.Promises; never null
	GivenUp   int64         `json:"givenUp"`             // abandonments
	Late      int64         `json:"late"`                // of these, after the lease had ended, or never
	Waits     int64         `json:"waits,omitempty"`     // bounded waits that ended after a fault had struck
	Refused   int64         `json:"refused,omitempty"`   // of these, that gave up
	TickEvery *float64      `json:"tickEvery,omitempty"` // mean time from tick to tick, where no fault came in between
}

// PromiseSeed is the share of takeovers that met a limit, null where there were none.
type PromiseSeed struct {
	Limit string   `json:"limit"`
	Share *float64 `json:"share"`
}

// lockSeeds gathers one lock.
type lockSeeds struct {
	takeovers             map[string]*spreadSeen // by class
	givenUp, late         int64
	waits, refused, ticks int64
	ticked                int64 // ns between all ticks
}

// spreadSeen gathers the takeovers of one class. All is whole numbers: the order of the seeds must not show.
type spreadSeen struct {
	n, open  int64
	sum      int64         // ns
	counts   map[int]int64 // by bucket
	min, max float64
	met      map[string]int64 // by the measure of the row
}

func (r *Rehearsed) lock(name string) *lockSeeds {
	if r.locks == nil {
		r.locks = map[string]*lockSeeds{}
	}
	l := r.locks[name]
	if l == nil {
		l = &lockSeeds{takeovers: map[string]*spreadSeen{}}
		r.locks[name] = l
	}
	return l
}

// addLocks takes in what one seed says of each lock's sums.
func (r *Rehearsed) addLocks(j *verdict.Judgement) {
	for i := range j.Takeovers {
		t := &j.Takeovers[i]
		of := r.lock(t.Lock).takeovers
		s := of[t.Class]
		if s == nil {
			s = &spreadSeen{min: math.Inf(1), counts: map[int]int64{}, met: map[string]int64{}}
			of[t.Class] = s
		}
		s.n++
		if t.Hi == nil {
			s.open++
			continue
		}
		v := (t.Lo + *t.Hi) / 2
		s.sum, s.min, s.max = s.sum+int64(math.Round(v*1e9)), min(s.min, v), max(s.max, v)
		s.counts[bucket(v)]++
		for k := range j.SLOs {
			if row := &j.SLOs[k]; row.Lock == t.Lock && row.Ask == verdict.AtMost && row.Against == nil && v <= row.Limit {
				s.met[row.Measure]++
			}
		}
	}
	for i := range j.Abandonments {
		a := &j.Abandonments[i]
		l := r.lock(a.Lock)
		if a.Reason != "" {
			l.givenUp++
		}
		if a.Timing == verdict.Late || a.Timing == verdict.Missed {
			l.late++
		}
	}
}

// Watch takes in what a seed's history shows and no judgement does: how often loops tick, and which waits gave up.
func (r *Rehearsed) Watch(h *history.History) {
	struck := false
	last := map[string]int64{}
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Kind == history.FaultApplied:
			struck = true
			clear(last)
		case e.Kind == history.WaitEnd && struck:
			l := r.lock(e.Lock)
			l.waits++
			if e.Outcome == history.Fail {
				l.refused++
			}
		case e.Kind == history.LedgerEntry && e.Entry.Loop && e.Entry.Accepted && e.Entry.State == history.StateTick:
			at := (e.From + e.To) / 2
			if before, known := last[e.Lock]; known {
				l := r.lock(e.Lock)
				l.ticks++
				l.ticked += at - before
			}
			last[e.Lock] = at
		}
	}
}

func (r *Rehearsed) mergeLocks(o *Rehearsed) {
	for name, b := range o.locks {
		a := r.lock(name)
		a.givenUp, a.late, a.waits, a.refused, a.ticks, a.ticked = a.givenUp+b.givenUp, a.late+b.late, a.waits+b.waits, a.refused+b.refused, a.ticks+b.ticks, a.ticked+b.ticked
		for class, t := range b.takeovers {
			s := a.takeovers[class]
			if s == nil {
				a.takeovers[class] = t
				continue
			}
			s.n, s.open, s.sum, s.min, s.max = s.n+t.n, s.open+t.open, s.sum+t.sum, min(s.min, t.min), max(s.max, t.max)
			for k, n := range t.counts {
				s.counts[k] += n
			}
			for measure, n := range t.met {
				s.met[measure] += n
			}
		}
	}
}

// Locks holds the sums of e, the rehearsed experiment, beside what the seeds gave.
func (r *Rehearsed) Locks(e *experiments.Experiment) []RehearsedLock {
	out := []RehearsedLock{}
	for _, s := range LockSumsOf(e) {
		class, _ := declaredClass(e.Faults, s.Lock)
		out = append(out, RehearsedLock{s, r.lock(s.Lock).sums(class, s.Promises)})
	}
	return out
}

func (l *lockSeeds) sums(class string, promises []PromiseSum) SeedSums {
	s := SeedSums{GivenUp: l.givenUp, Late: l.late, Waits: l.waits, Refused: l.refused, Met: []PromiseSeed{}}
	if l.ticks > 0 {
		every := float64(l.ticked) / float64(l.ticks) / 1e9
		s.TickEvery = &every
	}
	t := cmp.Or(l.takeovers[class], &spreadSeen{})
	s.Takeovers, s.Open = t.n, t.open
	n := float64(t.n - t.open)
	if n > 0 {
		mean, squares := float64(t.sum)/1e9/n, 0.0
		for _, k := range slices.Sorted(maps.Keys(t.counts)) {
			squares += float64(t.counts[k]) * (middle(k) - mean) * (middle(k) - mean)
		}
		off := math.Sqrt(squares/n) / math.Sqrt(n)
		s.Min, s.Mean, s.Error, s.Max = &t.min, &mean, &off, &t.max
	}
	for _, p := range promises {
		m := PromiseSeed{Limit: p.Limit}
		if t.n > 0 {
			share := float64(t.met["takeover."+p.Limit]) / float64(t.n)
			m.Share = &share
		}
		s.Met = append(s.Met, m)
	}
	return s
}

// Holds reports whether what the seeds gave is what the sum says of the mean, as exactly as so many can tell, and to 1 %.
func (l *RehearsedLock) Holds() bool {
	t, s := &l.Takeover, &l.Seeds
	return t.Mean != nil && s.Mean != nil && math.Abs(*t.Mean-*s.Mean) <= 0.01**t.Mean+3**s.Error
}
