package experiments

import (
	"slices"
	"testing"
	"time"
)

// The questions of a promise as values, in the order of their rows, and what each row is called.
func TestLimits(t *testing.T) {
	second, share, n := time.Second, 0.1, 3
	d := func(v time.Duration) *time.Duration { return &v }
	for _, c := range []struct {
		slo   SLO
		names []string
		want  Limit // the last of them
	}{
		{SLO{Lock: "job", Takeover: &DurationLimits{Bound: Bound[time.Duration]{Max: d(9 * second), Min: d(second), AtMost: &share, Of: "other"}, P50: d(2 * second), P95: d(4 * second)}},
			[]string{"takeover.max", "takeover.p50", "takeover.p95", "takeover.min", "takeover.max"},
			Limit{Lock: "job", Measure: "takeover", Trials: true, Share: 0.1, Of: "other"}},
		{SLO{Lock: "job", Held: &ClassLimits{Class: "batch", DurationLimits: DurationLimits{Bound: Bound[time.Duration]{Exactly: d(0)}, P99: d(second)}}},
			[]string{"held[batch].p99", "held[batch].exactly"}, Limit{Lock: "job", Measure: "held", Class: "batch", Trials: true, Side: SideExact}},
		{SLO{Lock: "job", LockDebt: &DebtLimits{Max: AtMost(second), Waiting: &Bound[time.Duration]{Min: &second}}},
			[]string{"lock_debt.max", "lock_debt.waiter_seconds"}, Limit{Lock: "job", Measure: "lock_debt", Part: "waiter_seconds", Side: SideLeast, At: 1e9}},
		{SLO{Lock: "job", Stranded: &CountLimit{Bound: Bound[int]{Max: &n}, MinJobs: 7}},
			[]string{"stranded"}, Limit{Lock: "job", Measure: "stranded", At: 3, MinJobs: 7}},
		{SLO{Lock: "job", Overlap: &OverlapLimit{Level: "effect", Count: *AtMost(2)}},
			[]string{"overlap.effect"}, Limit{Lock: "job", Measure: "overlap", Part: "effect", At: 2}},
		{SLO{Lock: "job", NotOwned: &NotOwnedLimits{Release: AtMost(0.25)}},
			[]string{"not_owned.release"}, Limit{Lock: "job", Measure: "not_owned", Part: "release", Number: 0.25}},
		{SLO{Lock: "job", Metric: &MetricLimit{Name: "errors.total", Rate: AtMost(1.5)}},
			[]string{"metric.errors.total.rate"}, Limit{Lock: "job", Measure: "metric", Subject: "errors.total", Part: "rate", Number: 1.5}},
		{SLO{Lock: "job", Logs: &LogLimit{Pattern: "lost", Bound: *AtMost(1)}},
			[]string{"logs.lost"}, Limit{Lock: "job", Measure: "logs", Subject: "lost", At: 1}},
		{SLO{Alert: new("Lost"), AlertLimit: AlertLimit{Labels: map[string]string{"severity": "page", "app": "x"}, Within: second, ResolvesWithin: 2 * second}},
			[]string{"alert.Lost{app=x,severity=page}.fires", "alert.Lost{app=x,severity=page}.goes_away"},
			Limit{Measure: "alert", Subject: "Lost{app=x,severity=page}", Part: "goes_away", At: 2e9}},
		{SLO{Alert: new("Lock.*"), AlertLimit: AlertLimit{Silent: true}}, []string{"alert.Lock.*.fired"}, Limit{Measure: "alert", Subject: "Lock.*", Part: "fired"}},
		{SLO{Lock: "job"}, nil, Limit{}},
	} {
		var names []string
		limits := c.slo.Limits()
		for i := range limits {
			names = append(names, limits[i].Name())
			if limits[i].SLO != &c.slo {
				t.Errorf("%s is not of its promise", limits[i].Name())
			}
		}
		if !slices.Equal(names, c.names) {
			t.Errorf("%v, want %v", names, c.names)
		}
		if c.want.SLO = &c.slo; len(limits) > 0 && limits[len(limits)-1] != c.want {
			t.Errorf("%+v, want %+v", limits[len(limits)-1], c.want)
		}
	}
}
