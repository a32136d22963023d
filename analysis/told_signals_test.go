package analysis

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Nobody claims what an observed system gives up, nor how its calls were answered: lines and counters tell, as far as they say of how many. What
// neither could see leaves the count open.
func TestMeasuresBySignal(t *testing.T) {
	lines := func(n int) func(*tape) {
		return func(tp *tape) {
			tp.followed(100, 0)
			for i := range n {
				tp.logged(72+float64(i), "r1.1", "seen")
			}
		}
	}
	counted := func(n float64) func(*tape) { // a counter that rises by so many
		return func(tp *tape) {
			tp.scrape(0.5, -1, "endpoint", "counter", 3)
			tp.scrape(72.5, 71.5, "endpoint", "counter", 3+n)
			tp.last(230.01, 229.5, "endpoint", "counter", 3+n)
		}
	}
	both := func(a, b func(*tape)) func(*tape) { return func(tp *tape) { a(tp); b(tp) } }
	told := func(by experiments.Told) func(*experiments.Lock) { return func(l *experiments.Lock) { l.ToldBy = &by } }
	byLog := func(l *experiments.Lock) { l.AbandonedBy = &experiments.Signal{Log: "seen"} }
	byMetric := func(l *experiments.Lock) { l.AbandonedBy = &experiments.Signal{Metric: "abandoned"} }
	givenUp := func(most int) experiments.SLO {
		return experiments.SLO{Abandonments: &experiments.CountLimit{Bound: *experiments.AtMost(most)}}
	}
	share := experiments.AtMost(0.2)
	log, of := &experiments.ToldBy{Log: "seen"}, &experiments.ToldBy{Log: "seen", Of: &experiments.Signal{Metric: "abandoned"}}
	release := experiments.SLO{NotOwned: &experiments.NotOwnedLimits{Release: share}}
	for _, c := range []struct {
		name    string
		write   func(*tape)
		told    func(*experiments.Lock)
		slo     experiments.SLO
		verdict verdict.Verdict
		lo, hi  float64 // hi < 0 = open
	}{
		{"given up within the limit", lines(2), byLog, givenUp(2), verdict.Pass, 2, 2},
		{"given up above the limit", lines(2), byLog, givenUp(1), verdict.Fail, 2, 2},
		{"a truncated log", both(lines(2), func(tp *tape) {
			tp.add(80, 80.2, history.Event{Kind: history.GapKind, Source: "probe:logs", Coverage: &history.Coverage{Probe: facts.ProbeLogs, Lost: true}})
		}), byLog, givenUp(2), verdict.Inconclusive, 2, -1},
		{"a counter of two series", func(tp *tape) {
			tp.scrape(0.5, -1, "endpoint", "counter", 3, 0)
			tp.scrape(72.5, 71.5, "endpoint", "counter", 4, 1)
			tp.last(230.01, 229.5, "endpoint", "counter", 4, 1)
		}, byMetric, givenUp(1), verdict.Fail, 2, 2},
		{"a counter whose last scrape failed", func(tp *tape) {
			tp.scrape(0.5, -1, "endpoint", "counter", 3, 0)
			tp.scrape(72.5, 71.5, "endpoint", "counter", 4, 0)
		}, byMetric, givenUp(1), verdict.Inconclusive, 1, -1},
		{"a value that is no count", func(tp *tape) {
			tp.scrape(0.5, -1, "endpoint", "counter", 0)
			tp.last(230.01, 229.5, "endpoint", "counter", 0.5)
		}, byMetric, givenUp(1), verdict.Inconclusive, 0, -1},
		{"no line", lines(0), told(experiments.Told{NotOwnedRelease: log}), release, verdict.Pass, 0, 0},
		{"two lines of nobody knows how many", lines(2), told(experiments.Told{NotOwnedRelease: log}), release, verdict.Inconclusive, 0, 1},
		{"and none is allowed", lines(2), told(experiments.Told{NotOwnedRelease: log}), experiments.SLO{NotOwned: &experiments.NotOwnedLimits{Release: experiments.AtMost(0.0)}}, verdict.Fail, 0, 1},
		{"two of twenty", both(lines(2), counted(20)), told(experiments.Told{NotOwnedRelease: of}), release, verdict.Pass, .1, .1},
		{"two of five", both(lines(2), counted(5)), told(experiments.Told{NotOwnedRelease: of}), release, verdict.Fail, .4, .4},
		{"none of none", both(lines(0), counted(0)), told(experiments.Told{NotOwnedRelease: of}), release, verdict.Inconclusive, 0, 0},
		{"renewals, two of five", both(lines(2), counted(5)), told(experiments.Told{NotOwnedRenew: of}), experiments.SLO{NotOwned: &experiments.NotOwnedLimits{Renew: share}}, verdict.Fail, .4, .4},
		{"releases that failed, two of twenty", both(lines(2), counted(20)), told(experiments.Told{FailedReleases: of}), experiments.SLO{FailedReleases: &experiments.FailedReleasesLimits{Calls: share}}, verdict.Pass, .1, .1},
		{"releases that failed, two of five", both(lines(2), counted(5)), told(experiments.Told{FailedReleases: of}), experiments.SLO{FailedReleases: &experiments.FailedReleasesLimits{Calls: share}}, verdict.Fail, .4, .4},
		{"refused three times", lines(3), told(experiments.Told{Busy: log}), experiments.SLO{Busy: &experiments.BusyLimit{Count: experiments.AtMost(2)}}, verdict.Fail, 3, 3},
		{"waits of 3 s in all", counted(3), told(experiments.Told{Wait: &experiments.ToldBy{Metric: "abandoned", Of: &experiments.Signal{Metric: "abandoned"}}}), experiments.SLO{Wait: &experiments.ClassLimits{DurationLimits: *experiments.Within(4 * time.Second)}}, verdict.Pass, 1, 3},
		{"of which one may be too long", counted(3), told(experiments.Told{Wait: &experiments.ToldBy{Metric: "abandoned", Of: &experiments.Signal{Metric: "abandoned"}}}), experiments.SLO{Wait: &experiments.ClassLimits{DurationLimits: *experiments.Within(2 * time.Second)}}, verdict.Inconclusive, 1, 3},
		{"of which one is too long", counted(3), told(experiments.Told{Wait: &experiments.ToldBy{Metric: "abandoned", Of: &experiments.Signal{Metric: "abandoned"}}}), experiments.SLO{Wait: &experiments.ClassLimits{DurationLimits: *experiments.Within(500 * time.Millisecond)}}, verdict.Fail, 1, 3},
		{"nobody waited", counted(0), told(experiments.Told{Wait: &experiments.ToldBy{Metric: "abandoned", Of: &experiments.Signal{Metric: "abandoned"}}}), experiments.SLO{Wait: &experiments.ClassLimits{DurationLimits: *experiments.Within(2 * time.Second)}}, verdict.Inconclusive, 0, 0},
		{"a counter that was never read", lines(2), told(experiments.Told{NotOwnedRelease: of}), release, verdict.Inconclusive, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tp := burst(false)
			c.write(tp)
			h := tp.history(t)
			e, _ := load(t, "metrics-agree")
			e.Probes.Logs = &experiments.Logs{MaxGap: 2 * time.Second, Patterns: map[string]string{"seen": "x"}}
			e.Probes.Metrics[0].Series = "seen_total"
			c.told(e.Lock("job"))
			c.slo.Lock = "job"
			e.SLOs = []experiments.SLO{c.slo}
			row := Judge(e, h).SLOs[0]
			if row.Verdict != c.verdict || !near(row.Lo, c.lo) || !near(orOpen(row.Hi), c.hi) {
				t.Errorf("%s [%g, %g]: %s %s", row.Verdict, row.Lo, orOpen(row.Hi), row.Why, row.Next)
			}
		})
	}
}
