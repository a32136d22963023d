package analysis

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// Judger judges histories of one experiment, one after the other: what depends on the experiment alone is worked out once, and the
// memory of one judgement is used for the next. It is not safe for concurrent use; its judgements are good for ever.
type Judger struct {
	exp   *experiments.Experiment // scaled
	file  *experiments.Experiment // as loaded
	ix    index
	sums  map[sumOf]sums
	all   map[time.Duration][]Band // by warm-up
	lints map[time.Duration][]Lint // likewise, in the numbers of the file
}

// NewJudger prepares for histories of e, which is the experiment as loaded (not scaled).
func NewJudger(e *experiments.Experiment) *Judger {
	return &Judger{exp: experiments.Scale(e), file: e, lints: map[time.Duration][]Lint{}}
}

// sumOf says what a sum of L3 depends on, beside the experiment.
type sumOf struct {
	lock, measure, class string
	limit                limit
	warmup               time.Duration
}

// sums is a band in words.
type sums struct {
	lo, hi      time.Duration
	sum, advice string
}

// told is the band of a measure of a lock after faults of a class, held against a limit.
func (r *Judger) told(lock *experiments.Lock, l limit, measure, class string, warmup time.Duration) sums {
	of := sumOf{lock.Name, measure, class, l, warmup}
	if s, known := r.sums[of]; known {
		return s
	}
	b := bandOf(r.exp, lock, warmup)
	if measure == "tick_gap" {
		b = tickBand(r.exp, lock, warmup)
	}
	b = b.under(r.exp.Faults, class)
	s := sums{lo: b.lo, hi: b.hi, sum: b.sum(), advice: b.advice(l, measure, cmp.Or(r.exp.Scaled, 1))}
	if r.sums == nil {
		r.sums = map[sumOf]sums{}
	}
	r.sums[of] = s
	return s
}

// bands are those of all locks.
func (r *Judger) bands(warmup time.Duration) []Band {
	if r.all == nil {
		r.all = map[time.Duration][]Band{}
	}
	if r.all[warmup] == nil {
		r.all[warmup] = bands(r.exp, warmup)
	}
	return slices.Clone(r.all[warmup])
}

// lintsWith are the lints whose advice leaves room for a warm-up, as the advice of the rows does.
func (r *Judger) lintsWith(warmup time.Duration) []Lint {
	if r.lints[warmup] == nil {
		r.lints[warmup] = lints(r.file, time.Duration(unscaled(int64(warmup), cmp.Or(r.exp.Scaled, 1))))
	}
	return r.lints[warmup]
}
