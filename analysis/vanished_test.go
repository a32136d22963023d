package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A leader of somebody's own that says of itself that it leads, for longer than its release can have taken, did not release.
func TestBeliefOfAVanishedKey(t *testing.T) {
	belief := func(tp foreignTape, prev, at float64, b history.Belief) {
		b.Incarnation, b.By = "r1.1", "metric"
		if prev > 0 {
			b.Prev = &history.Span{From: ns(prev), To: ns(prev + ms)}
		}
		tp.add(at, at+ms, history.Event{Kind: history.BeliefKind, Source: "probe:belief:loop", Lock: "loop", Belief: &b})
	}
	for _, c := range []struct {
		name string
		says func(foreignTape)
		sure bool
	}{
		{"it says nothing", func(foreignTape) {}, false},
		{"it goes on saying so", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true})
			belief(tp, 10.5, 10.6, history.Belief{})
		}, true},
		{"it stopped with its release", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true})
			belief(tp, 8.1, 8.2, history.Belief{})
		}, false},
		{"it may have stopped long before that was seen", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true})
			belief(tp, 7.9, 10.6, history.Belief{})
		}, false},
		{"it cannot be asked any more", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true})
			belief(tp, 7.9, 10.6, history.Belief{Gone: history.GoneTimeout})
		}, false},
		{"it says so only afterwards", func(tp foreignTape) {
			belief(tp, 9, 9.5, history.Belief{Holds: true})
			belief(tp, 10.5, 10.6, history.Belief{})
		}, false},
		{"it leads again", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true})
			tp.holds(8.5, 0, pollerKey, "l2", "r1.1")
			belief(tp, 10.5, 10.6, history.Belief{})
		}, false},
		{"a line told when it stopped", func(tp foreignTape) {
			belief(tp, 0, 6.2, history.Belief{Holds: true, Direct: true})
			belief(tp, 0, 10.6, history.Belief{Direct: true})
		}, true},
	} {
		r, j := struckAsWatched(t, somebodys, experiments.SLO{Lock: "loop", Vanished: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}, func(tp foreignTape) {
			tp.schema = history.SchemaNumbered
			tp.holds(6, 8, pollerKey, "l1", "r1.1")
			c.says(tp)
			tp.holds(8.01, 18.02, jobKey("1"), "a1", "r2.1")
			tp.kill(10, "kill-job#1", "random", "a1")
		})
		told := 0
		for _, f := range j.Findings {
			if f.Code == verdict.FindingVanished && strings.Contains(f.What, "said that it led") {
				told++
			}
		}
		warned := strings.Count(strings.Join(j.Warnings, "\n"), " was released or vanished by T+8")
		if c.sure == (warned == 1) || warned > 1 || c.sure != (told == 1) || c.sure != (j.Counts.Vanished == 1) || j.Counts.VanishedAtMost == 0 || c.sure != (r.Verdict == verdict.Fail) || r.Verdict == verdict.Pass {
			t.Errorf("%s: %s, %d findings, %d warnings, %+v, %+v, %q", c.name, r.Verdict, told, warned, j.Counts, j.Findings, j.Warnings)
		}
	}
}

// A key that goes when its holder had ended all that it is known to have worked on was given back, unless keys are left to their TTL.
func TestAKeyThatGoesWithTheEndOfItsJobIsGivenBack(t *testing.T) {
	kept := strings.Replace(somebodys, "release: {mode: single, timeout: 1s}", "release: {mode: none}", 1)
	run, done := said{job: "1", state: "RUN", op: "a", token: "a1", who: "r1.1"}, said{job: "1", state: "DONE", op: "b", token: "a1", who: "r1.1"}
	for name, c := range map[string]struct {
		file   string
		says   func(foreignTape)
		lo, hi int
	}{
		"a record could not be read": {somebodys, func(tp foreignTape) {
			tp.effect(7.9, jobKey("1"), done)
			tp.add(7.5, 7.6, history.Event{Kind: history.UnreadKind, Source: "probe:effects:jobs", Unread: &history.Unread{Source: "effects:jobs", Count: 1, Reason: history.CutOff}})
		}, 0, 0},
		"its job was done": {somebodys, func(tp foreignTape) { tp.effect(7.9, jobKey("1"), done) }, 0, 0},
		"nothing to do": {somebodys, func(tp foreignTape) {
			tp.effect(5.5, jobKey("1"), said{job: "1", state: "DONE", op: "b", token: "a0", who: "r2.1"})
		}, 0, 0},
		"nothing to do, as far as is known": {somebodys, func(tp foreignTape) {}, 0, 1},
		"nothing to do, and a job that goes on": {somebodys, func(tp foreignTape) {
			tp.effect(5.5, jobKey("1"), said{job: "1", state: "RUN", op: "b", token: "a0", who: "r2.1"})
		}, 0, 1},
		"its job goes on":        {somebodys, func(tp foreignTape) {}, 0, 1},
		"its job was done later": {somebodys, func(tp foreignTape) { tp.effect(8.5, jobKey("1"), done) }, 1, 1},
		"it went on with another job": {somebodys, func(tp foreignTape) {
			tp.effect(7.5, jobKey("1"), said{job: "2", state: "RUN", op: "c", token: "a1", who: "r1.1"})
			tp.effect(7.9, jobKey("1"), done)
		}, 0, 1},
		"its job was done by another": {somebodys, func(tp foreignTape) {
			tp.effect(7.9, jobKey("1"), said{job: "1", state: "DONE", op: "b", token: "a0", who: "r2.1"})
		}, 0, 1},
		"keys are left to their TTL": {kept, func(tp foreignTape) { tp.effect(7.9, jobKey("1"), done) }, 0, 1},
	} {
		r, j := struckAsWatched(t, c.file, experiments.SLO{Lock: "job", Vanished: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}, func(tp foreignTape) {
			tp.schema = history.SchemaNumbered
			tp.holds(6, 8, jobKey("1"), "a1", "r1.1")
			if !strings.HasPrefix(name, "nothing to do") {
				tp.effect(6.5, jobKey("1"), run)
			}
			c.says(tp)
			tp.holds(9, 19, jobKey("9"), "b1", "r2.1")
			tp.kill(10, "kill-job#1", "random", "b1")
		})
		if j.Counts.Vanished != c.lo || j.Counts.VanishedAtMost != c.hi {
			t.Errorf("%s: %d to %d vanished, want %d to %d", name, j.Counts.Vanished, j.Counts.VanishedAtMost, c.lo, c.hi)
		}
		if pass := name == "its job was done" || name == "nothing to do"; pass != (r.Verdict == verdict.Pass) {
			t.Errorf("%s: %s: %s", name, r.Verdict, r.Why)
		}
	}
}

// Of a job that ended before anybody had looked at keys, nobody can say what it owed; of one that ended later, and whose key no look showed,
// that it may have owed it.
func TestNoDebtIsFromBeforeTheWatch(t *testing.T) {
	for at, want := range map[float64]verdict.Verdict{0.001: verdict.Pass, 5: verdict.Inconclusive} {
		r, _ := struckAsWatched(t, somebodys, experiments.SLO{Lock: "job", LockDebt: &experiments.DebtLimits{Max: experiments.AtMost(time.Second)}}, func(tp foreignTape) {
			tp.effect(at, jobKey("0"), said{job: "0", state: "DONE", op: "z", token: "a0", who: "r1.1"})
			tp.holds(6, 8, jobKey("1"), "a1", "r1.1")
			tp.effect(6.5, jobKey("1"), said{job: "1", state: "RUN", op: "a", token: "a1", who: "r1.1"})
			tp.effect(7.9, jobKey("1"), said{job: "1", state: "DONE", op: "b", token: "a1", who: "r1.1"})
			tp.holds(9, 19, jobKey("9"), "b1", "r2.1")
			tp.kill(10, "kill-job#1", "random", "b1")
		})
		if r.Verdict != want {
			t.Errorf("ended at %gs: %s: %s", at, r.Verdict, r.Why)
		}
	}
}
