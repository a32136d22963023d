package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A promise that no key vanishes fails where a holder acted on without its key, and is not answered where it may have given it back.
func TestPromisesOfVanishedKeys(t *testing.T) {
	ask := experiments.SLO{Lock: "job", Vanished: &experiments.CountLimit{Bound: *experiments.AtMost(0)}}
	for _, c := range []struct {
		dir    string
		want   verdict.Verdict
		lo, hi float64
	}{
		{"gone-early-vanished", verdict.Fail, 1, 2}, // of two keys that ended early, the holder of one went on
		{"gone-early-released", verdict.Inconclusive, 0, 2},
	} {
		e, h := load(t, c.dir)
		e.SLOs = append(e.SLOs, ask)
		r := rowOf(t, Judge(e, h), "vanished")
		if r.Verdict != c.want || r.Lo != c.lo || r.Hi == nil || *r.Hi != c.hi || r.N != 3 || r.Of != "grant" || len(r.Evidence) == 0 || r.Rests != verdict.RestsOnKeys {
			t.Errorf("%s: %+v", c.dir, r)
		}
		without(h, func(ev *history.Event) bool { // nobody looked at the keys
			return ev.Coverage != nil && ev.Coverage.Probe == experiments.ProbeKeys && !ev.Coverage.Final
		})
		if r := rowOf(t, Judge(e, h), "vanished"); r.Verdict == verdict.Pass {
			t.Errorf("%s, without coverage: %+v", c.dir, r)
		}
	}
	for dir, want := range map[string]verdict.Verdict{"good-drill": verdict.Pass, "key-vanishes": verdict.Pass} { // the latter is a fault's doing
		e, h := load(t, dir)
		ask.Lock = e.System.Locks[0].Name
		e.SLOs = append(e.SLOs, ask)
		if r := rowOf(t, Judge(e, h), "vanished"); r.Verdict != want || *r.Hi != 0 {
			t.Errorf("%s: %+v", dir, r)
		}
	}
}

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
		if c.sure != (told == 1) || c.sure != (j.Counts.Vanished == 1) || j.Counts.VanishedAtMost == 0 || c.sure != (r.Verdict == verdict.Fail) || r.Verdict == verdict.Pass {
			t.Errorf("%s: %s, %d findings, %+v, %+v", c.name, r.Verdict, told, j.Counts, j.Findings)
		}
	}
}
