package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// row finds an SLO's row; lock "" = of any.
func row(t *testing.T, j *verdict.Judgement, lock, measure string) verdict.SLOResult {
	t.Helper()
	i := slices.IndexFunc(j.SLOs, func(r verdict.SLOResult) bool { return (lock == "" || r.Lock == lock) && r.Measure == measure })
	if i < 0 {
		t.Fatalf("no row %s of lock %s", measure, lock)
	}
	return j.SLOs[i]
}

// edit changes the events that match, with bodies of their own.
func edit(h *history.History, match func(*history.Event) bool, change func(*history.Event)) {
	for i := range h.Events {
		if ev := &h.Events[i]; match(ev) {
			change(ev)
		}
	}
}

// Two signals to one process are one kill: the second hit a corpse that was not collected yet.
func TestASecondKillOfACorpseIsNoKill(t *testing.T) {
	e, h := load(t, "good-drill")
	edit(h, func(ev *history.Event) bool { return ev.Op == "kill-leader#2" && ev.Fault != nil }, func(ev *history.Event) {
		f := *ev.Fault
		f.Victim = "r1.1"
		ev.Fault = &f
	})
	j := Judge(e, h)
	if r := row(t, j, "leader", "takeover.max"); r.Verdict != verdict.Inconclusive || r.N != 1 || j.ExitCode == 0 {
		t.Errorf("exit %d, row %+v: want one kill of two", j.ExitCode, r)
	}
	if f := j.Faults[1]; f.Confirmed || !f.Void || !strings.Contains(f.Why, "had killed the victim already") {
		t.Errorf("the second shot: %+v", f)
	}
}

// Whom a shot hit is for the runner to say.
func TestAReplicaCannotRewriteAShot(t *testing.T) {
	e, h := load(t, "good-drill")
	first := slices.IndexFunc(h.Events, func(ev history.Event) bool { return ev.Op == "kill-leader#1" })
	lie := history.Event{Kind: history.FaultHit, Span: h.Events[first].Span, Source: "r2.1", Op: "kill-leader#1",
		Fault: &history.Fault{ID: "kill-leader", Shot: 1, Kind: "renew_failures", Victim: "r9.9"}}
	h.Events = slices.Insert(h.Events, first, lie)
	renumber(h)
	j := Judge(e, h)
	if f := j.Faults[0]; f.Kind != "kill" || f.Victim != "r1.1" || j.Verdict != "pass" {
		t.Errorf("verdict %s, fault %+v", j.Verdict, f)
	}
}

// A death that nobody ordered is said, even where all is well.
func TestADeathThatNobodyOrderedIsSaid(t *testing.T) {
	e, h := load(t, "good-drill")
	edit(h, func(ev *history.Event) bool {
		return ev.Kind == history.ReplicaExit && ev.Replica.Incarnation == "r1.2"
	}, func(ev *history.Event) {
		r := *ev.Replica
		r.Wanted, r.Exit = false, "exit status 3"
		ev.Replica = &r
	})
	if w := Judge(e, h).Warnings; !slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "r1.2 ended by itself") }) {
		t.Errorf("warnings %q", w)
	}
}
