package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Answers that are given seldom, each with the least that makes it appear (docs/oracles.md).

// has reports that something is missing by that code.
func has(ms []verdict.Missing, code verdict.MissingCode) bool {
	return slices.ContainsFunc(ms, func(m verdict.Missing) bool { return m.Code == code })
}

// Each row names what it counts where there was none of it: nobody ever held the lock.
func TestARowSaysOfWhatThereWasNone(t *testing.T) {
	asked := strings.Replace(fourKills, "takeover: {max: 12s, p90: 12s}}", `takeover: {max: 12s}}
  - {lock: leader, overlap: {level: belief, max: 0s}}
  - {lock: leader, overlap: {level: work, max: 0s}}
  - {lock: leader, overlap: {level: effect, max: 0}}
  - {lock: leader, stale_writes: {max: 0}}
  - {lock: leader, abandonments: {max: 0}}
  - {lock: leader, abandonment: {missed: 0}}
  - {lock: leader, fence_lag: {max: 1s}}
  - {lock: leader, unowned_work: {max: 0s}}
  - {lock: leader, loss_to_fence: {max: 1s}}
  - {lock: leader, blocked: {max: 1s}}
  - {lock: leader, busy: {count: 1}}
  - {lock: leader, lock_debt: {max: 1s}}
  - {lock: leader, orphan_acquires: {max: 0}}
  - {lock: leader, not_owned: {renew: 0.05}}
  - {lock: leader, failed_releases: {calls: 0.05}}
  - {lock: leader, foreign_releases: {max: 0}}
  - {lock: leader, duplicate_epochs: {max: 0}}
  - {lock: leader, vanished: {max: 0}}
  - {lock: leader, fence_regressions: {max: 0}}
  - {lock: leader, held: {max: 1s}}`, 1)
	tp := newTape("nobody ever takes the lock")
	tp.start(0.1, "r1.1", "r2.1")
	tp.phase(0.2, history.PhaseSteady)
	tp.phase(5, history.PhaseFaults)
	tp.finale(14, 60, "r1.1", "r2.1")
	e, h := recorded(t, asked, tp)
	j := Judge(e, h)
	table, told := measures(), map[verdict.MissingCode]bool{}
	for i := range j.SLOs {
		r := &j.SLOs[i]
		m := table[rowFor(table, r.Question)]
		if r.Verdict != verdict.Inconclusive {
			t.Errorf("%s of a lock that nobody held is %s: %s", r.Measure, r.Verdict, r.Why)
		}
		for _, of := range r.Missing {
			told[of.Code] = true
		}
		if m.none != "" && !has(r.Missing, m.none) {
			t.Errorf("%s does not say that there was none of it (%s): %+v", r.Measure, m.none, r.Missing)
		}
	}
	for _, code := range []verdict.MissingCode{verdict.MissingFences, verdict.MissingValues} {
		if !told[code] {
			t.Errorf("no row lacks %s", code)
		}
	}
}

// Debts are held by their sum too, where each of them is short enough.
func TestDebtsTogether(t *testing.T) {
	e, h := load(t, "kept-after-end")
	total := experiments.SLO{Lock: "job", LockDebt: &experiments.DebtLimits{Total: experiments.AtMost(time.Millisecond)}}
	e.SLOs = []experiments.SLO{total}
	if r := Judge(e, h).SLOs[0]; r.Measure != "lock_debt.total" || r.Verdict != verdict.Fail {
		t.Errorf("%s is %s: %s", r.Measure, r.Verdict, r.Why)
	}
}

// A shot that counts for nothing says why, in the words of its reason.
func TestWhyAShotCountsForNothing(t *testing.T) {
	first := func(ev *history.Event) bool { return ev.Op == "kill-leader#1" }
	void := func(why history.VoidReason, detail string) func(*history.History) {
		return func(h *history.History) {
			h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool { return first(&ev) && ev.Kind == history.FaultConfirmed })
			edit(h, func(ev *history.Event) bool { return first(ev) && ev.Kind == history.FaultApplied }, func(ev *history.Event) {
				f := *ev.Fault
				f.Why, f.Detail = why, detail
				ev.Kind, ev.Fault = history.FaultVoid, &f
			})
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(*history.History)
	}{
		{"ended", "ended: its supervisor killed it", void(history.Ended, "its supervisor killed it")},
		{"error", "error: kill: operation not permitted", void(history.FaultFailed, "kill: operation not permitted")},
		{"budget", "blocked by a disruption budget: web", void(history.Budget, "web")},
		{"unknown holder", "unknown holder: no source answered", void(history.HolderUnknown, "no source answered")},
		{"disputed holder", "disputed holder: value says r1, log says r2", void(history.HolderDisputed, "value says r1, log says r2")},
		{"no time", "unconfirmed: " + history.RunEndedFirst, void(history.Unconfirmed, history.RunEndedFirst)},
		{"not replaced", "replica not replaced: r1.1 for 1m0s", void(history.NotReturned, "r1.1 for 1m0s")},
		{"never applied", "never applied", func(h *history.History) {
			h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool {
				return first(&ev) && (ev.Kind == history.FaultApplied || ev.Kind == history.FaultConfirmed)
			})
		}},
	} {
		e, h := recorded(t, fourKills, killedFourTimes(9))
		c.change(h)
		j := Judge(e, h)
		if f := j.Faults[0]; f.ID != "kill-leader" || !f.Void || f.Why != c.want {
			t.Errorf("%s: %q is void %t: %q, want %q", c.name, f.ID, f.Void, f.Why, c.want)
		}
	}
}

// A rolling restart that left a replica out says which, beside all else that the run lacks.
func TestARestartThatLeftOneOut(t *testing.T) {
	e, h := recorded(t, rolledDrill, rolledOver(true, true))
	r := row(t, Judge(e, h), "leader", "rolling.handovers")
	if !has(r.Missing, verdict.MissingRolled) {
		t.Errorf("%s: %+v", r.Why, r.Missing)
	}
	more := strings.Replace(rolledDrill, "handovers: 1", "handovers: 0", 1)
	e, h = recorded(t, more, rolledOver(true, false))
	if r := row(t, Judge(e, h), "leader", "rolling.handovers"); r.Verdict != verdict.Fail {
		t.Errorf("a hand-over where none may be is %s: %s", r.Verdict, r.Why)
	}
}

// A key that shows its epoch on after the lease had ended by all that its holder claims is a finding, but for the millisecond in which a
// store counts: the lease ends at 7.103 s at the latest, and the key was last seen 5 ms before it was gone.
func TestAKeyThatOutlivesItsLease(t *testing.T) {
	for gone, found := range map[float64]bool{7.1085: false, 7.1105: true, 9: true} {
		tp := newTape("a key that nobody renews, and that does not expire")
		tp.start(0.1, "r1.1", "r2.1")
		tp.phase(0.2, history.PhaseSteady)
		tp.grant(1, "r1.1", leader, "l0", 1)
		tp.look(1.1, leader, "l0", 5.9)
		tp.phase(5, history.PhaseFaults)
		tp.look(gone, leader, "", 0)
		tp.finale(14, 60, "r1.1", "r2.1")
		e, h := recorded(t, fourKills, tp)
		j := Judge(e, h)
		if slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return f.Code == verdict.FindingMissedExpiry }) != found {
			t.Errorf("gone at %v s: %+v", gone, j.Findings)
		}
	}
}

// A job's end before the kill leaves nothing owed, although the key is still taken.
func TestAKillAfterTheEndIsOwedNothing(t *testing.T) {
	_, j := scheduled(t, experiments.SLO{Takeover: atMostSeconds(3)}, func(tp foreignTape) {
		tp.effect(8.05, jobKey("1"), said{job: "1", state: "RUNNING", op: "o1", token: "a1"})
		tp.effect(9.5, jobKey("1"), said{job: "1", state: "DONE", op: "o2", token: "a1"})
	})
	if f := j.Faults[0]; !f.Void || !strings.HasPrefix(f.Why, "nothing owed") {
		t.Errorf("void %t: %q", f.Void, f.Why)
	}
}

// What nobody read at the end, what nobody offered, and lines that are gone: each is told by its name.
func TestWhatTheEndLacks(t *testing.T) {
	final := func(ev history.Event) bool { return ev.Coverage != nil && ev.Coverage.Final }
	e, h := load(t, "written-in-time")
	h.Events = slices.DeleteFunc(h.Events, final)
	if r := row(t, Judge(e, h), "job", "held.max"); !has(r.Missing, verdict.MissingLockRead) {
		t.Errorf("without a final read: %s %+v", r.Verdict, r.Missing)
	}

	file := strings.NewReplacer("lock: leader, takeover: {max: 12s, p90: 12s}", "lock: job, stranded: {max: 0}", "faults:\n", `    - name: job
      key_prefix: "j:"
      ttl: 6s
  work:
    - {lock: job, jobs: 5, rate: 1/s, hold: {p50: 1s, p99: 2s}, redeliver: 3s}
faults:
`).Replace(fourKills)
	e, h = recorded(t, file, killedFourTimes(9))
	if r := row(t, Judge(e, h), "job", "stranded"); !has(r.Missing, verdict.MissingOffers) {
		t.Errorf("without an offer: %s %+v", r.Verdict, r.Missing)
	}

	tp := burst(false)
	tp.followed(100, 0)
	tp.add(40, 41, history.Event{Kind: history.GapKind, Source: "probe:logs", Coverage: &history.Coverage{Probe: "logs", Why: "the log was rotated away", Lost: true}})
	e, _ = load(t, "metrics-agree")
	e.Probes.Logs = &experiments.Logs{MaxGap: 2 * time.Second, Patterns: map[string]string{"lost": "x"}}
	e.SLOs = []experiments.SLO{{Lock: "job", Logs: &experiments.LogLimit{Pattern: "lost", Bound: *experiments.AtMost(0)}}}
	if r := Judge(e, tp.history(t)).SLOs[0]; !has(r.Missing, verdict.MissingLogLines) {
		t.Errorf("with lines that are gone: %s %+v", r.Verdict, r.Missing)
	}
}
