package forecast

import (
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// limit is one bound of an SLO on a series.
type Limit struct {
	Name  string  // max, p95
	P     float64 // 0 = max
	Value time.Duration
}

// limitsOf lists the bounds that are set.
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
