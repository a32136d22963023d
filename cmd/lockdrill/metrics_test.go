package main

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// metricDrill makes renewals of the leader fail until it gives up, then kills a leader; what the replicas count is scraped.
func metricDrill(t *testing.T) string {
	return edit(t, goodDrill,
		"class: standard", "class: legacy_count\n        max_failures: 2",
		"ttl: 400ms", "ttl: 1s", "op_timeout: 50ms", "op_timeout: 300ms", // a busy machine makes no renewal fail
		"    repeat: {count: 2, every: settled}\n    kill: {holder_of: loop, phase: after_renew}",
		"    renew_failures: {holder_of: loop, mode: error, count: 2}\n  - {id: kill-later, at: 2s, kill: {holder_of: loop, phase: after_renew}}",
		"probes:\n", "allow_overlap: [[kill, kill-later]]\nprobes:\n  metrics:\n"+
			"    - {name: abandoned, scrape: replicas, series: lockcore_abandoned_total, labels: {namespace: loop}, every: 100ms}\n"+
			"    - {name: renewals, scrape: replicas, series: lockcore_renew_total, every: 100ms}\n",
		"slos:\n", "slos:\n  - {lock: loop, metric: {name: abandoned, delta: 2}}\n  - {lock: loop, metric: {name: renewals, delta: 1}}\n",
	)
}

func rowOf(t *testing.T, j *verdict.Judgement, measure string) verdict.SLOResult {
	t.Helper()
	for _, s := range j.SLOs {
		if s.Measure == measure {
			return s
		}
	}
	t.Fatalf("no row %s in %+v", measure, j.SLOs)
	return verdict.SLOResult{}
}

// A live drill: what replicas count reaches the verdict, a killed one's counter included, and agrees with what they claim.
func TestMetricsAgreeWithTheHistory(t *testing.T) {
	t.Parallel()
	redistest.Need(t)
	o := runDrill(t, metricDrill(t), nil)
	row := rowOf(t, &o.j, "metric.abandoned.delta")
	// On a busy machine the last scrape of the killed replica may come before its abandonment: then the range says so.
	if n := float64(o.j.Counts.Abandonments); row.Verdict != verdict.Pass || row.Hi == nil || row.Lo > n || *row.Hi < n {
		t.Errorf("row %+v with %d abandonments in the history\n%s", row, o.j.Counts.Abandonments, o.text)
	}
	if busy := rowOf(t, &o.j, "metric.renewals.delta"); busy.Verdict != verdict.Fail || busy.Hi != nil {
		t.Errorf("renewals: %+v, want a fail whose upper end died with the killed replica", busy)
	}
	for _, f := range o.j.Findings {
		if strings.Contains(f.What, "metric") {
			t.Errorf("finding: %s", f.What)
		}
	}
}
