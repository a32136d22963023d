package analysis

import (
	"math"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// shows records what the looks at an endpoint showed of a metric: from each instant on a state that lasts until the next, looked at every
// second. The last look is the final one.
func (t *tape) shows(metric, kind string, states ...state) {
	prev := -1.0
	for i, s := range states {
		x := s.Sample
		x.Metric, x.Target, x.Final = metric, "endpoint", i == len(states)-1
		if x.Gone == "" && len(x.Values) > 0 {
			x.Type = kind
		}
		t.sample(s.at, prev, &x)
		if i+1 < len(states) {
			prev = states[i+1].at - 1
		}
	}
}

type state struct {
	at float64
	history.Sample
}

func stood(at, value float64) state {
	return state{at, history.Sample{Values: []history.Value{{Value: history.Number(value)}}}}
}

func absent(at float64) state { return state{at, history.Sample{}} }

func unreadable(at float64, why string) state {
	return state{at, history.Sample{Gone: history.GoneUnreadable, Why: why}}
}

// lacking marks what was shown as part of an answer that is not whole.
func (s state) lacking(what string) state {
	s.Partial = what
	return s
}

// readings is the burst of 20 s to 90 s with metrics of six endpoints, watched every second. guilty: what they showed answers no promise,
// or breaks it; else it keeps them.
func readings(guilty bool) *tape {
	t := burst(false)
	t.schema = 3
	end := 230.01
	if guilty {
		t.says = "metrics that showed NaN, plus infinity and -1, that could not be read or had no series for 7 s of the fault, and a server whose answers were not whole"
		t.shows("nan", "gauge", stood(0.5, math.NaN()), stood(end, math.NaN()))
		t.shows("inf", "gauge", stood(0.5, 1), stood(25, math.Inf(1)), stood(30, 1), stood(end, 1))
		t.shows("below", "", stood(0.5, -1), stood(end, -1))
		t.shows("refused", "gauge", stood(0.5, 1), unreadable(25, "HTTP 401 Unauthorized"), stood(32, 1), stood(end, 1))
		t.shows("gone", "gauge", stood(0.5, 1), absent(25), stood(32, 1), stood(end, 1))
		t.shows("rise", "counter", stood(0.5, 1), stood(22, 1).lacking("store sg-2 is away"), stood(end, 1).lacking("store sg-2 is away"))
		t.add(21, end, history.Event{Kind: history.GapKind, Source: "probe:metrics",
			Coverage: &history.Coverage{Probe: "metric:rise", Why: "store sg-2 is away", Failed: true, Partial: true, Largest: ns(end - 21)}})
	} else {
		t.says = "the same metrics with numbers in the promised range, one that could not be read for 2 s, one that is absent where that means zero, and whole answers"
		t.shows("nan", "gauge", stood(0.5, 0), stood(end, 0))
		t.shows("inf", "gauge", stood(0.5, 1), stood(25, 5), stood(30, 1), stood(end, 1))
		t.shows("below", "", stood(0.5, 0), stood(end, 0))
		t.shows("refused", "gauge", stood(0.5, 1), unreadable(25, "HTTP 401 Unauthorized"), stood(28, 1), stood(end, 1))
		t.shows("gone", "gauge", stood(0.5, 1), absent(25), stood(27, 1), stood(end, 1))
		t.shows("rise", "counter", stood(0.5, 1), stood(40, 3), stood(end, 3))
	}
	for _, m := range []string{"nan", "inf", "below", "refused", "gone", "rise"} {
		t.add(0.4, end, history.Event{Kind: history.CoverageKind, Source: "probe:metrics", Coverage: &history.Coverage{Probe: probeMetric + m, Samples: 230, Largest: 1e9, Final: true}})
	}
	return t
}

// finished is a service of somebody's own whose effects are lines of a log. r1.1 is killed with job 1, which r2.1 ends; job 2 was ended
// before. twice: each end is written again. unread of the ends, the last ones, could not be read.
func finished(twice bool, unread int) *tape {
	t := foreignTape{newTape("a service of somebody's own ends two jobs, the second after a kill")}
	t.schema = 3
	t.events[0].Environment.Fleet = history.FleetObservedProcesses
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.3, history.PhaseSteady)
	t.phase(5, history.PhaseFaults)
	t.holds(6, 7, jobKey("2"), "a2", "r2.1")
	t.holds(8, 18, jobKey("1"), "a1", "r1.1")
	t.effect(8.1, jobKey("1"), said{job: "1", state: "RUN", token: "a1", who: "r1.1"})
	t.kill(10, "kill-job#1", "random", "a1")
	t.holds(18.5, 25, jobKey("1"), "b1", "r2.1")
	type end struct {
		at  float64
		job string
		by  string
		who string
	}
	ends := []end{{6.5, "2", "a2", "r2.1"}, {20, "1", "b1", "r2.1"}}
	if twice {
		t.says += ", and ends each of them twice"
		ends = []end{ends[0], ends[1], {6.6, "2", "a2", "r2.1"}, {20.1, "1", "b1", "r2.1"}}
	}
	for i, x := range ends {
		if i < len(ends)-unread {
			t.effect(x.at, jobKey(x.job), said{job: x.job, state: "DONE", op: t.op("end"), token: x.by, who: x.who})
			continue
		}
		t.add(x.at-20*ms, x.at+ms, history.Event{Kind: history.UnreadKind, Source: "probe:effects:jobs", Unread: &history.Unread{
			Source: "effects:jobs", Count: 1, Reason: history.Unparsable, Detail: "it ends within its JSON", First: "line 3"}})
	}
	if unread > 0 {
		t.says += "; the last lines could not be read"
	}
	t.phase(11, history.PhaseRevert)
	t.phase(11, history.PhaseSettle)
	t.phase(120, history.PhaseFinal)
	for _, p := range []string{experiments.ProbeKeys, "effects:jobs"} {
		t.cover(p, 120)
	}
	t.add(120.4, 120.4, history.Event{Kind: history.RunEnd, Note: &history.Note{What: "completed", OK: true}})
	return t.tape
}
