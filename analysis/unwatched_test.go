package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// A hint names the cause that was recorded: looks that failed ask for no less busy machine, and looks that came late for nothing else.
func TestUnwatchedNamesTheCause(t *testing.T) {
	var one history.Event // as a reader of a file gives them, each in the memory of the last
	gap := func(from, to int64, failed bool, why string) *history.Event {
		one = history.Event{Kind: history.GapKind, Span: history.Span{From: from, To: to}, Coverage: &history.Coverage{Probe: probeLeases, Why: why, Failed: failed}}
		return &one
	}
	ix := &Facts{exp: &experiments.Experiment{}, probes: map[string]*coverage{}}
	ix.watch(gap(0, 2e9, true, "connect: connection refused"))
	ix.watch(gap(4e9, 6e9, false, "limit 1s"))
	one = history.Event{}
	j := &judging{ix: ix}
	for _, c := range []struct {
		at   history.Span
		code verdict.MissingCode
		want string
	}{
		{history.Span{From: 0, To: 2e9}, verdict.MissingFailedLooks, "its looks failed: connect: connection refused"},
		{history.Span{From: 4e9, To: 6e9}, verdict.MissingLooks, "less busy machine"},
	} {
		if got := j.unwatched(probeLeases, c.at); got.Code != c.code || !strings.Contains(got.Why+got.Next, c.want) {
			t.Errorf("%+v: %v", c.at, got)
		}
	}
	if got := j.unwatched(probeKeys, history.Span{To: 1}); got.Code != verdict.MissingLooks {
		t.Errorf("a probe that never looked: %v", got)
	}
}
