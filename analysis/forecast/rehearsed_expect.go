package forecast

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

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
			r.expected[i].miss(1, seed, s.Why)
		}
	}
}

// miss notes seeds, of which this is the first.
func (x *RehearsedExpectation) miss(n, seed int64, why string) {
	x.Missed += n
	if n > 0 && (x.Seed == 0 || seed < x.Seed) {
		x.Seed, x.Why = seed, why
	}
}

func (r *Rehearsed) mergeExpected(o *Rehearsed) {
	if r.expected == nil {
		r.expected = o.expected
		return
	}
	for i, x := range o.expected {
		r.expected[i].miss(x.Missed, x.Seed, x.Why)
	}
}

// Provoked reports that every expectation was met in each seed.
func (d *Rehearsal) Provoked() bool {
	return !slices.ContainsFunc(d.Expected, func(x RehearsedExpectation) bool { return x.Missed > 0 })
}
