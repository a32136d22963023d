package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// halt stops the holder of the epoch from to until, confirmed.
func (t *tape) halt(from, to float64, name, id string) {
	t.strike(from, to, name, id, history.Fault{Kind: "pause", Declared: ns(to - from)})
}

// Work that did not run is not work past the lease's end, and once a resumed holder has its stop budget, of 100 ms here: each case
// differs from the one before it in one thing. The lease, of 3 s, ends at 13 s; what the holder may rely on as well.
func TestPausesAreTakenOffEverywhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		play   func(*tape)
		timing string
		lag    bool    // the work went on past the validity end
		ran    float64 // unowned work, s, at least
		says   string
	}{
		{"stopped at once after a pause longer than the lease", func(tp *tape) { tp.halt(12, 18, "stop#1", "a"); tp.giveUp(18.05) }, verdict.Timely, false, 0.04, ""},
		{"stopped late after it", func(tp *tape) { tp.halt(12, 18, "stop#1", "a"); tp.giveUp(18.15) }, verdict.Late, true, 0.14, ""},
		{"paused twice, and stopped in one stop budget", func(tp *tape) {
			tp.halt(12, 18, "stop#1", "a")
			tp.halt(18.04, 20, "stop#2", "a")
			tp.giveUp(20.04)
		}, verdict.Timely, false, 0.07, ""},
		{"paused twice, and stopped in two", func(tp *tape) {
			tp.halt(12, 18, "stop#1", "a")
			tp.halt(18.08, 20, "stop#2", "a")
			tp.giveUp(20.08)
		}, verdict.Late, true, 0.15, ""},
		{"went on just before the lease's end", func(tp *tape) { tp.halt(11, 12.97, "stop#1", "a"); tp.giveUp(13.06) }, verdict.Timely, false, 0.05, ""},
		{"went on long before it", func(tp *tape) { tp.halt(11, 12.8, "stop#1", "a"); tp.giveUp(13.06) }, verdict.Late, true, 0.05, ""},
		{"never stopped for long", func(tp *tape) { tp.giveUp(13.06) }, verdict.Late, true, 0.05, ""},
		{"a write that was on its way", func(tp *tape) {
			tp.halt(12, 18, "stop#1", "a")
			tp.send(11.999, 12.1, 12.15)
			tp.giveUp(18.05)
		}, verdict.Timely, false, 0.04, ""},
		{"a write that was sent inside the pause", func(tp *tape) {
			tp.halt(12, 18, "stop#1", "a")
			tp.send(14, 14, 14.003)
			tp.giveUp(18.05)
		}, verdict.Late, true, 5.04, "was issued while r1.1, its writer, stood still"},
		{"a write that nobody announced and that came late in the pause", func(tp *tape) {
			tp.halt(12, 18, "stop#1", "a")
			tp.send(0, 14, 14.003)
			tp.giveUp(18.05)
		}, verdict.Late, true, 5.04, "was issued while r1.1, its writer, stood still"},
		{"a pause that nobody confirmed", func(tp *tape) {
			tp.inject(12, "stop#1", "a", history.Fault{Kind: "pause", Declared: 6e9})
			tp.lift(18, "stop#1", "a")
			tp.giveUp(18.05)
		},
			verdict.Undetermined, false, 0.04, ""},
	} {
		ix := told(t, upkeep, func(tp *tape) {
			tp.phase(5, history.PhaseFaults)
			tp.grant(10, "r1.1", brief(1), "a", 1)
			tp.begin(10.002, "a", "j1")
			c.play(tp)
		})
		ix.says(t, c.name, c.says)
		e := ix.Keys[brief(1).key].Find("a")
		a, ok := ix.GiveUp(e)
		if !ok || a.Timing != c.timing || a.FenceLag.Lo > 0 != c.lag || a.Unowned.Lo < c.ran || a.Unowned.Lo > c.ran+0.02 {
			t.Errorf("%s: %+v, fence lag %+v; want %s, past the validity end: %t, %g s of unowned work", c.name, a, a.FenceLag, c.timing, c.lag, c.ran)
		}
	}
}

// giveUp stops the work of epoch a.
func (t *tape) giveUp(at float64) {
	t.fence(at, "a", "deadline", true)
	t.exit(at, "a", "j1", "fenced")
}

// send is a write of epoch a that was announced at sent (0: never) and that the ledger's probe saw come between from and to.
func (t *tape) send(sent, from, to float64) {
	e, op := t.epochs["a"], t.op("write")
	if sent > 0 {
		invoke := e.event(history.WriteInvoke, op)
		invoke.Write = &history.Write{Subject: "j1", State: "half"}
		t.add(sent, sent, invoke)
	}
	entry := e.event(history.LedgerEntry, op)
	entry.Source, entry.Fence = "probe:ledger", e.fence
	entry.Entry = &history.Entry{Subject: "j1", State: "half", Accepted: true, Writer: e.rep}
	t.add(from, to, entry)
}

// A pause across the lease's end puts an epoch into jeopardy, also where its holder stopped in time when it went on; it is not one that
// nobody came into.
func TestAPauseAcrossTheLeasesEndIsAJeopardy(t *testing.T) {
	for _, given := range []bool{true, false} {
		ix := told(t, upkeep, func(tp *tape) {
			tp.phase(5, history.PhaseFaults)
			tp.grant(10, "r1.1", brief(1), "a", 1)
			tp.begin(10.002, "a", "j1")
			tp.halt(12, 18, "stop#1", "a")
			if given {
				tp.giveUp(18.05)
			} else {
				tp.exit(18.05, "a", "j1", "done")
			}
		})
		g := ix.GiveUpsOf("job")
		if g.Jeopardies != (facts.Tally{Lo: 1, Hi: 1}) || g.Late != (facts.Tally{}) || g.Missed != (facts.Tally{}) || g.Raw != b2i(given) {
			t.Errorf("given up %t: %+v", given, g)
		}
	}
}

// The line of a work's exit may die with its holder: after its last word, or the last effect that the ledger shows, it only may have
// worked on. The lease ends at 13 s, the holder is killed at 15 s; each case differs from the first in one thing.
func TestALostExitIsNoWork(t *testing.T) {
	for _, c := range []struct {
		name   string
		play   func(*tape)
		timing string
		lo, hi float64 // unowned work
	}{
		{"no word since the lease's end", func(*tape) {}, verdict.Undetermined, 0, 2},
		{"a failed renewal after it", func(tp *tape) { tp.renewGone(14, "a", history.ResultAbsent) }, verdict.Missed, 1, 2},
		{"a write after it that nobody announced", func(tp *tape) { tp.send(0, 14, 14.003) }, verdict.Missed, 1, 2},
		{"an exit that was told", func(tp *tape) { tp.exit(12.9, "a", "j1", "done") }, "", 0, 0},
	} {
		ix := told(t, upkeep, func(tp *tape) {
			tp.grant(10, "r1.1", brief(1), "a", 1)
			tp.begin(10.002, "a", "j1")
			c.play(tp)
			tp.kill(15, "kill#1", "random", "a")
		})
		e := ix.Keys[brief(1).key].Find("a")
		a, _ := ix.GiveUp(e)
		u := ix.UnownedWork(e)
		if a.Timing != c.timing || apart(facts.Seconds(u.Lo), c.lo) > 0.01 || apart(facts.Seconds(u.Hi), c.hi) > 0.01 {
			t.Errorf("%s: %q, %s of unowned work; want %q, %g to %g s", c.name, a.Timing, u, c.timing, c.lo, c.hi)
		}
		if ds := ix.DebtsOf("job").List; c.timing != "" && len(ds) > 0 {
			t.Errorf("%s: a crash left the debts %+v", c.name, ds)
		}
	}
}
