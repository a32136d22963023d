package analysis

import (
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A lock of a session goes with its holder, and with its connection: who is granted it then takes nothing that is owed. A look that began
// before a kill may show it gone.
func TestALockGoesWithItsSession(t *testing.T) {
	for op, c := range map[string]struct {
		class string
		ends  func(tp *tape) (next float64)
	}{
		"kill#1": {verdict.ClassCrash, func(tp *tape) float64 {
			tp.kill(3, "kill#1", "random", "a")
			tp.look(2.9995, leader, "", 0)
			return 3.4
		}},
		"cut#1": {verdict.ClassPause, func(tp *tape) float64 {
			tp.strike(3, 7, "cut#1", "a", history.Fault{Kind: "black_hole", Declared: 4e9, Baseline: 200e3})
			tp.look(6.9, leader, "a", 0)
			tp.look(7.1, leader, "", 0)
			return 7.4
		}},
	} {
		tp := newTape("a session ends")
		tp.start(0.1, "r1.1", "r2.1")
		tp.phase(0.2, history.PhaseFaults)
		tp.grant(1, "r1.1", leader, "a", 1)
		tp.look(1.003, leader, "a", 0)
		next := c.ends(tp)
		tp.grant(next, "r2.1", leader, "b", 2)
		tp.look(next+0.004, leader, "b", 0)
		tp.finale(80, 120)
		for i := range tp.events {
			if l := tp.events[i].Look; l != nil && l.Present {
				l.PTTL = -1
			}
		}
		h := tp.history(t)
		e, _ := load(t, "good-drill")
		e.Store = &experiments.Store{Kind: experiments.StorePostgres}
		ix := FactsOf(e, h)
		s := ix.shot(t, op)
		if len(s.Trials) != 1 || s.Trials[0].Void.IsVoid() || s.Trials[0].Class != c.class || s.Trials[0].After.ID != "b" {
			t.Errorf("%s: void %v, trials %+v, want a takeover by b", op, s.WhyVoid, s.Trials)
		}
		if ts := ix.Thefts(); len(ts) > 0 {
			t.Errorf("%s: thefts: %+v", op, ts)
		}
	}
}

// Revisions of etcd begin anew where it has lost its data: a look means the epoch that was asked for last by then.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	ix := faulted(t, func(tp *tape) {
		for i, id := range []string{"a", "b"} {
			at := float64(1 + 10*i)
			tp.grant(at, "r1.1", leader, id, 5)
			tp.events[len(tp.events)-1].Call.ID = "rev-5"
			tp.look(at+0.003, leader, "rev-5", 6)
			tp.look(at+7, leader, "", 0)
		}
	})
	for _, id := range []string{"a", "b"} {
		if n := len(ix.Keys[leader.key].Find(id).Looks); n != 1 {
			t.Errorf("%d looks show %s, want 1", n, id)
		}
	}
}
