package forecast

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

// Resolution of the quantiles of Rehearsed: neighbouring values that differ by less, relatively, are not told apart. Minimum and
// maximum are exact.
const Resolution = 0.002

// Rehearsed gathers the judgements of many rehearsals of one experiment, in memory that does not grow with their number.
type Rehearsed struct {
	Seeds    int64 // rehearsals
	Breached int64 // of these, with at least one row surely above its limit
	rows     []rehearsedRow
	locks    map[string]*lockSeeds
	expected []RehearsedExpectation
	worst    struct {
		seed  int64
		row   int
		by    float64 // how far above its limit, or below (negative), as a share of it
		value float64
		set   bool
	}
}

// rehearsedRow is one SLO row over the seeds.
type rehearsedRow struct {
	verdict.SLOResult // of the first seed: what does not change
	counts            map[int]int64
	n, open           int64
	breaches          int64
	min, max          float64
	maxSeed           int64
}

// Add takes the judgement of one seed. All judgements must be of the same experiment.
func (r *Rehearsed) Add(seed int64, j *verdict.Judgement) {
	if r.rows == nil {
		for _, s := range j.SLOs {
			r.rows = append(r.rows, rehearsedRow{SLOResult: s, counts: map[int]int64{}})
		}
	}
	r.Seeds++
	r.addLocks(j)
	r.addExpected(seed, j)
	breached := false
	for i := range j.SLOs {
		s := &j.SLOs[i]
		if s.Question.LiveOnly() {
			continue
		}
		if breaches(s) {
			breached = true
			r.rows[i].breaches++
		}
		if s.N == 0 && s.Hi == nil { // nothing was measured
			continue
		}
		v := s.Lo
		if s.Hi != nil {
			v = (s.Lo + *s.Hi) / 2
		} else {
			r.rows[i].open++
		}
		r.rows[i].take(seed, v)
		r.rank(seed, i, v, s.Limit, s.Ask)
	}
	if breached {
		r.Breached++
	}
}

// breaches reports a row that is surely broken in its seed. Too little of something counts only where it would have been seen.
func breaches(s *verdict.SLOResult) bool {
	if s.Ask == verdict.AtMost && s.Against == nil {
		return s.Lo > s.Limit
	}
	return s.Verdict == verdict.Fail
}

func (w *rehearsedRow) take(seed int64, v float64) {
	w.counts[bucket(v)]++
	if w.n == 0 || v < w.min {
		w.min = v
	}
	if w.n == 0 || v > w.max || v == w.max && seed < w.maxSeed {
		w.max, w.maxSeed = v, seed
	}
	w.n++
}

// rank keeps the seed that came closest to a breach, or went furthest beyond; of equals the smallest number.
func (r *Rehearsed) rank(seed int64, row int, v, limit float64, ask verdict.Ask) {
	by := -1.0 // as far from a breach as a count can be
	switch {
	case ask == verdict.AtLeast && limit > 0:
		by = (limit - v) / limit
	case ask == verdict.Exactly && limit > 0:
		by = math.Abs(v-limit)/limit - 1
	case limit > 0:
		by = (v - limit) / limit
	case v > limit:
		by = v - limit
	}
	w := &r.worst
	if c := cmp.Compare(by, w.by); !w.set || c > 0 || c == 0 && seed < w.seed {
		w.seed, w.row, w.by, w.value, w.set = seed, row, by, v, true
	}
}

// Merge takes in what another has gathered of other seeds.
func (r *Rehearsed) Merge(o *Rehearsed) {
	r.Seeds += o.Seeds
	r.Breached += o.Breached
	r.mergeLocks(o)
	r.mergeExpected(o)
	if r.rows == nil {
		r.rows, r.worst = o.rows, o.worst
		return
	}
	for i := range o.rows {
		a, b := &r.rows[i], &o.rows[i]
		for k, n := range b.counts {
			a.counts[k] += n
		}
		if b.n > 0 && (a.n == 0 || b.min < a.min) {
			a.min = b.min
		}
		if b.n > 0 && (a.n == 0 || b.max > a.max || b.max == a.max && b.maxSeed < a.maxSeed) {
			a.max, a.maxSeed = b.max, b.maxSeed
		}
		a.n += b.n
		a.open += b.open
		a.breaches += b.breaches
	}
	if w := o.worst; w.set {
		r.rank(w.seed, w.row, w.value, r.rows[w.row].Limit, r.rows[w.row].Ask)
	}
}

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

// middle is a value that is in the bucket.
func middle(n int) float64 {
	if n == 0 {
		return 0
	}
	v := smallest * math.Exp((math.Abs(float64(n))-0.5)*math.Log1p(Resolution))
	if n < 0 {
		return -v
	}
	return v
}

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
	Locks         []RehearsedLock        `json:"locks"` // the sums of each lock, and what the seeds gave
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

// RehearsalSeed is one seed to look at.
type RehearsalSeed struct {
	Seed    int64   `json:"seed"`
	Lock    string  `json:"lock"`
	Measure string  `json:"measure"`
	Unit    string  `json:"unit"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
}

// Document is what was gathered.
func (r *Rehearsed) Document() *Rehearsal {
	d := &Rehearsal{SchemaVersion: 1, Rehearsal: true, Seeds: r.Seeds, Resolution: Resolution, Expected: r.expected, Rows: []RehearsalRow{}, Locks: []RehearsedLock{}}
	if r.Seeds > 0 {
		d.Breach = float64(r.Breached) / float64(r.Seeds)
	}
	for i := range r.rows {
		w := &r.rows[i]
		row := RehearsalRow{question: w.Question, Lock: w.Lock, Measure: w.Measure, Unit: w.Unit, Ask: w.Ask, Limit: w.Limit, Seeds: w.n, Open: w.open,
			Breach: float64(w.breaches) / float64(r.Seeds), Worst: w.maxSeed}
		if w.Against != nil {
			row.Of, row.Share = w.Against.Lock, w.Against.Share
		}
		if w.n > 0 {
			lo, hi := w.min, w.max
			row.Min, row.Median, row.P95, row.P99, row.Max = &lo, w.quantile(0.5), w.quantile(0.95), w.quantile(0.99), &hi
		}
		d.Rows = append(d.Rows, row)
	}
	if w := r.worst; w.set {
		s := &r.rows[w.row]
		d.Worst = &RehearsalSeed{Seed: w.seed, Lock: s.Lock, Measure: s.Measure, Unit: s.Unit, Value: w.value, Limit: s.Limit}
	}
	return d
}

// quantile is the value that a share p of the seeds does not exceed.
func (w *rehearsedRow) quantile(p float64) *float64 {
	need := int64(math.Ceil(p * float64(w.n)))
	for _, k := range slices.Sorted(maps.Keys(w.counts)) {
		if need -= w.counts[k]; need <= 0 {
			v := min(max(middle(k), w.min), w.max)
			if w.Unit == verdict.UnitCount {
				v = math.Round(v)
			}
			return &v
		}
	}
	v := w.max
	return &v
}

// Measured reports that some seed measured each row that a rehearsal can measure: no data is never a yes.
func (d *Rehearsal) Measured() bool {
	return !slices.ContainsFunc(d.Rows, func(r RehearsalRow) bool { return r.Seeds == 0 && !r.question.LiveOnly() })
}
