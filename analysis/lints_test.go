package analysis

import (
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history/lint"
	"github.com/lockdrill/lockdrill/scenarios"
)

// notTheWorkers are the findings that no worker brings about: they are about a store, or about who a probe or a fault took for a holder.
var notTheWorkers = []verdict.FindingCode{verdict.FindingRolledBack, verdict.FindingWrongVictim, verdict.FindingDisputedHolder}

// What is held against a worker in its own check says what to change, and where the protocol has it.
func TestACheckOfAWorkerSaysForAllWhatToChange(t *testing.T) {
	t.Parallel()
	for _, c := range verdict.Codes() {
		if _, ok := lint.RuleOf(c.Name); c.Kind == "finding" && ok == slices.Contains(notTheWorkers, verdict.FindingCode(c.Name)) {
			t.Errorf("finding %s: its rule is there: %t", c.Name, ok)
		}
	}
	data, _ := scenarios.Get("worker-check")
	e, err := experiments.Parse("worker-check", data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.SLOs {
		for _, l := range e.SLOs[i].Limits() {
			if _, ok := lint.RuleOf(l.Measure); !ok {
				t.Errorf("the promise of %s has no rule", l.Measure)
			}
		}
	}

	out := &verdict.Judgement{
		Findings: []verdict.Finding{
			{Code: verdict.FindingGhost, What: "first", Evidence: []int64{1}}, {Code: verdict.FindingGhost, What: "second"},
			{Code: verdict.FindingRolledBack, What: "the store's"}, {What: "nothing is decided by it"},
		},
		SLOs: []verdict.SLOResult{
			{Lock: "job", Measure: "overlap.effect", Verdict: verdict.Fail, Why: "3 unowned effects.", Evidence: []int64{7}},
			{Lock: "loop", Measure: "takeover.max", Verdict: verdict.Pass},
		},
	}
	for _, asked := range []bool{true, false} {
		e := &experiments.Experiment{System: experiments.System{CheckWorker: asked}}
		j := &judging{Judger: &Judger{exp: e}, said: lint.New(nil)}
		list := j.lints(out)
		if !asked {
			if len(list) != 0 {
				t.Errorf("a drill that does not ask about the worker tells %+v", list)
			}
			continue
		}
		if len(list) != 2 || list[0].Code != "ghost" || list[0].What != "first" || list[1].Code != "overlap" || list[1].What != "lock job: 3 unowned effects" {
			t.Fatalf("told is %+v", list)
		}
		for _, l := range list {
			if l.Section == "" || l.Change == "" || l.Expected == "" || len(l.Evidence) != 1 {
				t.Errorf("it does not say all: %+v", l)
			}
		}
	}
}
