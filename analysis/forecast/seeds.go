package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Rehearsed gathers what many rehearsals of one experiment gave, in memory that does not grow with their number. The order of the
// seeds does not show in it.
type Rehearsed struct {
	of       *experiments.Experiment
	Seeds    int64 // rehearsals
	Breached int64 // of these, with at least one row surely above its limit
	rows     []rowSeeds
	expected []RehearsedExpectation
	locks    map[string]*lockSeeds
	worst    closest
}

// NewRehearsed is empty: it takes seeds of e.
func NewRehearsed(e *experiments.Experiment) *Rehearsed {
	return &Rehearsed{of: e, locks: map[string]*lockSeeds{}}
}

// rowSeeds is one SLO row over the seeds.
type rowSeeds struct {
	verdict.SLOResult       // of the seed with the smallest number
	first             int64 // that one
	spread
	open, breaches int64
	maxSeed        int64
}

// lockSeeds is one lock over the seeds.
type lockSeeds struct {
	SeedSums                            // what is counted
	promised  []float64                 // limits of takeovers, in seconds
	takeovers map[string]*takeoverSeeds // by class
	ticks     int64
	ticked    int64 // ns between all ticks
}

// takeoverSeeds is the takeovers of a lock from faults of one class. Values are the middles of those that were seen to end, in seconds.
type takeoverSeeds struct {
	spread
	open   int64
	sum    int64   // ns
	lo, hi float64 // all of them lie surely between
	met    []int64 // how many were within each promised limit
}

// closest is the seed that came closest to a breach, or went furthest beyond.
type closest struct {
	seed  int64 // 0 = none
	row   int
	by    float64 // how far above its limit, or below (negative), as a share of it
	value float64
}

// Add takes the judgement of one seed, and its history.
func (r *Rehearsed) Add(seed int64, j *verdict.Judgement, h *history.History) {
	r.addRows(seed, j)
	r.addExpected(seed, j)
	r.addLocks(j)
	r.watch(h)
	r.Seeds++
}

func (r *Rehearsed) addRows(seed int64, j *verdict.Judgement) {
	if r.rows == nil {
		r.rows = make([]rowSeeds, len(j.SLOs))
	}
	breached := false
	for i := range j.SLOs {
		s, w := &j.SLOs[i], &r.rows[i]
		w.told(seed, s)
		if s.Question.LiveOnly() {
			continue
		}
		if breaches(s) {
			breached = true
			w.breaches++
		}
		if s.N == 0 && s.Hi == nil { // nothing was measured
			continue
		}
		v := s.Lo
		if s.Hi != nil {
			v = middle(s.Lo, *s.Hi)
		} else {
			w.open++
		}
		if w.n == 0 || v > w.max || v == w.max && seed < w.maxSeed {
			w.maxSeed = seed
		}
		w.take(v)
		r.worst = r.worst.or(closest{seed, i, beyond(v, s.Limit, s.Ask), v})
	}
	if breached {
		r.Breached++
	}
}

// told takes from a seed what all of them say alike; but a share of what another lock had is another limit in each.
func (w *rowSeeds) told(seed int64, s *verdict.SLOResult) {
	if w.first == 0 || seed < w.first {
		w.first, w.SLOResult = seed, *s
	}
}

// breaches reports a row that is surely broken in its seed. Too little of something counts only where it would have been seen.
func breaches(s *verdict.SLOResult) bool {
	if s.Ask == verdict.AtMost && s.Against == nil {
		return s.Lo > s.Limit
	}
	return s.Verdict == verdict.Fail
}

// beyond is how far v is from a breach of its limit, as a share of it: above 0 beyond.
func beyond(v, limit float64, ask verdict.Ask) float64 {
	switch {
	case ask == verdict.AtLeast && limit > 0:
		return (limit - v) / limit
	case ask == verdict.Exactly && limit > 0:
		return math.Abs(v-limit)/limit - 1
	case limit > 0:
		return (v - limit) / limit
	case v > limit:
		return v - limit
	}
	return -1 // as far from a breach as a count can be
}

// or is the one that came closer to a breach; of equals the smaller seed.
func (c closest) or(o closest) closest {
	if by := cmp.Compare(o.by, c.by); o.seed != 0 && (c.seed == 0 || by > 0 || by == 0 && o.seed < c.seed) {
		return o
	}
	return c
}

// addExpected takes in what one seed provoked.
func (r *Rehearsed) addExpected(seed int64, j *verdict.Judgement) {
	rehearsable := slices.DeleteFunc(slices.Clone(j.Expected), func(s verdict.SLOResult) bool { return s.Question.LiveOnly() })
	if r.expected == nil {
		for _, s := range rehearsable {
			r.expected = append(r.expected, RehearsedExpectation{Fault: s.Fault, Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Ask: s.Ask, Limit: s.Limit})
		}
	}
	for i, s := range rehearsable {
		if s.Verdict != verdict.Pass {
			r.expected[i].miss(seed, s.Why)
		}
	}
}

// miss notes a seed in which it was not provoked.
func (x *RehearsedExpectation) miss(seed int64, why string) {
	if x.Missed++; x.Seed == 0 || seed < x.Seed {
		x.Seed, x.Why = seed, why
	}
}

// addLocks takes in the takeovers and the abandonments of one seed. What no fault of the run brought about is no takeover.
func (r *Rehearsed) addLocks(j *verdict.Judgement) {
	for i := range j.Takeovers {
		t := &j.Takeovers[i]
		if t.Fault == "" {
			continue
		}
		l := r.lock(t.Lock)
		s := l.after(t.Class)
		if s.lo = min(s.lo, t.Lo); t.Hi == nil {
			s.open++
			continue
		}
		v := middle(t.Lo, *t.Hi)
		s.take(v)
		s.hi, s.sum = max(s.hi, *t.Hi), s.sum+figures.Nanoseconds(v)
		for k, limit := range l.promised {
			if v <= limit {
				s.met[k]++
			}
		}
	}
	for i := range j.Abandonments {
		a := &j.Abandonments[i]
		l := r.lock(a.Lock)
		if a.Reason != "" {
			l.GivenUp++
		}
		if a.Timing == verdict.Late || a.Timing == verdict.Missed {
			l.Late++
		}
	}
}

// watch takes in what a seed's history shows and no judgement does: how often loops tick, and which waits gave up.
func (r *Rehearsed) watch(h *history.History) {
	struck := false
	last := map[string]int64{}
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Kind == history.FaultApplied:
			struck = true
			clear(last)
		case e.Kind == history.WaitEnd && struck:
			l := r.lock(e.Lock)
			l.Waits++
			if e.Outcome == history.Fail {
				l.Refused++
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

func (r *Rehearsed) lock(name string) *lockSeeds {
	l := r.locks[name]
	if l == nil {
		l = &lockSeeds{takeovers: map[string]*takeoverSeeds{}}
		for _, limit := range limitsOn(r.of, name) {
			if limit.Measure == takeover {
				l.promised = append(l.promised, float64(limit.At)/1e9)
			}
		}
		r.locks[name] = l
	}
	return l
}

func (l *lockSeeds) after(class string) *takeoverSeeds {
	s := l.takeovers[class]
	if s == nil {
		s = &takeoverSeeds{lo: math.Inf(1), met: make([]int64, len(l.promised))}
		l.takeovers[class] = s
	}
	return s
}

func middle(lo, hi float64) float64 { return (lo + hi) / 2 }

// spread is how values lie. Its ends are exact, and between them neighbours that differ by less than Resolution, relatively, are one.
type spread struct {
	n        int64
	min, max float64
	counts   map[int]int64 // by bucket
}

func (s *spread) take(v float64) {
	if s.n == 0 {
		s.min, s.max, s.counts = v, v, map[int]int64{}
	}
	s.n, s.min, s.max = s.n+1, min(s.min, v), max(s.max, v)
	s.counts[bucket(v)]++
}

// quantile is the value that a share p of so many does not exceed; those that are not in the spread are above all of it.
func (s *spread) quantile(p float64, of int64) float64 {
	need := int64(math.Ceil(p * float64(of)))
	for _, k := range slices.Sorted(maps.Keys(s.counts)) {
		if need -= s.counts[k]; need <= 0 {
			return min(max(inBucket(k), s.min), s.max)
		}
	}
	return s.max
}

// deviation is the standard deviation from a mean.
func (s *spread) deviation(mean float64) float64 {
	squares := 0.0
	for _, k := range slices.Sorted(maps.Keys(s.counts)) {
		squares += float64(s.counts[k]) * (inBucket(k) - mean) * (inBucket(k) - mean)
	}
	return math.Sqrt(squares / float64(s.n))
}

// Resolution of the quantiles of rehearsals, relatively.
const Resolution = 0.002

// smallest is what counts as 0 in a bucket.
const smallest = 1e-6

// bucket numbers the values: 0 for 0, then outwards in steps of Resolution.
func bucket(v float64) int {
	a := math.Abs(v)
	if a < smallest {
		return 0
	}
	n := 1 + int(math.Log(a/smallest)/math.Log1p(Resolution))
	if v < 0 {
		return -n
	}
	return n
}

// inBucket is a value that is in the bucket.
func inBucket(n int) float64 {
	if n == 0 {
		return 0
	}
	v := smallest * math.Exp((math.Abs(float64(n))-0.5)*math.Log1p(Resolution))
	if n < 0 {
		return -v
	}
	return v
}
