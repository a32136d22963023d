package analysis

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Judger judges histories of one experiment, one after the other: what depends on the experiment alone is worked out once. It is not
// safe for concurrent use.
type Judger struct {
	exp  *experiments.Experiment // scaled
	file *experiments.Experiment // as loaded

	measures map[string]measure
	sums     map[sumOf]forecast.PromiseBand
	all      map[time.Duration][]verdict.Band  // by warm-up
	lints    map[time.Duration][]forecast.Lint // likewise, in the numbers of the file
}

// NewJudger prepares for histories of e, which is the experiment as loaded (not scaled).
func NewJudger(e *experiments.Experiment) *Judger {
	return &Judger{exp: experiments.Scale(e), file: e, measures: measures(), lints: map[time.Duration][]forecast.Lint{}}
}

// Read takes in h, in one pass. An error is h's.
func (r *Judger) Read(h history.Source) (*Facts, error) {
	ix := &Facts{

		judger: r, exp: r.exp, header: h.Header(),
		keys: map[string]*keyIndex{}, byLock: map[string][]*keyIndex{}, jobs: map[string]*job{}, replicas: map[string][]*epoch{},
		writes: map[opKey]*claim{}, deaths: map[string]death{}, claims: map[string]int64{}, pauses: map[string][]pause{},
		ready: map[string]int64{}, heard: map[string]bool{}, probes: map[string]*coverage{}, samples: signals.Samples{},
		ledgered: map[string]bool{}, asked: map[string]bool{}, claimed: map[string]bool{}, phases: map[string]*history.Event{},
	}
	if err := ix.read(h); err != nil {
		return nil, err
	}
	return ix, nil
}

// whole is Read of what is in memory: nothing can go wrong.
func (r *Judger) whole(h *history.History) *Facts {
	facts, err := r.Read(h.Source())
	if err != nil {
		panic(err)
	}
	return facts
}

// sumOf says what a sum of L3 depends on, beside the experiment.
type sumOf struct {
	lock, measure, class string
	limit                forecast.Limit
	warmup               time.Duration
}

// told is the band of a measure of a lock after faults of a class, held against a limit.
func (r *Judger) told(lock *experiments.Lock, l forecast.Limit, measure, class string, warmup time.Duration) forecast.PromiseBand {
	of := sumOf{lock.Name, measure, class, l, warmup}
	if s, known := r.sums[of]; known {
		return s
	}
	s := forecast.PromiseOf(r.exp, lock, l, measure, class, warmup)
	if r.sums == nil {
		r.sums = map[sumOf]forecast.PromiseBand{}
	}
	r.sums[of] = s
	return s
}

// bands are those of all locks.
func (r *Judger) bands(warmup time.Duration) []verdict.Band {
	if r.all == nil {
		r.all = map[time.Duration][]verdict.Band{}
	}
	if r.all[warmup] == nil {
		r.all[warmup] = forecast.Bands(r.exp, warmup)
	}
	return slices.Clone(r.all[warmup])
}

// lintsWith are the lints whose advice leaves room for a warm-up, as the advice of the rows does.
func (r *Judger) lintsWith(warmup time.Duration) []forecast.Lint {
	if r.lints[warmup] == nil {
		r.lints[warmup] = forecast.Lints(r.file, time.Duration(forecast.Unscaled(int64(warmup), cmp.Or(r.exp.Scaled, 1))))
	}
	return r.lints[warmup]
}
