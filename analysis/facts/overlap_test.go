package facts

import (
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// In a store that nobody looks at, two may hold at once and both give the lock back: the first one's release does not put off a grant that
// was surely before it.
func TestWhatIsSurelyHeldIsPossiblyHeld(t *testing.T) {
	first := &Epoch{Belief: &held{Start: history.Span{From: 10, To: 11}, End: history.Span{From: 30, To: 31}}}
	first.Lease.gave = &Call{Outcome: history.OK, Sent: history.Span{From: 30, To: 30}}
	second := &Epoch{Belief: &held{Start: history.Span{From: 15, To: 20}, End: history.Span{From: 30, To: 32}}}
	sure, maybe, _ := (&Facts{}).holds(&Key{Epochs: []*Epoch{first, second}}, verdict.LevelBelief)
	if lo, hi := excess(sure), excess(maybe); lo != 10 || hi != 16 {
		t.Errorf("more than one holder for [%d, %d]", lo, hi)
	}
}

// A wait of one replica is late by that replica's own waiting.
func TestALateMachineMakesWaits(t *testing.T) {
	second := []stretchOf{{from: 0, to: 1e9}}
	w := waiter{who: "r1.1", atOnce: 1, sure: second, whole: second}
	waits := func(late int64) []Value { return []Value{{}, {Dur{1e9, 1e9}, late}} }
	ix := &Facts{env: &history.Environment{Fleet: "processes"}, Last: 2e9, late: []lateStretch{
		{history.Span{From: 500e6, To: 700e6}, history.Late{Stall: 9e6, Waits: map[string]int64{"r1.1": 60e6, "r2.1": 100e6}}},
		{history.Span{From: 900e6, To: 1100e6}, history.Late{Stall: 9e6, Waits: map[string]int64{"r1.1": 190e6}}},
	}}
	if got := ix.waits(w); !slices.Equal(got, waits(69e6+100e6)) {
		t.Errorf("late by %v: want 60ms and the runner's 9ms, and as much of the second stretch as is in the wait", got)
	}
	w.who = anybody
	if got := ix.waits(w); !slices.Equal(got, waits(109e6+100e6)) {
		t.Errorf("of anybody late by %v: want whoever waited longest", got)
	}
}

// Who is refused and granted nothing afterwards waits until the end of the last refusal, at most.
func TestWhoGivesUpWaitsUntilTheLastRefusal(t *testing.T) {
	refusal := func(from, to int64) *Call {
		return &Call{Span: history.Span{From: from, To: to}, Returned: true, Outcome: history.Fail, Result: history.ResultHeld}
	}
	w := waiterOf([]*Call{refusal(10, 12), refusal(20, 25)})
	if !slices.Equal(w.sure, []stretchOf{{12, 20, 0}}) || !slices.Equal(w.maybe, []stretchOf{{10, 25, 0}}) || w.atOnce != 0 || len(w.whole) > 0 {
		t.Errorf("%+v", w)
	}
}
