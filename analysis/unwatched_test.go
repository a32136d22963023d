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

// A hint names the cause that was recorded: looks that failed ask for no less busy machine, and looks that came late for nothing else.
func TestUnwatchedNamesTheCause(t *testing.T) {
	var one history.Event // as a reader of a file gives them, each in the memory of the last
	gap := func(from, to int64, failed bool, why string) *history.Event {
		one = history.Event{Kind: history.GapKind, Span: history.Span{From: from, To: to}, Coverage: &history.Coverage{Probe: experiments.ProbeLeases, Why: why, Failed: failed}}
		return &one
	}
	ix := &facts.Facts{Exp: &experiments.Experiment{}, Probes: map[string]*facts.Coverage{}}
	ix.Watch(gap(0, 2e9, true, "connect: connection refused"))
	ix.Watch(gap(4e9, 6e9, false, "limit 1s"))
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
		if got := j.unwatched(experiments.ProbeLeases, c.at); got.Code != c.code || !strings.Contains(got.Why+got.Next, c.want) {
			t.Errorf("%+v: %v", c.at, got)
		}
	}
	ix.Incarnations = []*history.Event{{Kind: history.StoreIncarnation, Span: history.Span{From: 8e9, To: 9e9}}}
	for at, want := range map[int64]string{4e9: "less busy machine", 8e9: "was another server after that"} {
		if got := j.unwatched(experiments.ProbeKeys, history.Span{From: at, To: at + 2e9}); !strings.Contains(got.Next, want) {
			t.Errorf("keys, %d: %v", at, got)
		}
	}
	if got := j.unwatched(experiments.ProbeKeys, history.Span{To: 1}); got.Code != verdict.MissingLooks {
		t.Errorf("a probe that never looked: %v", got)
	}
}

// The hint for looks that came late names the field, and a figure that had been enough for all of them. Looks that failed do not count, and no
// lease fits into what it allows.
func TestLateLooksNameAToleranceThatSuffices(t *testing.T) {
	ix := &facts.Facts{Exp: &experiments.Experiment{}, Probes: map[string]*facts.Coverage{}, Last: 60e9}
	ix.Exp.Probes.LockKeys.MaxGap = 50 * time.Millisecond
	ix.Exp.System.Effects = []experiments.Effects{{Name: "ends"}}
	ix.Exp.System.Locks = []experiments.Lock{{Name: "leader"}}
	good := func(from, to int64) {
		ix.Watch(&history.Event{Kind: history.CoverageKind, Span: history.Span{From: from, To: to}, Coverage: &history.Coverage{Probe: experiments.ProbeKeys, Samples: 1}})
	}
	gap := func(from, to int64, failed bool) {
		ix.Watch(&history.Event{Kind: history.GapKind, Span: history.Span{From: from, To: to}, Coverage: &history.Coverage{Probe: experiments.ProbeKeys, Failed: failed, Why: "why"}})
	}
	good(0, 10e9)
	gap(10e9, 10.06e9, false)
	good(10.06e9, 20e9)
	gap(20e9, 20.076864e9, false)
	good(20.076864e9, 30e9)
	gap(30e9, 39e9, true)
	good(39e9, 60e9)
	j := &judging{ix: ix}
	for ttl, want := range map[time.Duration]string{2 * time.Second: "Set probes.lock_keys.max_gap to 100ms (the longest delay was 76.864ms), or", 100 * time.Millisecond: "less busy machine, or probe less often"} {
		ix.Exp.System.Locks[0].Policy.TTL = ttl
		if got := j.unwatched(experiments.ProbeKeys, history.Span{From: 10e9, To: 10.06e9}); !strings.Contains(got.Next, want) {
			t.Errorf("ttl %s: %q, want %q", ttl, got.Next, want)
		}
	}
	for probe, want := range map[string]string{facts.ProbeLedger: "probes.ledger.max_gap", facts.ProbeLogs: "probes.logs.max_gap", "effects:ends": "system.effects[0].max_gap"} {
		if got := ix.GapField(probe); got != want {
			t.Errorf("%s: %s, want %s", probe, got, want)
		}
	}
	for ns, want := range map[int64]int64{76_864_000: 100e6, 100e6: 100e6, 101e6: 200e6, 3e9: 5e9, 5: 1e6} {
		if got := rounder(ns); got != want {
			t.Errorf("rounder(%d) is %d, want %d", ns, got, want)
		}
	}
}
