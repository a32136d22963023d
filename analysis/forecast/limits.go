package forecast

import (
	"iter"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// Limit is one bound of an SLO on a series.
type Limit struct {
	Name  string  // max, p95
	P     float64 // 0 = max
	Value time.Duration
}

// LimitsOf lists the bounds that are set.
func LimitsOf(d *experiments.DurationLimits) []Limit {
	if d == nil {
		return nil
	}
	var ls []Limit
	for _, l := range []struct {
		name  string
		p     float64
		value *time.Duration
	}{{"max", 0, d.Max}, {"p50", 0.5, d.P50}, {"p90", 0.9, d.P90}, {"p95", 0.95, d.P95}, {"p99", 0.99, d.P99}} {
		if l.value != nil {
			ls = append(ls, Limit{l.name, l.p, *l.value})
		}
	}
	return ls
}

// limitsOn are the bounds that e promises of a lock's takeovers and tick gaps, each with the SLO that it is of.
func limitsOn(e *experiments.Experiment, lock string) iter.Seq2[*experiments.SLO, Limit] {
	return func(yield func(*experiments.SLO, Limit) bool) {
		for i := range e.SLOs {
			s := &e.SLOs[i]
			if s.Lock != lock {
				continue
			}
			for _, l := range append(LimitsOf(s.Takeover), LimitsOf(s.TickGap)...) {
				if !yield(s, l) {
					return
				}
			}
		}
	}
}
