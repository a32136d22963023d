package forecast

import (
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Rehearsal is the document of many rehearsals. It is no verdict about a live system, and never satisfies an SLO.
type Rehearsal struct {
	SchemaVersion int                    `json:"schemaVersion"`
	Rehearsal     bool                   `json:"rehearsal"` // always true
	Experiment    string                 `json:"experiment"`
	Replicas      int                    `json:"replicas"`
	Seeds         int64                  `json:"seeds"`  // 1 to this
	Breach        float64                `json:"breach"` // share of the seeds in which some row surely breached its limit
	FailAbove     float64                `json:"failAbove"`
	Resolution    float64                `json:"resolution"` // of the quantiles, relative
	Rows          []RehearsalRow         `json:"rows"`
	Expected      []RehearsedExpectation `json:"expected,omitempty"`
	Worst         *RehearsalSeed         `json:"worst"` // null where nothing was measured
	Locks         []LockSums             `json:"locks"` // each with what the seeds gave
}

// RehearsalRow is one SLO row over the seeds. Values are the middles of what was measured; null where no seed measured anything.
type RehearsalRow struct {
	question *experiments.Limit

	Lock    string      `json:"lock"`
	Measure string      `json:"measure"`
	Unit    string      `json:"unit"`
	Ask     verdict.Ask `json:"ask,omitempty"`
	Limit   float64     `json:"limit"`
	Of      string      `json:"of,omitempty"`    // the other lock of a row that compares two
	Share   float64     `json:"share,omitempty"` // of what that one had: the limit
	Min     *float64    `json:"min"`
	Median  *float64    `json:"median"`
	P95     *float64    `json:"p95"`
	P99     *float64    `json:"p99"`
	Max     *float64    `json:"max"`
	Seeds   int64       `json:"seeds"`  // that measured it
	Open    int64       `json:"open"`   // of these, whose end was not seen: they count with what was seen
	Breach  float64     `json:"breach"` // share of all seeds in which it was surely above the limit
	Worst   int64       `json:"worst"`  // seed of Max
}

// RehearsedExpectation is what a fault had to provoke, over the seeds.
type RehearsedExpectation struct {
	Fault   string      `json:"fault"`
	Lock    string      `json:"lock"`
	Measure string      `json:"measure"`
	Unit    string      `json:"unit"`
	Ask     verdict.Ask `json:"ask,omitempty"`
	Limit   float64     `json:"limit"`
	Missed  int64       `json:"missed"` // seeds in which it was not provoked
	Seed    int64       `json:"seed"`   // the first of them; 0 = none
	Why     string      `json:"why,omitempty"`
}

// RehearsalSeed is one seed to look at.
type RehearsalSeed struct {
	Seed    int64   `json:"seed"`
	Lock    string  `json:"lock"`
	Measure string  `json:"measure"`
	Unit    string  `json:"unit"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
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

// Document is what was gathered.
func (r *Rehearsed) Document() *Rehearsal {
	d := &Rehearsal{SchemaVersion: 1, Rehearsal: true, Experiment: r.of.Name, Replicas: r.of.System.Replicas, Seeds: r.Seeds, Resolution: Resolution,
		Breach: r.share(r.Breached), Expected: r.expected, Rows: []RehearsalRow{}, Locks: r.Locks()}
	for i := range r.rows {
		w := &r.rows[i]
		row := RehearsalRow{question: w.Question, Lock: w.Lock, Measure: w.Measure, Unit: w.Unit, Ask: w.Ask, Limit: w.Limit, Seeds: w.n, Open: w.open, Breach: r.share(w.breaches), Worst: w.maxSeed}
		if w.Against != nil {
			row.Of, row.Share = w.Against.Lock, w.Against.Share
		}
		if w.n > 0 {
			row.Min, row.Median, row.P95, row.P99, row.Max = &w.min, w.at(0.5), w.at(0.95), w.at(0.99), &w.max
		}
		d.Rows = append(d.Rows, row)
	}
	if w := r.worst; w.seed != 0 {
		s := &r.rows[w.row]
		d.Worst = &RehearsalSeed{Seed: w.seed, Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Value: w.value, Limit: s.Limit}
	}
	return d
}

// share of the seeds.
func (r *Rehearsed) share(n int64) float64 { return float64(n) / float64(max(r.Seeds, 1)) }

// at is the value that a share p of the seeds does not exceed.
func (w *rowSeeds) at(p float64) *float64 {
	v := w.quantile(p, w.n)
	if w.Unit == verdict.UnitCount {
		v = math.Round(v)
	}
	return &v
}

// Measured reports that some seed measured each row that a rehearsal can measure: no data is never a yes.
func (d *Rehearsal) Measured() bool {
	return !slices.ContainsFunc(d.Rows, func(r RehearsalRow) bool { return r.Seeds == 0 && !r.question.LiveOnly() })
}

// Provoked reports that every expectation was met in each seed.
func (d *Rehearsal) Provoked() bool {
	return !slices.ContainsFunc(d.Expected, func(x RehearsedExpectation) bool { return x.Missed > 0 })
}

// Locks are the sums of the rehearsed experiment with what the seeds gave.
func (r *Rehearsed) Locks() []LockSums {
	out := LockSumsOf(r.of)
	for i := range out {
		s := &out[i]
		class, _ := declaredClass(r.of.Faults, s.Lock)
		s.Seeds = r.lock(s.Lock).sums(class, s.Promises)
	}
	return out
}

func (l *lockSeeds) sums(class string, promises []PromiseSum) *SeedSums {
	t := l.after(class)
	s := l.SeedSums
	s.Takeovers, s.Open, s.Met = t.n+t.open, t.open, []PromiseSeed{}
	if l.ticks > 0 {
		every := float64(l.ticked) / float64(l.ticks) / 1e9
		s.TickEvery = &every
	}
	if t.n > 0 {
		mean := float64(t.sum) / 1e9 / float64(t.n)
		off := t.deviation(mean) / math.Sqrt(float64(t.n))
		s.Min, s.Mean, s.Error, s.Max = &t.min, &mean, &off, &t.max
	}
	for k, p := range promises {
		m := PromiseSeed{Limit: p.Limit}
		if all := t.n + t.open; all > 0 {
			share := float64(t.met[k]) / float64(all)
			m.Share = &share
		}
		s.Met = append(s.Met, m)
	}
	return &s
}

// Prediction is what a live run records of it: its takeovers, lock by lock.
func (r *Rehearsed) Prediction() *history.Prediction {
	out := &history.Prediction{Seeds: r.Seeds}
	for _, lock := range slices.Sorted(maps.Keys(r.locks)) {
		of := r.locks[lock].takeovers
		for _, class := range slices.Sorted(maps.Keys(of)) {
			if t := of[class]; t.n+t.open > 0 {
				out.Takeovers = append(out.Takeovers, t.predicted(lock, class))
			}
		}
	}
	return out
}

func (t *takeoverSeeds) predicted(lock, class string) history.Predicted {
	all := t.n + t.open
	at := func(p float64) int64 {
		if t.n == 0 {
			return figures.Nanoseconds(t.lo)
		}
		return figures.Nanoseconds(t.quantile(p, all))
	}
	p := history.Predicted{Lock: lock, Class: class, Values: all, Open: t.open, Lo: figures.Nanoseconds(t.lo), P50: at(0.5), P95: at(0.95)}
	if t.open == 0 {
		hi := figures.Nanoseconds(t.hi)
		p.Hi = &hi
	}
	return p
}
