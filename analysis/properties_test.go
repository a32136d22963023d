package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// numbered gives the events of a recording their numbers, as today's recorder writes them.
func numbered(h *history.History) {
	if h.Header.Schema >= history.SchemaNumbered {
		return
	}
	h.Header.Schema = history.SchemaNumbered
	given := history.Numbers{}
	for i := range h.Events {
		given.Give(&h.Events[i])
	}
}

// Whoever knows less of when things happened answers less, and never otherwise: a wider bracket turns no pass into a fail and no fail into a
// pass, whatever is asked, and makes nobody contradict himself. What a worker told first came first, however little its clock is known.
func TestAWiderBracketTurnsNoAnswerAround(t *testing.T) {
	kinds := []history.Kind{history.LedgerEntry, history.LookKind, history.AcquireReturn, history.RenewReturn, history.ReleaseReturn,
		history.WorkEnter, history.WorkExit, history.ReplicaExit, history.FaultApplied, history.FaultReverted, history.StoreIncarnation, history.BeliefKind}
	tried := 0
	for _, dir := range recordings(t) {
		e, h := loadFrom(t, dir)
		promised := e.SLOs
		askEverything(e)
		e.SLOs = append(e.SLOs, promised...)
		r := NewJudger(e)
		whole := r.Judge(h)
		for _, kind := range kinds {
			if !slices.ContainsFunc(h.Events, func(ev history.Event) bool { return ev.Kind == kind }) {
				continue
			}
			for _, by := range []int64{2e6, 20e6} {
				tried++
				wide := &history.History{Header: h.Header, Events: slices.Clone(h.Events)}
				for i := range wide.Events {
					if ev := &wide.Events[i]; ev.Kind == kind {
						if ev.Call != nil {
							c := *ev.Call
							c.Answered = max(1, ev.To-by)
							ev.Call, ev.Clock = &c, history.ClockBounds
						}
						ev.Span = history.Span{From: max(0, ev.From-by), To: ev.To + by}
					}
				}
				j := r.Judge(wide)
				for i, row := range j.SLOs {
					if was := whole.SLOs[i].Verdict; was != row.Verdict && was != verdict.Inconclusive && row.Verdict != verdict.Inconclusive {
						t.Errorf("%s, %s wider by %d ms: %s was %s and is %s: %s", dir, kind, by/1e6, row.Name(), was, row.Verdict, row.Why)
					}
				}
				if more := len(j.Findings) - len(whole.Findings); more > 0 && kind != history.FaultApplied { // the runner's clock is exact
					t.Errorf("%s, %s wider by %d ms: %d findings more: %+v", dir, kind, by/1e6, more, j.Findings)
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
	for at, name := range recordings(t) {
		e, h := loadFrom(t, name)
		numbered(h)
		promised := e.SLOs
		askEverything(e)
		e.SLOs = append(e.SLOs, promised...)
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

// A history that was cut off anywhere is never a pass, and what had already failed stays failed.
func TestCutOffAnywhere(t *testing.T) {
	for _, name := range []string{"good-drill", "burst-standard", "pause-takeover", "latency-felt", "proxy-burst", "black-hole-standard", "key-stranger", "acquire-replies-undone"} {
		e, whole := load(t, name)
		if v := Judge(e, whole).Verdict; v != "pass" {
			t.Fatalf("%s: the whole history is %s", name, v)
		}
		for n := range whole.Events {
			h := &history.History{Header: whole.Header, Events: whole.Events[:n]}
			j := Judge(e, h)
			if j.Verdict == "pass" || j.ExitCode == 0 {
				t.Fatalf("%s cut off after %d events passes", name, n)
			}
			for _, r := range j.SLOs {
				if r.Verdict == verdict.Pass {
					t.Fatalf("%s cut off after %d events: %s of lock %s passes", name, n, r.Measure, r.Lock)
				}
			}
		}
	}
}

// What fails early fails in every longer part of the history as well.
func TestFailStands(t *testing.T) {
	for _, name := range []string{"pause-90s-unfenced", "pause-unfenced", "failover-granted-twice", "store-restart-lost"} {
		e, whole := load(t, name)
		failed := false
		for n := range whole.Events {
			j := Judge(e, &history.History{Header: whole.Header, Events: whole.Events[:n]})
			now := j.ExitCode == 10
			if failed && !now {
				t.Fatalf("%s failed after fewer events, and does not after %d", name, n)
			}
			failed = now
		}
		if !failed {
			t.Fatalf("%s never failed", name)
		}
	}
}

// Unknown replies and other orders of recording do not change what happened.
func TestOrderOfRecording(t *testing.T) {
	e, h := load(t, "good-drill")
	want := Judge(e, h)
	// Replicas and probes write at the same time: sort equal neighbours by source instead.
	slices.SortStableFunc(h.Events, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Source, b.Source))
	})
	renumber(h)
	got := Judge(e, h)
	for i, r := range got.SLOs {
		w := want.SLOs[i]
		r.Evidence, w.Evidence = nil, nil
		if fmt.Sprint(r.Lo, *r.Hi, r.Verdict, r.Why, r.N) != fmt.Sprint(w.Lo, *w.Hi, w.Verdict, w.Why, w.N) {
			t.Errorf("%s of lock %s changed with the order of recording:\n%+v\n%+v", r.Measure, r.Lock, r, w)
		}
	}
}
