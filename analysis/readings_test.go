package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A row about a metric is answered only by what was read in the time that it speaks of, and by what was read as it was.
func TestMetricsThatWereNotRead(t *testing.T) {
	other := func(m *experiments.Metric) { m.Series = "some_total" }
	told := func(kind string, states ...state) func() *tape {
		return func() *tape {
			tp := burst(false)
			tp.shows("abandoned", kind, states...)
			tp.add(0.4, 230.1, history.Event{Kind: history.CoverageKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: "metric:abandoned", Samples: 230, Largest: 1e9, Final: true}})
			return tp
		}
	}
	partial := func(from, to float64, states ...state) func() *tape {
		return func() *tape {
			tp := told("counter", states...)()
			tp.add(from, to, history.Event{Kind: history.GapKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: "metric:abandoned", Why: "a store is away", Failed: true, Partial: true}})
			return tp
		}
	}
	one := stood(0.5, 1)
	end := stood(230.01, 1)
	for _, c := range []struct {
		name    string
		tape    func() *tape
		promise string
		verdict verdict.Verdict
		says    string
	}{
		// The faults begin at 5; 4 s without a reading are tolerated at one a second.
		{"unreadable for 3 s", told("gauge", one, unreadable(25, "HTTP 500"), stood(28, 1), end), "max: 5", verdict.Pass, ""},
		{"unreadable for 7 s", told("gauge", one, unreadable(25, "HTTP 500"), stood(32, 1), end), "max: 5", verdict.Inconclusive, "could not be read at endpoint for 8s from T+24.0s: HTTP 500"},
		{"for two reasons, one after the other", told("gauge", one, unreadable(25, "HTTP 500"), unreadable(28, "it closed the connection"), stood(32, 1), end), "max: 5",
			verdict.Inconclusive, "for 8s from T+24.0s: HTTP 500"},
		{"unreadable of no type", told("", one, unreadable(25, "HTTP 500"), stood(32, 1), end), "max: 5", verdict.Inconclusive, "could not be read"},
		{"unreadable, and too high all the same", told("gauge", one, stood(20, 9), unreadable(25, "HTTP 500"), stood(32, 1), end), "max: 5", verdict.Fail, ""},
		{"unreadable, and high enough all the same", told("gauge", one, stood(20, 9), unreadable(25, "HTTP 500"), stood(32, 1), end), "max: {min: 5}", verdict.Inconclusive, "could not be read"},
		{"unreadable before the faults", told("gauge", unreadable(0.1, "HTTP 500"), stood(4.5, 1), end), "max: 5", verdict.Pass, ""},
		{"gone for 7 s", told("gauge", one, absent(25), stood(32, 1), end), "max: 5", verdict.Inconclusive, "it has no such series"},
		{"gone for 7 s, which means zero", told("gauge", one, absent(25), stood(32, 1), end), "max: 5, absent_means: zero", verdict.Pass, ""},
		{"NaN once", told("gauge", one, stood(25, math.NaN()), stood(26, 1), end), "max: 5", verdict.Inconclusive, "showed NaN at endpoint at T+25.0s"},
		{"NaN throughout, where absent means zero", told("", stood(0.5, math.NaN()), stood(230.01, math.NaN())), "max: 5, absent_means: zero", verdict.Inconclusive, "showed NaN"},
		{"NaN before the faults", told("gauge", stood(0.5, math.NaN()), stood(4, 1), end), "max: 5", verdict.Pass, ""},
		{"plus infinity", told("gauge", one, stood(25, math.Inf(1)), stood(26, 1), end), "max: 5", verdict.Fail, "+Inf"},
		{"minus infinity", told("gauge", stood(0.5, math.Inf(-1)), stood(230.01, math.Inf(-1))), "max: 5", verdict.Pass, ""},
		{"minus infinity is below", told("gauge", stood(0.5, math.Inf(-1)), stood(230.01, math.Inf(-1))), "max: {min: 5}", verdict.Fail, ""},
		{"below zero", told("gauge", stood(0.5, -1), stood(230.01, -1)), "max: 5", verdict.Pass, "was at most -1"},
		{"below zero is not zero", told("", stood(0.5, -1), stood(230.01, -1)), "max: {exactly: 0}", verdict.Fail, "was at most -1"},

		{"a counter that was not read in between", told("counter", one, unreadable(25, "HTTP 500"), stood(60, 2), stood(230.01, 2)), "delta: 2", verdict.Pass, ""},
		{"a counter that was not read at the end", told("counter", one, stood(60, 2), unreadable(200, "HTTP 500"), unreadable(230.01, "HTTP 500")), "delta: 2", verdict.Inconclusive,
			"endpoint did not answer at the end (HTTP 500)."},
		{"a counter that was not read at the end, for a reason that was new then", told("counter", one, unreadable(100, "HTTP 401"), stood(150, 2), unreadable(200, "HTTP 500")), "delta: 2",
			verdict.Inconclusive, "endpoint did not answer at the end (HTTP 500)."},
		{"a counter that was never read, although absent means zero", told("", unreadable(0.5, "HTTP 404"), unreadable(230.01, "HTTP 404")), "delta: 2, absent_means: zero", verdict.Inconclusive,
			"endpoint did not answer at the end (HTTP 404)."},
		{"a level that was never read, although absent means zero", told("", unreadable(0.5, "HTTP 404"), unreadable(230.01, "HTTP 404")), "max: 2, absent_means: zero", verdict.Inconclusive,
			"Metric abandoned could not"},
		{"never read", told("", unreadable(0.5, "HTTP 401"), unreadable(230.01, "HTTP 401")), "delta: 2", verdict.Inconclusive, "some_total was never read. At endpoint: HTTP 401."},
		{"a counter that was not read at the beginning: what it rose by then is not the fault's for sure", told("counter", one, unreadable(2, "HTTP 500"), stood(30, 4), stood(230.01, 4)),
			"delta: 2", verdict.Inconclusive, "lies within"},
		{"a counter of NaN", told("counter", one, stood(25, math.NaN()), stood(26, 1), end), "delta: 2", verdict.Inconclusive, "showed NaN"},
		{"a counter that rose to infinity", told("counter", one, stood(25, math.Inf(1)), stood(230.01, math.Inf(1))), "delta: 2", verdict.Fail, "+Inf"},
		{"a counter that was infinite", told("counter", stood(0.5, math.Inf(1)), stood(230.01, math.Inf(1))), "delta: 2", verdict.Inconclusive, "showed +Inf"},

		{"a part of the answer in the middle", partial(20, 60, one, end), "delta: 2", verdict.Pass, ""},
		{"a part of the answer at the end", partial(200, 230.1, one, end), "delta: 2", verdict.Inconclusive, "were not whole for 30.1s from T+200.0s: a store is away"},
		{"a part of the answer at the beginning", partial(0, 20, one, end), "delta: 2", verdict.Inconclusive, "a store is away"},
		{"a part of the answer in the middle, of a level", partial(20, 60, one, end), "max: 2", verdict.Inconclusive, "a store is away"},
		{"a part of the answer for a moment, of a level", partial(20, 23, one, end), "max: 2", verdict.Pass, ""},
		{"a sample of a part", told("gauge", one, stood(20, 1).lacking("a store is away"), stood(30, 1), end), "max: 5", verdict.Inconclusive, "a store is away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, j := promise(t, c.tape(), other, c.promise)
			if r.Verdict != c.verdict || !strings.Contains(r.Why, c.says) || strings.Count(r.Why, "HTTP 404") > 1 {
				t.Errorf("%s [%g, %v]: %s, want %s with %q", r.Verdict, r.Lo, r.Hi, r.Why, c.verdict, c.says)
			}
			for _, m := range r.Missing {
				if absent := strings.Contains(m.Why, "no such series"); m.Code == verdict.MissingReadings && strings.Contains(m.Next, "absent_means") != absent {
					t.Errorf("%s: advises %s", m.Why, m.Next)
				}
			}
			if _, err := j.Marshal(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What to do about a metric that answers nothing is said by what kept it from answering.
func TestAdviceOnAMetricFitsWhatItLacks(t *testing.T) {
	for _, c := range []struct {
		kind          string
		shown         []state
		promise, next string
	}{
		{"", []state{unreadable(0.5, "HTTP 401 Unauthorized"), unreadable(230.01, "HTTP 401 Unauthorized")}, "delta: 2", adviceOnTargets},
		{"counter", []state{absent(0.5), absent(230.01)}, "delta: 2", adviceOnSeries},
		{"gauge", []state{stood(0.5, 1), stood(230.01, 1)}, "delta: 2", adviceOnGauges},
		{"gauge", []state{stood(0.5, 0), stood(230.01, 0)}, "max: 0", adviceOnPeaks},
		{"gauge", []state{stood(0.5, 1), stood(230.01, 1)}, "max: 0", adviceOnSamples},
	} {
		tp := burst(false)
		tp.schema = 3
		tp.shows("abandoned", c.kind, c.shown...)
		tp.add(0.4, 230.1, history.Event{Kind: history.CoverageKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: "metric:abandoned", Samples: 230, Largest: 1e9, Final: true}})
		if r, _ := promise(t, tp, func(m *experiments.Metric) { m.Series = "some_total" }, c.promise); r.Verdict == verdict.Pass || r.Next != c.next {
			t.Errorf("%s (%s): %q, want %q", c.promise, r.Why, r.Next, c.next)
		}
	}
}

// A replica that our own pause keeps standing shows nothing, and cannot change: nothing is missing meanwhile.
func TestAPausedReplicaIsNotBlind(t *testing.T) {
	for _, kind := range []string{"pause-takeover", "burst-standard"} {
		e, h := load(t, kind)
		shot := slices.IndexFunc(h.Events, func(ev history.Event) bool { return ev.Kind == history.FaultApplied })
		f := h.Events[shot]
		begun := f.To
		over := slices.IndexFunc(h.Events, func(ev history.Event) bool { return ev.Kind == history.FaultReverted && ev.Op == f.Op })
		ended := h.Events[over].From
		sample := func(from int64, x history.Sample) history.Event {
			x.Metric, x.Target = "level", f.Fault.Victim
			return history.Event{Kind: history.SampleKind, Source: "probe:metrics", Span: history.Span{From: from, To: from + 1e6}, Sample: &x}
		}
		level := history.Sample{Type: "gauge", Values: []history.Value{{Value: 1}}}
		last := h.Events[len(h.Events)-1].To
		final := level
		final.Final = true
		h.Events = slices.Concat(h.Events[:1], []history.Event{
			sample(1, level), sample(begun+1e8, history.Sample{Gone: history.GoneTimeout, Prev: &history.Span{From: begun - 2e8, To: begun - 1e8}}),
			sample(ended+1e9, level), sample(last-1, final),
			{Kind: history.CoverageKind, Source: "probe:metrics", Span: history.Span{To: last}, Coverage: &history.Coverage{Probe: "metric:level", Samples: 9, Largest: 1}},
		}, h.Events[1:])
		e.Probes.Metrics = append(e.Probes.Metrics, experiments.Metric{Name: "level", Scrape: experiments.ScrapeReplicas, Series: "level", Every: 1e9})
		e.SLOs = []experiments.SLO{{Lock: f.Lock, Metric: &experiments.MetricLimit{Name: "level", Max: experiments.AtMost(5.0)}}}
		r := Judge(e, h).SLOs[0]
		if want := map[bool]verdict.Verdict{true: verdict.Pass, false: verdict.Inconclusive}[kind == "pause-takeover"]; r.Verdict != want {
			t.Errorf("%s: not read for %d ms of the fault: %s, want %s: %s", kind, (ended-begun)/1e6, r.Verdict, want, r.Why)
		}
	}
}

// Without a life of a store nothing passes: nobody knows what it held. A record of an older schema has no numbers, and none is missing.
func TestALifeOfAStoreThatIsMissing(t *testing.T) {
	life := func(n int, at float64) func(*tape) {
		return func(tp *tape) {
			tp.add(at, at+ms, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", RunID: "x", Life: n, Why: "start"}})
		}
	}
	tp := burst(true)
	tp.schema = 3
	life(1, 0.01)(tp)
	h := tp.history(t)
	e, _ := load(t, "burst-standard")
	passes := func(h *history.History) int {
		n := 0
		for _, r := range Judge(e, h).SLOs {
			if r.Verdict == verdict.Pass {
				n++
			}
		}
		return n
	}
	less := *h
	less.Events = slices.DeleteFunc(slices.Clone(h.Events), func(ev history.Event) bool { return ev.Incarnation != nil })
	if all, left := passes(h), passes(&less); all == 0 || left != 0 {
		t.Errorf("%d rows pass, and %d without the only life of the locks' store", all, left)
	}
	less.Header.Schema = 2
	if left := passes(&less); left != passes(h) {
		t.Errorf("%d rows of schema 2 pass, which has no numbers, and %d of schema 3", left, passes(h))
	}
}
