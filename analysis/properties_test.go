package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// numbered is a recorded case as today's recorder writes it, with the experiment beside it.
func numbered(t *testing.T, name string) (*experiments.Experiment, *history.History) {
	t.Helper()
	e, _ := load(t, name)
	tp := cases[name]()
	tp.schema = history.SchemaNumbered
	h := tp.history(t)
	return e, h
}

// Whoever knows less of when things happened answers less, and never otherwise: a wider bracket turns no pass into a fail and no fail into a
// pass.
func TestAWiderBracketTurnsNoAnswerAround(t *testing.T) {
	kinds := []history.Kind{history.LedgerEntry, history.LookKind, history.AcquireReturn, history.RenewReturn, history.ReleaseReturn,
		history.WorkEnter, history.WorkExit, history.ReplicaExit, history.FaultApplied, history.FaultReverted, history.StoreIncarnation}
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		e, h := load(t, name)
		r := NewJudger(e)
		whole := r.Judge(h).SLOs
		for _, kind := range kinds {
			if !slices.ContainsFunc(h.Events, func(ev history.Event) bool { return ev.Kind == kind }) {
				continue
			}
			for _, by := range []int64{2e6, 20e6} {
				tried++
				wide := &history.History{Header: h.Header, Events: slices.Clone(h.Events)}
				for i := range wide.Events {
					if ev := &wide.Events[i]; ev.Kind == kind {
						ev.Span = history.Span{From: max(0, ev.From-by), To: ev.To + by}
					}
				}
				for i, row := range r.Judge(wide).SLOs {
					if was := whole[i].Verdict; was != row.Verdict && was != verdict.Inconclusive && row.Verdict != verdict.Inconclusive {
						t.Errorf("%s, %s wider by %d ms: %s was %s and is %s: %s", name, kind, by/1e6, row.Name(), was, row.Verdict, row.Why)
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d histories were tried", tried)
	}
}

// What was seen and is gone makes nothing look better: without any one event of the runner or of a probe no pass appears, and what is
// numbered is missed. Of what workers
// claim that cannot be demanded, since nobody knows what they would have said; those are counted.
func TestAnEventLessMakesNoPassAppear(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 11
	}
	tried, claims := 0, map[string]int{}
	for at, name := range slices.Sorted(maps.Keys(cases)) {
		e, h := numbered(t, name)
		r := NewJudger(e)
		whole := r.Judge(h).SLOs
		for i := range h.Events {
			gone := &h.Events[i]
			if gone.Seq == 0 && i%step != at%step && gone.Kind != history.RunEnd {
				continue
			}
			tried++
			less := &history.History{Header: h.Header, Events: slices.Delete(slices.Clone(h.Events), i, i+1)}
			j := r.Judge(less)
			if lacks := "the history lacks 1 event of " + gone.Stream(); gone.Seq != 0 && !slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return strings.Contains(f.What, lacks) }) {
				t.Errorf("%s without event %d, %s of %s: nothing says so", name, gone.N, gone.Kind, gone.Stream())
			}
			for n, row := range j.SLOs {
				if whole[n].Verdict == verdict.Pass || row.Verdict != verdict.Pass {
					continue
				}
				if gone.Source != "runner" && !strings.HasPrefix(gone.Source, "probe:") {
					claims[fmt.Sprintf("%s: %s of %s", gone.Kind, row.Name(), name)]++
					continue
				}
				t.Errorf("%s without event %d, %s of %s: %s was %s and passes: %s", name, gone.N, gone.Kind, gone.Source, row.Name(), whole[n].Verdict, row.Why)
			}
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(claims)) {
		t.Logf("%3d  %s", claims[claim], claim)
	}
	if tried < 500 {
		t.Errorf("only %d events were dropped", tried)
	}
}
