package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// finalLook is what the final read showed of a key; prev is the last look that showed something else, where one did.
func (t *tape) finalLook(at float64, w want, id string) {
	l := history.Look{Present: id != "", PTTL: -2, Final: true}
	t.add(at, at+ms, history.Event{Kind: history.LookKind, Source: "probe:lock_keys", Lock: w.lock, Key: w.key, Epoch: id, Look: &l})
}

// A hold that is claimed while looks show another token, or none, is a ghost's: it ends no takeover, its effects are unowned, and the
// lock's claims are no ground for a pass.
func TestGhosts(t *testing.T) {
	for _, c := range []struct {
		name          string
		guilty, moved func(*tape)
	}{
		{"while another has the key",
			func(tp *tape) {
				tp.seenJob(10, 30, "r1.1", 1, "a1", "j1", 11)
				tp.job(20, 5, "r2.1", jobs(1), "g", "j1b", 12)
			},
			func(tp *tape) {
				tp.seenJob(10, 30, "r1.1", 1, "a1", "j1", 11)
				tp.seenJob(45, 5, "r2.1", 1, "g", "j1b", 12)
			}},
		{"while nobody has the key",
			func(tp *tape) {
				tp.seenJob(10, 5, "r1.1", 1, "a1", "j1", 11)
				tp.job(20, 8, "r2.1", jobs(1), "g", "j1b", 12)
				tp.seenJob(40, 5, "r1.1", 1, "a2", "j1c", 13)
			},
			func(tp *tape) { // between two looks
				tp.seenJob(10, 5, "r1.1", 1, "a1", "j1", 11)
				tp.job(15.100, 0.020, "r2.1", jobs(1), "g", "j1b", 12)
				tp.seenJob(40, 5, "r1.1", 1, "a2", "j1c", 13)
			}},
		{"in a key that never was",
			func(tp *tape) { tp.job(20, 8, "r2.1", jobs(1), "g", "j1", 12); tp.finalLook(94, jobs(1), "") },
			func(tp *tape) { tp.seenJob(20, 8, "r2.1", 1, "g", "j1", 12) }},
	} {
		often := func(play func(*tape)) *verdict.Judgement {
			return testified(t, func(tp *tape) { tp.windows = 300; play(tp) })
		}
		passes(t, c.name, often(c.moved))
		j := often(c.guilty)
		found(t, c.name, j, 1, "r2.1 claims to have held epoch g, but the probe never saw it")
		for _, o := range j.Overlap {
			if o.Level == verdict.LevelEffect && o.Unowned != 2 {
				t.Errorf("%s: %d unowned effects, want 2", c.name, o.Unowned)
			}
		}
	}
}

// What looks cannot rule out is no ghost: one look alone, a store that lost its data, an entry of the ledger by which the key named it.
func TestWhatIsNoGhost(t *testing.T) {
	hold := func(tp *tape) {
		tp.grant(10, "r1.1", leader, "a", 1)
		tp.tick(10.002, 0.01, "a", "leader")
	}
	for _, c := range []struct {
		name  string
		play  func(*tape)
		ghost bool
	}{
		{"two looks", func(tp *tape) { tp.look(10.004, leader, "x", 5); tp.look(10.014, leader, "y", 5) }, true},
		{"one look", func(tp *tape) { tp.look(10.004, leader, "x", 5); tp.renewGone(10.006, "a", history.ResultOther) }, false},
		{"given back before them", func(tp *tape) {
			tp.release(10.0025, "a")
			tp.look(10.004, leader, "x", 5)
			tp.look(10.014, leader, "y", 5)
		}, false},
		{"the store lost its data before them", func(tp *tape) {
			tp.add(10.002, 10.003, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", RunID: "x", Life: 2, Why: "marker_lost"}})
			tp.look(10.004, leader, "x", 5)
			tp.look(10.014, leader, "y", 5)
		}, false},
		{"a fault of ours took it before them", func(tp *tape) {
			tp.strike(10.002, 12, "gone#1", "a", history.Fault{Kind: "delete_key", Form: "stranger", Declared: 2e9})
			tp.look(10.004, leader, "x", 5)
			tp.look(10.014, leader, "y", 5)
		}, false},
		{"named by the key as the ledger was written", func(tp *tape) {
			for i := range tp.events {
				if en := tp.events[i].Entry; en != nil {
					en.Named = "self"
				}
			}
			tp.look(10.004, leader, "x", 5)
			tp.look(10.014, leader, "y", 5)
		}, false},
	} {
		ix := faulted(t, func(tp *tape) { hold(tp); c.play(tp) })
		if e := ix.Keys[leader.key].Find("a"); e.Ghost != c.ghost {
			t.Errorf("%s: ghost %t, want %t: %+v", c.name, e.Ghost, c.ghost, ix.Findings)
		}
	}
}

// A ghost's effects end no takeover, and it is nobody's successor.
func TestAGhostTakesNothingOver(t *testing.T) {
	for _, ghost := range []bool{true, false} {
		ix := faulted(t, func(tp *tape) {
			tp.grant(1, "r1.1", leader, "a", 1)
			tp.look(1.003, leader, "a", 6)
			tp.tick(1.01, 0.05, "a", "leader")
			tp.kill(3, "kill#1", "random", "a")
			if ghost {
				tp.grant(4, "r2.1", leader, "g", 2)
				tp.tick(4.01, 0.05, "g", "leader")
			}
			tp.look(7.003, leader, "", 0)
			tp.grant(9, "r3.1", leader, "b", 3)
			tp.look(9.004, leader, "b", 6)
			tp.tick(9.01, 0.05, "b", "leader")
		})
		s := ix.shot(t, "kill#1")
		if len(s.Trials) != 1 || s.Trials[0].After.ID != "b" || s.Trials[0].Next.ID != "b" || s.Trials[0].Class != verdict.ClassCrash {
			t.Errorf("ghost %t: %+v", ghost, s.Trials)
		}
		if got := len(ix.Findings); got != map[bool]int{true: 1}[ghost] {
			t.Errorf("ghost %t: %+v", ghost, ix.Findings)
		}
	}
}

// Whom a refusal names and nobody else knows was granted nothing, and no part of a takeover is longer than the whole.
func TestARefusalThatNamesNobody(t *testing.T) {
	for _, holder := range []string{"a", "nobody"} {
		ix := faulted(t, func(tp *tape) {
			tp.grant(1, "r1.1", leader, "a", 1)
			tp.tick(1.01, 0.05, "a", "leader")
			tp.kill(3, "kill#1", "random", "a")
			tp.refuse(4, "r2.1", leader, holder)
			tp.grant(7.2, "r2.1", leader, "b", 3)
			tp.tick(7.21, 0.05, "b", "leader")
		})
		v := ix.shot(t, "kill#1").Trials[0].Takeover()
		if v.Successor != "r2.1" || v.Residual.Lo < 3.9 || *v.Pickup.Hi > 0.3 || *v.Warmup.Hi > 0.02 || *v.Hi < *v.Residual.Hi {
			t.Errorf("holder %s: %+v, %+v, %+v", holder, v, v.Pickup, v.Warmup)
		}
		if k := ix.Keys[leader.key]; len(k.Epochs) != 2 {
			t.Errorf("holder %s: %s", holder, ids(k.Epochs))
		}
	}
}

// Where the successor of a job never wrote begin, the takeover ends with the first state that it wrote, and that is said.
func TestATakeoverWithoutBegin(t *testing.T) {
	w := want{"job", "drill:job:1", 6}
	for _, begins := range []bool{true, false} {
		ix := faulted(t, func(tp *tape) {
			tp.offer(0.9, w, "j1", "r1.1")
			tp.grant(1, "r1.1", w, "a", 1)
			tp.begin(1.002, "a", "j1")
			tp.kill(3, "kill#1", "random", "a")
			tp.grant(8, "r2.1", w, "b", 2)
			if begins {
				tp.begin(8.002, "b", "j1")
			} else {
				tp.enter(8.002, "b", "j1")
			}
			tp.write(8.5, "b", "j1", "succeeded", "")
		})
		v := ix.shot(t, "kill#1").Trials[0].Takeover()
		if want := map[bool]float64{true: 5.003, false: 5.5}[begins]; v.Censored || v.End != "effect" || v.Lo > want || *v.Hi < want || *v.Hi-v.Lo > 0.003 {
			t.Errorf("begin %t: %+v, want %g", begins, v, want)
		}
		said := func(f verdict.Finding) bool { return strings.Contains(f.What, "never wrote begin") }
		if begins == slices.ContainsFunc(ix.Findings, said) {
			t.Errorf("begin %t: %+v", begins, ix.Findings)
		}
	}
}
