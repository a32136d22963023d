package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// logged is a line of a replica's log that matched.
func (t *tape) logged(at float64, life, pattern string) {
	t.add(at, at+ms, history.Event{Kind: history.LogMatch, Source: life, Match: &history.Match{Pattern: pattern, Text: "..."}})
}

// followed is the coverage of the logs, but for a stretch.
func (t *tape) followed(cut, length float64) {
	for _, s := range [][2]float64{{0, cut}, {cut + length, 231}} {
		t.add(s[0], s[1], history.Event{Kind: history.CoverageKind, Source: "probe:logs", Coverage: &history.Coverage{Probe: facts.ProbeLogs, Samples: 100}})
	}
}

func TestLogPromises(t *testing.T) {
	for _, c := range []struct {
		name    string
		write   func(*tape)
		max     int
		verdict verdict.Verdict
		n       int
		open    bool
		says    string
	}{
		{"kept", func(tp *tape) { tp.followed(100, 0); tp.logged(40, "r1.1", "lost") }, 1, verdict.Pass, 1, false, "1 line matched lost: r1.1 1"},
		{"nothing was said", func(tp *tape) { tp.followed(100, 0); tp.logged(40, "r1.1", "other") }, 0, verdict.Pass, 0, false, "0 lines matched lost"},
		{"broken", func(tp *tape) {
			tp.followed(100, 0)
			for _, r := range []string{"r2.1", "r1.1", "r2.1"} {
				tp.logged(40, r, "lost")
			}
		}, 2, verdict.Fail, 3, false, "3 lines matched lost: r1.1 1, r2.1 2"},
		{"no log was read", func(*tape) {}, 0, verdict.Inconclusive, 0, true, "Probe logs was delayed"},
		{"a log was not followed", func(tp *tape) { tp.followed(100, 3) }, 0, verdict.Inconclusive, 0, true, "delayed 3s"},
		{"not followed for less than max_gap", func(tp *tape) { tp.followed(100, 1) }, 0, verdict.Pass, 0, false, ""},
		{"not followed, and too many already", func(tp *tape) { tp.followed(100, 3); tp.logged(40, "r1.1", "lost") }, 0, verdict.Fail, 1, true, "1 line matched"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tp := burst(false)
			c.write(tp)
			h := tp.history(t)
			e, _ := load(t, "metrics-agree")
			e.Probes.Logs = &experiments.Logs{MaxGap: 2 * time.Second, Patterns: map[string]string{"lost": "x", "other": "y"}}
			e.SLOs = []experiments.SLO{{Lock: "job", Logs: &experiments.LogLimit{Pattern: "lost", Bound: *experiments.AtMost(c.max)}}}
			row := Judge(e, h).SLOs[0]
			if row.Verdict != c.verdict || row.N != c.n || row.Lo != float64(c.n) || (row.Hi == nil) != c.open || row.Measure != "logs.lost" || len(row.Evidence) != c.n {
				t.Errorf("%+v", row)
			}
			if !strings.Contains(row.Why, c.says) {
				t.Errorf("it says %q, want %q", row.Why, c.says)
			}
		})
	}
}

// What must be provoked counts in the stretch of the shot alone, by the brackets of the lines.
func TestSignalsOfAShot(t *testing.T) {
	lines := signals.Lines{
		{Pattern: "p", Source: "r1.1", Span: history.Span{From: 1, To: 4}, N: 1},
		{Pattern: "p", Source: "r1.1", Span: history.Span{From: 5, To: 6}, N: 2},
		{Pattern: "q", Source: "r1.1", Span: history.Span{From: 5, To: 6}, N: 3},
		{Pattern: "p", Source: "r1.1", Span: history.Span{From: 8, To: 12}, N: 4},
		{Pattern: "p", Source: "r1.1", Span: history.Span{From: 11, To: 12}, N: 5},
	}
	if maybe, surely := lines.Within("p", history.Span{From: 3, To: 10}); len(maybe) != 3 || surely != 1 {
		t.Errorf("%d lines, %d surely", len(maybe), surely)
	}
	all := signals.Samples{}
	for i, v := range []float64{2, 5, 9} {
		at := int64(10 * (i + 1))
		all.Take(&history.Event{N: at, Span: history.Span{From: at, To: at + 1}, Sample: &history.Sample{Metric: "m", Target: "t", Values: []history.Value{{Value: history.Number(v)}}}})
	}
	for _, c := range []struct {
		from, to int64
		want     signals.Reading
	}{{15, 25, signals.Reading{Lo: 0, Hi: 7}}, {15, 31, signals.Reading{Lo: 4, Hi: 7}}, {15, 10_000, signals.Reading{Lo: 4, Hi: 7}}, {40, 50, signals.Reading{}}} {
		if got := all["m"][0].Rise(history.Span{From: c.from, To: c.to}, false); got != c.want {
			t.Errorf("within [%d, %d]: %+v, want %+v", c.from, c.to, got, c.want)
		}
	}
}
