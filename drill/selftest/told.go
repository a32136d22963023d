package selftest

import (
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/history"
)

// What the system of a scene with Tells tells of itself beside its lines: a counter of jobs that it gives up, a log with a line for each
// renewal that failed, and an alert. Its probes are in the file, as any system's would be.
const (
	givenUp       = "given_up"
	renewalFailed = "renewal_failed"
	lockAlert     = "LockLost"
	telling       = `probes:
  metrics:
    - {name: ` + givenUp + `, scrape: "http://127.0.0.1:9102/metrics", series: jobs_given_up_total}
  logs: {files: [/var/log/jobs.log], patterns: {` + givenUp + `: "lock given up", ` + renewalFailed + `: "renewal failed"}}
  alerts: {url: "http://127.0.0.1:9090"}
`
)

// lookEvery is how often those probes look.
const lookEvery = int64(time.Second)

// told is the record of a rehearsal with what those probes would have seen: nobody gives up a job, and so the counter and the alert rest.
// edit, which may be nil, departs from that.
func told(h *history.History, edit func(*history.Event)) *history.History {
	all := *h
	all.Events = slices.Clone(h.Events)
	add := func(kind history.Kind, probe string, from, to int64, e history.Event) {
		e.Kind, e.Span, e.At, e.Source = kind, history.Span{From: from, To: to}, to, "probe:"+probe
		all.Events = append(all.Events, e)
	}
	end := h.Events[len(h.Events)-1].At
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.Kind == history.RenewReturn && e.Outcome == history.Fail:
			add(history.LogMatch, "logs", e.At, e.At+1, history.Event{Match: &history.Match{Pattern: renewalFailed, Text: "renewal failed", File: "/var/log/jobs.log"}})
		case e.Coverage != nil && e.Coverage.Final:
			end = min(end, e.At)
		}
	}
	for _, probe := range []string{"logs", "alerts"} {
		add(history.CoverageKind, probe, 0, end, history.Event{Coverage: &history.Coverage{Probe: probe, Samples: end / lookEvery, Largest: lookEvery, Final: true}})
	}
	for i, at := range []int64{lookEvery, end / 2, end} {
		before := &history.Span{From: at - lookEvery, To: at - lookEvery + 1}
		if i == 0 {
			before = nil
		}
		add(history.SampleKind, "metrics", at-1, at, history.Event{Sample: &history.Sample{Metric: givenUp, Target: "endpoint", Type: "counter", Values: []history.Value{{}}, Final: at == end, Prev: before}})
		add(history.SampleKind, "alerts", at-1, at, history.Event{Sample: &history.Sample{Metric: history.AlertsFiring, Target: lockAlert, Final: at == end, Prev: before}})
	}
	slices.SortStableFunc(all.Events, func(a, b history.Event) int { return int(a.At - b.At) })
	for i := range all.Events {
		e := &all.Events[i]
		if e.N = int64(i + 1); edit != nil && strings.HasPrefix(e.Source, "probe:") {
			edit(e)
		}
	}
	return &all
}
