package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// scrape records what a look at a target showed, with one series a value; prev is when the look before it was, < 0 = there was none.
func (t *tape) scrape(at, prev float64, target, kind string, values ...float64) {
	s := &history.Sample{Metric: "abandoned", Target: target, Type: kind}
	for i, v := range values {
		reason := []string{"count", "deadline"}[i]
		s.Values = append(s.Values, history.Value{Labels: map[string]string{"namespace": "job", "reason": reason}, Value: history.Number(v)})
	}
	t.sample(at, prev, s)
}

func (t *tape) sample(at, prev float64, s *history.Sample) {
	if prev >= 0 {
		s.Prev = &history.Span{From: ns(prev), To: ns(prev + 2*ms)}
	}
	t.add(at, at+2*ms, history.Event{Kind: history.SampleKind, Source: "probe:metrics", Sample: s})
}

// last is the final look at a target.
func (t *tape) last(at, prev float64, target, kind string, values ...float64) {
	t.scrape(at, prev, target, kind, values...)
	t.events[len(t.events)-1].Sample.Final = true
}

// metrics is the burst in which r1.1 gives one job up, at 72 s, and its counter says so, or does not.
func metrics(counted float64) *tape {
	t := burst(false)
	t.scrape(0.5, -1, "r1.1", "counter", 0, 0)
	t.scrape(0.5, -1, "r2.1", "counter", 0, 0)
	if counted > 0 {
		t.scrape(72.5, 71.5, "r1.1", "counter", counted, 0)
	}
	t.last(230.01, 229.5, "r1.1", "counter", counted, 0)
	t.last(230.01, 229.5, "r2.1", "counter", 0, 0)
	return t
}

// promise judges a tape by one promise about its metric.
func promise(t *testing.T, tp *tape, change func(*experiments.Metric), text string) (verdict.SLOResult, *verdict.Judgement) {
	t.Helper()
	h := tp.history(t)
	e, _ := load(t, "metrics-agree")
	data, err := experiments.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(data), "slos:")
	e, err = experiments.Parse("promise.yaml", []byte(string(data[:from])+"slos:\n  - {lock: job, metric: {name: abandoned, "+text+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&e.Probes.Metrics[0])
	}
	j := Judge(e, h)
	return j.SLOs[0], j
}

func TestMetricPromises(t *testing.T) {
	other := func(m *experiments.Metric) { m.Series = "some_total" } // nothing in the history bounds it
	plain := func() *tape { return burst(false) }
	for _, c := range []struct {
		name    string
		tape    func() *tape
		change  func(*experiments.Metric)
		promise string
		verdict verdict.Verdict
		lo, hi  float64 // hi < 0: open
		says    string
	}{
		{"kept", func() *tape { return metrics(1) }, nil, "delta: 1", verdict.Pass, 1, 1, ""},
		{"contradicted by the history", func() *tape { return metrics(0) }, nil, "delta: 1", verdict.Inconclusive, 0, 0, "but its events show 1"},
		{"broken", func() *tape { return metrics(2) }, nil, "delta: 1", verdict.Fail, 2, 2, "rose by at least 2"},
		{"no series", func() *tape {
			tp := plain()
			tp.last(230.01, 0.5, "r1.1", "")
			tp.last(230.01, 0.5, "r2.1", "")
			return tp
		},
			nil, "delta: 0", verdict.Inconclusive, 0, -1, "does not make it 0"},
		{"no series, which means 0", func() *tape {
			tp := plain()
			tp.last(230.01, 0.5, "r1.1", "")
			tp.last(230.01, 0.5, "r2.1", "")
			return tp
		},
			nil, "delta: 0, absent_means: zero", verdict.Pass, 0, 0, ""},
		{"nobody was scraped", plain, nil, "delta: 0", verdict.Inconclusive, 0, -1, "No target has ever shown"},
		{"no gauge was ever shown", plain, other, "max: 1", verdict.Inconclusive, 0, -1, "No target has ever shown"},
		{"one replica without metrics", func() *tape {
			tp := metrics(0)
			tp.sample(0.5, -1, &history.Sample{Metric: "abandoned", Target: "r3.1", Gone: history.GoneNoMetrics})
			return tp
		}, other, "delta: 1", verdict.Inconclusive, 0, -1, "r3.1 serves no metrics"},
		{"killed, and nothing bounds it", func() *tape { return killed(1) }, other, "delta: 3", verdict.Inconclusive, 2, -1, "A process that was killed may have counted more"},
		{"killed, and already too many", func() *tape { return killed(5) }, other, "delta: 3", verdict.Fail, 6, -1, ""},
		{"killed, and the history bounds it", func() *tape { return killed(0) }, nil, "delta: 3", verdict.Pass, 1, 1, ""},
		{"killed, and bounded by renewals that did not fail", func() *tape { return killed(0) },
			func(m *experiments.Metric) { m.Series = "lockcore_renew_budget_exceeded_total" }, "delta: 1", verdict.Pass, 1, 1, ""},
		{"killed before the first scrape", func() *tape {
			tp := metrics(0)
			tp.sample(100, -1, &history.Sample{Metric: "abandoned", Target: "r3.1", Gone: history.GoneExited})
			return tp
		}, other, "delta: 0", verdict.Inconclusive, 0, -1, ""},
		{"a counter that begins again", func() *tape {
			tp := plain()
			tp.scrape(1, -1, "endpoint", "counter", 7)
			tp.scrape(50, 49, "endpoint", "counter", 9)
			tp.scrape(60, 59, "endpoint", "counter", 1)
			tp.last(230.01, 229, "endpoint", "counter", 1)
			return tp
		}, other, "delta: 10", verdict.Inconclusive, 3, -1, ""},
		{"a series that appears", func() *tape {
			tp := plain()
			tp.scrape(1, -1, "endpoint", "counter")
			tp.scrape(50, 49, "endpoint", "counter", 4)
			tp.last(230.01, 229, "endpoint", "counter", 6)
			return tp
		}, other, "delta: 5", verdict.Inconclusive, 2, 6, "lies within"},
		{"what came before the faults", func() *tape {
			tp := plain()
			tp.scrape(1, -1, "endpoint", "counter", 100)
			tp.scrape(5.5, 4.5, "endpoint", "counter", 103) // the faults begin at 5
			tp.last(230.01, 229, "endpoint", "counter", 103)
			return tp
		}, other, "delta: 2", verdict.Inconclusive, 0, 3, "lies within"},
		{"a rate", func() *tape {
			tp := plain()
			tp.scrape(1, -1, "endpoint", "counter", 100)
			tp.scrape(100, 99, "endpoint", "counter", 550)
			tp.last(230.01, 229, "endpoint", "counter", 550)
			return tp
		}, other, "rate: 2.1", verdict.Pass, 2, 2, ""},
		{"a rate of a gauge", func() *tape { tp := plain(); tp.last(230.01, -1, "endpoint", "gauge", 1); return tp },
			other, "rate: 1", verdict.Inconclusive, 0, -2, "is a gauge"},
		{"a gauge", func() *tape { return gauge(2) }, other, "max: 2", verdict.Pass, 2, 2, ""},
		{"a gauge that was too high once", func() *tape { return gauge(3) }, other, "max: 2", verdict.Fail, 3, 3, ""},
		{"a gauge whose scrapes came late", func() *tape { return unscraped(false, "limit 2s") }, other, "max: 2", verdict.Inconclusive, 2, 2, "Metric abandoned was not scraped for 30s"},
		{"a gauge whose scrapes failed", func() *tape { return unscraped(true, "connection refused") }, other, "max: 2", verdict.Inconclusive, 2, 2, "connection refused"},
		{"a gauge that must be 0", func() *tape { return gauge(0) }, other, "max: 0", verdict.Inconclusive, 0, -1, "at 1 target. Nobody sees a peak between two scrapes, so a gauge that must be 0 is never a pass."},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := promise(t, c.tape(), c.change, c.promise)
			if r.Verdict != c.verdict || !strings.Contains(r.Why, c.says) {
				t.Errorf("%s: %s, want %s with %q", r.Verdict, r.Why, c.verdict, c.says)
			}
			if c.hi == -2 {
				return
			}
			near := func(a, b float64) bool { return a > b-1e-3 && a < b+1e-3 }
			if !near(r.Lo, c.lo) || (r.Hi == nil) != (c.hi < 0) || r.Hi != nil && !near(*r.Hi, c.hi) {
				t.Errorf("measured %+v, want [%g, %g]", r, c.lo, c.hi)
			}
		})
	}
}

// killed is the burst with a third replica that had counted so many when it was killed.
func killed(counted float64) *tape {
	t := metrics(1)
	t.add(6, 6.01, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r3", Incarnation: "r3.1", PID: 1}})
	t.scrape(7, -1, "r3.1", "counter", counted)
	t.sample(101, 100, &history.Sample{Metric: "abandoned", Target: "r3.1", Gone: history.GoneExited})
	t.add(100.5, 100.6, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r3", Incarnation: "r3.1", Exit: "signal: killed"}})
	return t
}

// gauge is an endpoint that stood at top for a while, and was scraped every second.
func gauge(top float64) *tape {
	t := burst(false)
	t.scrape(1, -1, "endpoint", "gauge", 0)
	if top > 0 {
		t.scrape(50, 49, "endpoint", "gauge", top)
		t.scrape(51, 50, "endpoint", "gauge", 0)
	}
	t.last(230.01, 229, "endpoint", "gauge", 0)
	t.add(0.5, 230.1, history.Event{Kind: history.CoverageKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: "metric:abandoned", Samples: 230}})
	return t
}

// unscraped is a gauge that was not scraped for a while.
func unscraped(failed bool, why string) *tape {
	t := gauge(2)
	t.add(100, 130, history.Event{Kind: history.GapKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: "metric:abandoned", Failed: failed, Why: why}})
	return t
}

// What the replicas counted and what they said must be the same, up to each one's last scrape.
func TestMetricAgreesWithHistory(t *testing.T) {
	for _, c := range []struct {
		name  string
		tape  func() *tape
		finds string
	}{
		{"agrees", func() *tape { return metrics(1) }, ""},
		{"counted too few", func() *tape { return metrics(0) }, "replica r1.1: metric abandoned counted 0 of lock job by T+230.0s, but its events show 1"},
		{"counted too many", func() *tape { return metrics(2) }, "counted 2 of lock job"},
		{"given up after the last scrape", func() *tape {
			tp := burst(false)
			tp.scrape(0.5, -1, "r1.1", "counter", 0, 0)
			tp.sample(72.2, 71.8, &history.Sample{Metric: "abandoned", Target: "r1.1", Gone: history.GoneTimeout})
			return tp
		}, ""},
		{"given up just before the last scrape", func() *tape {
			tp := burst(false)
			tp.scrape(0.5, -1, "r1.1", "counter", 0, 0)
			tp.sample(73, 72.05, &history.Sample{Metric: "abandoned", Target: "r1.1", Gone: history.GoneTimeout})
			return tp
		}, ""},
		{"the same, long before it", func() *tape {
			tp := burst(false)
			tp.scrape(0.5, -1, "r1.1", "counter", 0, 0)
			tp.sample(74, 73, &history.Sample{Metric: "abandoned", Target: "r1.1", Gone: history.GoneTimeout})
			return tp
		}, "counted 0 of lock job by T+73.0s, but its events show 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, j := promise(t, c.tape(), nil, "delta: 1")
			var found []string
			for _, f := range j.Findings {
				if strings.Contains(f.What, "metric") {
					found = append(found, f.What)
				}
			}
			if c.finds == "" && len(found) > 0 || c.finds != "" && (len(found) != 1 || !strings.Contains(found[0], c.finds)) {
				t.Errorf("findings %q, want %q", found, c.finds)
			}
		})
	}
}
