package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Every place of a range beside a limit, and what each kind of bound makes of it.
func TestWordOfABound(t *testing.T) {
	const p, f, i = verdict.Pass, verdict.Fail, verdict.Inconclusive
	for _, c := range []struct {
		v                        facts.Dur
		atMost, atLeast, exactly verdict.Verdict
	}{
		{facts.Dur{Lo: 3, Hi: 4}, p, f, f},
		{facts.Dur{Lo: 3, Hi: 5}, p, i, i},
		{facts.Dur{Lo: 5, Hi: 5}, p, p, p},
		{facts.Dur{Lo: 4, Hi: 6}, i, i, i},
		{facts.Dur{Lo: 5, Hi: 6}, i, p, i},
		{facts.Dur{Lo: 6, Hi: 7}, f, p, f},
		{facts.Dur{Lo: 0, Hi: facts.Open}, i, i, i},
		{facts.Dur{Lo: 5, Hi: facts.Open}, i, p, i},
		{facts.Dur{Lo: 6, Hi: facts.Open}, f, p, f},
	} {
		limit := facts.Dur{Lo: 5, Hi: 5}
		for ask, want := range map[verdict.Ask]verdict.Verdict{verdict.AtMost: c.atMost, verdict.AtLeast: c.atLeast, verdict.Exactly: c.exactly} {
			if got := word(ask, c.v, limit); got != want {
				t.Errorf("%v, %q 5: %s, want %s", c.v, ask, got, want)
			}
		}
	}
	for _, c := range []struct { // a share of a range: [4, 6]
		v               facts.Dur
		atMost, atLeast verdict.Verdict
	}{
		{facts.Dur{Lo: 3, Hi: 4}, p, i}, {facts.Dur{Lo: 3, Hi: 3}, p, f}, {facts.Dur{Lo: 4, Hi: 5}, i, i}, {facts.Dur{Lo: 5, Hi: 6}, i, i}, {facts.Dur{Lo: 6, Hi: 6}, i, p}, {facts.Dur{Lo: 7, Hi: 9}, f, p}, {facts.Dur{Lo: 0, Hi: facts.Open}, i, i},
	} {
		limit := facts.Dur{Lo: 4, Hi: 6}
		if got := word(verdict.AtMost, c.v, limit); got != c.atMost {
			t.Errorf("%v, at most [4, 6]: %s, want %s", c.v, got, c.atMost)
		}
		if got := word(verdict.AtLeast, c.v, limit); got != c.atLeast {
			t.Errorf("%v, at least [4, 6]: %s, want %s", c.v, got, c.atLeast)
		}
	}
}

// What a recorded history says to limits of every form.
func TestLimitsOfEveryForm(t *testing.T) {
	second := time.Second
	count := func(b *experiments.Bound[int]) *experiments.CountLimit { return &experiments.CountLimit{Bound: *b} }
	share := func(s float64) *float64 { return &s }
	exactly := func(n int) *experiments.Bound[int] { return &experiments.Bound[int]{Exactly: &n} }
	for _, c := range []struct {
		says, history string
		slo           experiments.SLO
		measure       string
		want          verdict.Verdict
		why           string
	}{
		{"given up once, and it should", "burst-standard", experiments.SLO{Abandonments: count(atLeast(1))}, "abandonments", verdict.Pass, ""},
		{"given up once, and it should twice", "burst-standard", experiments.SLO{Abandonments: count(atLeast(2))}, "abandonments", verdict.Fail, "asks for at least 2"},
		{"given up exactly once", "burst-standard", experiments.SLO{Abandonments: count(exactly(1))}, "abandonments", verdict.Pass, ""},
		{"never given up, they say", "burst-standard", experiments.SLO{Abandonments: count(exactly(0))}, "abandonments", verdict.Fail, "1 of"},
		{"late once", "burst-legacy-count", experiments.SLO{Abandonment: &experiments.AbandonmentLimits{Late: atLeast(1)}}, "abandonment.late", verdict.Pass, ""},
		{"no missed one among them", "burst-legacy-count", experiments.SLO{Abandonment: &experiments.AbandonmentLimits{Missed: atLeast(1)}}, "abandonment.missed", verdict.Fail, "asks for at least 1"},
		{"stopped no earlier than this", "burst-standard", experiments.SLO{FenceLag: atLeast(-2 * second)}, "fence_lag", verdict.Pass, ""},
		{"stopped earlier than this", "burst-standard", experiments.SLO{FenceLag: atLeast(-second / 2)}, "fence_lag", verdict.Fail, "asks for at least -500ms"},
		{"too slow by less than a millisecond", "good-drill", experiments.SLO{Lock: "leader", Takeover: experiments.Within(6192 * time.Millisecond)}, "takeover.max", verdict.Fail, "1 of 2 kills led to a takeover of more than 6.192s; the slowest took [6.192, 6.194]s"},
		{"as slow as that, or slower: no luck", "good-drill", experiments.SLO{Lock: "leader", Takeover: experiments.Within(6193 * time.Millisecond)}, "takeover.max", verdict.Inconclusive, "The limit 6.193s lies within the measured range"},
		{"the least takeover", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(4 * second)}}, "takeover.min", verdict.Pass, ""},
		{"the least takeover is shorter", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(5 * second)}}, "takeover.min", verdict.Fail, "asks for at least 5s"},
		{"a holder acted on without its key", "gone-early-vanished", experiments.SLO{Vanished: count(experiments.AtMost(0))}, "vanished", verdict.Fail, "1 of 3"},
		{"a key that went with the end of its job", "gone-early-released", experiments.SLO{Vanished: count(experiments.AtMost(0))}, "vanished", verdict.Pass, "0 of 3"},
		{"a key that a fault of ours took", "key-vanishes", experiments.SLO{Vanished: count(experiments.AtMost(0))}, "vanished", verdict.Pass, ""},
		// Each refused acquire waited so long.
		{"waited for less", "lost-acquire-reply-left", experiments.SLO{Busy: &experiments.BusyLimit{Each: experiments.AtMost(time.Microsecond)}}, "busy.each", verdict.Fail, ""},
		{"waited for that long", "lost-acquire-reply-left", experiments.SLO{Busy: &experiments.BusyLimit{Each: experiments.AtMost(time.Hour)}}, "busy.each", verdict.Pass, ""},
		// Rows that compare two locks, on the ranges of both; a share of nothing is not answered, whatever the row's own lock had.
		{"a tenth of another", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: experiments.Bound[time.Duration]{AtMost: share(0.1), Of: "job"}}}, "takeover.max", verdict.Fail, "2 kills"},
		{"ten times another", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: experiments.Bound[time.Duration]{AtMost: share(10), Of: "job"}}}, "takeover.max", verdict.Pass, ""},
		{"at least ten times another", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: experiments.Bound[time.Duration]{AtLeast: share(10), Of: "job"}}}, "takeover.max", verdict.Fail, "at least 10 of what lock job had"},
		{"a share of nothing", "good-drill", experiments.SLO{Lock: "leader", Abandonments: &experiments.CountLimit{Bound: experiments.Bound[int]{AtMost: share(10), Of: "job"}}}, "abandonments", verdict.Inconclusive, "Lock job, which the row compares with, surely had none of it"},
		{"the least takeover may be shorter", "good-drill", experiments.SLO{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(4303 * time.Millisecond)}}, "takeover.min", verdict.Inconclusive, "lies within the measured range"},
	} {
		e, h := load(t, c.history)
		if c.slo.Lock == "" {
			c.slo.Lock = "job"
		}
		e.SLOs = []experiments.SLO{c.slo}
		r := rowOf(t, Judge(e, h), c.measure)
		if r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %s, [%g, %v], %q, want %s and %q", c.says, r.Verdict, r.Lo, r.Hi, r.Why, c.want, c.why)
		}
		if compares := r.Question.Share > 0; compares != (r.Against != nil && r.Against.Lock == r.Question.Of) {
			t.Errorf("%s: beside %+v", c.says, r.Against)
		}
	}
}

// An expectation is counted for each confirmed shot, at the keys that it struck and from then on.
func TestExpectations(t *testing.T) {
	abandoned := experiments.SLO{Lock: "job", Abandonments: &experiments.CountLimit{Bound: *atLeast(1)}}
	of := func(fault string, s experiments.SLO) experiments.SLO {
		s.Fault = fault
		return s
	}
	for _, c := range []struct {
		says, history string
		change        func(*experiments.Experiment, *history.History)
		expect        experiments.SLO
		want          verdict.Verdict
		why           string
	}{
		{"the burst makes it give up", "burst-standard", nil, of("burst", abandoned), verdict.Pass, "Each of 1 shot of fault burst provoked it"},
		{"twice is too much to ask", "burst-standard", nil, experiments.SLO{Fault: "burst", Lock: "job", Abandonments: &experiments.CountLimit{Bound: *atLeast(2)}},
			verdict.Inconclusive, "The drill did not provoke abandonments of lock job of at least 2: 0 of 1 shot of fault burst did so (burst#1: 1 of 2 epochs that worked were given up)"},
		{"another fault", "burst-standard", nil, of("kill", abandoned), verdict.Inconclusive, "The drill did not provoke abandonments of lock job of at least 1: fault kill was never confirmed"},
		{"given up before the fault", "burst-standard", func(_ *experiments.Experiment, h *history.History) {
			for i := range h.Events {
				if ev := &h.Events[i]; ev.Abandon != nil {
					ev.Span, ev.Key, ev.Epoch, ev.Source = history.At(ns(2.5)), "cordum:scheduler:job:j0", "s0", "r2.1"
				}
			}
			with(h)
		}, of("burst", abandoned), verdict.Inconclusive, "The drill did not provoke abandonments of lock job of at least 1: 0 of 1 shot of fault burst did so (burst#1: 0 of 2 epochs that worked were given up)"},
		{"a takeover by each kill", "good-drill", nil, experiments.SLO{Fault: "kill-leader", Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(4 * time.Second)}}, verdict.Pass, "Each of 2 shots"},
		{"one kill was followed sooner", "good-drill", nil, experiments.SLO{Fault: "kill-leader", Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(5 * time.Second)}}, verdict.Inconclusive, "1 of 2 shots of fault kill-leader did"},
		{"it was the machine that was late", "", nil, experiments.SLO{Fault: "kill-leader", Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *atLeast(4 * time.Second)}}, verdict.Inconclusive, "but this machine was late and may account for 1.5s of that"},
	} {
		e, h := lated(t, late{10, waiting(successor, 0)})
		if c.history != "" {
			e, h = load(t, c.history)
		}
		e.Expect = []experiments.SLO{c.expect}
		if c.change != nil {
			c.change(e, h)
		}
		j := Judge(e, h)
		if len(j.Expected) != 1 {
			t.Fatalf("%s: %d rows", c.says, len(j.Expected))
		}
		if r := j.Expected[0]; r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %s, [%g, %v], %q, want %s and %q", c.says, r.Verdict, r.Lo, r.Hi, r.Why, c.want, c.why)
		}
		if c.want != verdict.Pass && j.ExitCode == verdict.ExitPass {
			t.Errorf("%s: exit status %d", c.says, j.ExitCode)
		}
	}
}
