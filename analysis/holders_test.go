package analysis

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// askedFor is an observed election of which by named the holders. Its leader, as far as that goes, is killed at 21.3 and surely dead at
// 21.7; its lease is extended once more at extended, if that is not 0.
func askedFor(t *testing.T, by string, extended float64) *verdict.Judgement {
	t.Helper()
	tape := podsObserved(1 + extended/2)
	if extended != 0 {
		tape.lease(extended, want{"leader", "billing", 15}, "e1", "r1.1")
	}
	e, _ := load(t, "pods-observed-lease")
	h := tape.history(t)
	edit(h, func(ev *history.Event) bool { return ev.Look != nil }, func(ev *history.Event) { ev.Look.By = by })
	return Judge(e, h)
}

// Whoever was said to hold died, and the lease goes on: somebody else extends it. A name in the value itself may be the next life's too.
func TestAnExtensionAfterDeathSaysThatAnotherHeld(t *testing.T) {
	for _, c := range []struct {
		by       string
		extended float64
		wrong    bool
	}{
		{"client", 0, false},
		{"client", 22.0, false}, // sent before the death, perhaps
		{"client", 30, true},
		{"log", 30, true},
		{"value", 30, false},
		{"", 30, false},
	} {
		j := askedFor(t, c.by, c.extended)
		found := slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return f.Code == verdict.FindingWrongVictim })
		if found != c.wrong {
			t.Errorf("%+v: findings %+v", c, j.Findings)
		}
		if r := row(t, j, "leader", "takeover.max"); c.wrong && (r.N != 0 || r.Verdict != verdict.Inconclusive || !strings.Contains(r.Why, "another replica held the lock")) {
			t.Errorf("%+v: n %d, %s: %s", c, r.N, r.Verdict, r.Why)
		}
		if want := map[string]int{c.by: 2}; c.by != "" && !maps.Equal(j.HoldersBy, want) || c.by == "" && j.HoldersBy != nil {
			t.Errorf("%+v: holders by %v", c, j.HoldersBy)
		}
	}
}

// Sources that disagree name nobody: the shot is void, and one finding for the epoch says which of them says what.
func TestADisputedHolderIsAFindingAndVoid(t *testing.T) {
	const said = "client says r1.1, log says r2.1"
	tape := onlyWatched("a lock of which sources name several holders")
	tape.held(1, 20.5, "e1", "")
	tape.shot("kill-leader#1", "kill", "after_renew", "")
	tape.shots["kill-leader#1"] = history.Fault{ID: "kill-leader", Shot: 1, Kind: "kill", Why: history.HolderDisputed, Detail: said}
	tape.fault(21.3, 21.3, history.FaultVoid, "kill-leader#1", "e1")
	tape.overObserved(75)
	e, _ := load(t, "pods-observed-lease")
	h := tape.history(t)
	edit(h, func(ev *history.Event) bool { return ev.Look != nil }, func(ev *history.Event) { ev.Look.Disputed = said })
	j := Judge(e, h)
	if len(j.Findings) != 1 || j.Findings[0].Code != verdict.FindingDisputedHolder || !strings.Contains(j.Findings[0].What, said) {
		t.Errorf("findings %+v", j.Findings)
	}
	r := row(t, j, "leader", "takeover.max")
	if r.Verdict != verdict.Inconclusive || !strings.Contains(r.Why, "disputed holder: "+said) || !strings.Contains(r.Next, "system.holder") {
		t.Errorf("%s: %s; %s", r.Verdict, r.Why, r.Next)
	}
}
