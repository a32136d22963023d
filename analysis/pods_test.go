package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// widened is h as it would have been recorded from other machines: what replicas say of a time is right within by.
func widened(h *history.History, by int64) {
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Source != "runner" && !strings.HasPrefix(ev.Source, "probe:") && ev.Kind != history.FaultHit {
			if ev.Call != nil && ev.Outcome != "" {
				c := *ev.Call
				c.Answered, ev.Call = max(0, ev.To-by), &c
			}
			ev.Clock, ev.Span = history.ClockBounds, history.Span{From: max(0, ev.From-by), To: ev.To + by}
		}
	}
}

// Where clocks are known within bounds only, every range still holds what was measured with one clock, and no promise is broken by that.
func TestAWiderClockWidensAndNeverFails(t *testing.T) {
	rows := 0
	for name := range cases {
		for _, by := range []int64{2e6, 40e6} {
			e, h := load(t, name)
			before := Judge(e, h)
			widened(h, by)
			after := Judge(e, h)
			if len(after.Findings) > len(before.Findings) {
				t.Errorf("%s: findings that are none: %+v", name, after.Findings)
			}
			for i := range before.SLOs {
				compareWider(t, name, &before.SLOs[i], &after.SLOs[i])
				rows++
			}
			if name == "good-drill" && by < 10e6 && after.Verdict != "pass" {
				t.Errorf("%s: %s with clocks that are right within 2 ms", name, after.Verdict)
			}
		}
	}
	if rows < 300 {
		t.Errorf("%d rows were compared", rows)
	}
}

func compareWider(t *testing.T, name string, before, after *verdict.SLOResult) {
	t.Helper()
	if (before.Verdict == verdict.Fail) != (after.Verdict == verdict.Fail) && (after.Verdict == verdict.Fail || after.Verdict == verdict.Pass) {
		t.Errorf("%s: %s %s is %s, was %s: %s", name, after.Lock, after.Measure, after.Verdict, before.Verdict, after.Why)
	}
	wider := after.Lo <= before.Lo && (after.Hi == nil || before.Hi != nil && *after.Hi >= *before.Hi)
	if after.N == before.N && !wider { // else what is counted is not the same
		t.Errorf("%s: %s %s [%v, %v] does not hold [%v, %v]", name, after.Lock, after.Measure, after.Lo, orOpen(after.Hi), before.Lo, orOpen(before.Hi))
	}
}

// edited is a recorded history, changed.
func edited(t *testing.T, name string, edit func(e *experiments.Experiment, ev *history.Event)) *verdict.Judgement {
	t.Helper()
	e, h := load(t, name)
	for i := range h.Events {
		edit(e, &h.Events[i])
	}
	return Judge(e, h)
}

// Whether a release was applied whose answer nobody got is not known: the victim handed over at the call, or died with its lock.
func TestAReleaseWithoutAnAnswerIsNoProofOfAHandOver(t *testing.T) {
	e, h := load(t, "pods-graceful")
	edit(h, func(ev *history.Event) bool { return ev.Kind == history.ReleaseReturn && ev.Source == "r1.1" }, func(ev *history.Event) {
		c := *ev.Call
		c.Result, ev.Outcome, ev.Call = history.ResultError, history.Unknown, &c
	})
	if x := Judge(e, h).Takeovers[0]; x.Lo > 0 || *x.Hi < 11.20-11.01 {
		t.Errorf("[%v, %v]", x.Lo, *x.Hi)
	}
	edit(h, func(ev *history.Event) bool {
		return ev.Source == "r2.1" || ev.Entry != nil && ev.Entry.Writer == "r2.1"
	}, func(ev *history.Event) {
		ev.From, ev.To = ev.From+10e9, ev.To+10e9
	})
	if x := Judge(e, h).Takeovers[0]; x.Lo > 21.203-11.3 || *x.Hi < 21.2-11.01 {
		t.Errorf("10 s later: [%v, %v], and it died in [11.101, 11.3]", x.Lo, *x.Hi)
	}
}

func TestALogThatSaysMoreThanTheStreamIsAFinding(t *testing.T) {
	for lines, want := range map[int]bool{0: false, 2: true} {
		j := edited(t, "pods-force-delete-overlap", func(_ *experiments.Experiment, ev *history.Event) {
			if ev.Kind == history.ReplicaExit && ev.Replica.Incarnation == "r1.1" {
				ev.Replica.Unheard = lines
			}
		})
		found := len(j.Findings) == 1 && strings.Contains(j.Findings[0].What, "2 lines as acknowledged, but the stream")
		if found != want || len(j.Findings) > 0 != want || (row(t, j, "leader", "overlap.belief").Verdict == verdict.Pass) == want {
			t.Errorf("%d lines: findings %+v, belief %s", lines, j.Findings, row(t, j, "leader", "overlap.belief").Verdict)
		}
		if row(t, j, "leader", "takeover.max").Verdict != verdict.Pass {
			t.Errorf("%d lines: what the ledger shows is %s", lines, row(t, j, "leader", "takeover.max").Verdict)
		}
	}
}

// A Lease goes on naming its last holder when its time is up: that is no contradiction, and the lease has ended all the same. Given back,
// it is a hand-over.
func TestALeaseObjectThatIsGivenBackIsAHandOver(t *testing.T) {
	e, h := load(t, "pods-observed-lease")
	if j := Judge(e, h); len(j.Findings) > 0 || j.Takeovers[0].Residual.Lo > 15 || j.Takeovers[0].Pickup.Lo < 0.5 {
		t.Errorf("findings %+v, residual %+v", j.Findings, j.Takeovers[0].Residual)
	}
	for i := range h.Events {
		if ev := &h.Events[i]; ev.Look != nil && ev.Epoch == "e2" { // the first of them: released before it was taken
			prev := history.Span{From: 21.5e9, To: 21.502e9}
			*ev = history.Event{N: ev.N, Kind: history.LookKind, Span: history.Span{From: 21.6e9, To: 21.602e9}, Source: ev.Source, Lock: ev.Lock, Key: ev.Key,
				Look: &history.Look{Prev: &prev, Released: true}}
			break
		}
	}
	x := Judge(e, h).Takeovers
	if len(x) != 1 || x[0].Class != verdict.ClassHandOver {
		t.Fatalf("%+v", x)
	}
	if r := x[0].Residual; r.Lo > 21.5-21.306+1e-6 || *r.Hi < 21.602-21.3-1e-6 {
		t.Errorf("given back [%v, %v] after the call, want at any time between two looks", r.Lo, *r.Hi)
	}
}

// Whatever shows that the victim still lived, the shot or the fleet, it lived.
func TestASignOfLifeBoundsTheDeath(t *testing.T) {
	e, h := load(t, "pods-crash")
	edit(h, func(ev *history.Event) bool {
		return ev.Kind == history.ReplicaExit && ev.Replica.Incarnation == "r1.1"
	}, func(ev *history.Event) {
		ev.From -= 5e9
	})
	if x := Judge(e, h).Takeovers[0]; *x.Hi > 19.21-11.008+0.01 {
		t.Errorf("taken over within %v s of a death that came after 11.008 s", *x.Hi)
	}
	e, h = load(t, "pods-end-not-seen")
	edit(h, func(ev *history.Event) bool { return ev.Fault != nil && ev.Fault.Death != nil }, func(ev *history.Event) {
		d, f := *ev.Fault.Death, *ev.Fault
		d.Sign = 18e9
		f.Death, ev.Fault = &d, &f
	})
	if r := row(t, Judge(e, h), "leader", "overlap.belief"); r.Verdict != verdict.Fail || r.Lo < 0.6 || r.Lo > 0.7 {
		t.Errorf("it believed in its lock 0.7 s beside its successor: %s, from %v", r.Verdict, r.Lo)
	}
}

// What an observed holder gives back between two looks, or by deleting its key, looks like a lock that was taken from it. Taken from it it
// surely was only where it was dead by then.
func TestAnObservedLockThatWentEarlyMayHaveBeenGivenBack(t *testing.T) {
	for _, c := range []struct {
		taken   float64 // the look that first names the next holder
		deleted bool    // there was a look before it that showed nobody
		verdict verdict.Verdict
		why     string
	}{
		{taken: 21.6, verdict: verdict.Inconclusive, why: "whether its holder gave it back"}, // it died in [21.0, 21.7]
		{taken: 21.65, deleted: true, verdict: verdict.Inconclusive, why: "whether its holder gave it back"},
		{taken: 22.05, verdict: verdict.Fail, why: "false takeover"},
	} {
		tape := podsObserved(c.taken - 37.05 + 1)
		if c.deleted {
			tape.add(21.58, 21.582, history.Event{Kind: history.LookKind, Source: "probe:leases", Lock: "leader", Key: "billing",
				Look: &history.Look{PTTL: -2, Prev: &history.Span{From: ns(21.48), To: ns(21.482)}}})
		}
		e, _ := load(t, "pods-observed-lease")
		h := tape.history(t)
		j := Judge(e, h)
		if r := row(t, j, "leader", "takeover.max"); r.Verdict != c.verdict || !strings.Contains(r.Why, c.why) {
			t.Errorf("%+v: %s: %s", c, r.Verdict, r.Why)
		}
		if (j.Counts.FalseTakeovers > 0) != (c.verdict == verdict.Fail) {
			t.Errorf("%+v: %d false takeovers", c, j.Counts.FalseTakeovers)
		}
		for _, x := range j.Takeovers {
			if c.verdict != verdict.Fail {
				t.Errorf("%+v: listed as %s", c, x.Class)
			}
		}
		without(h, func(ev *history.Event) bool { return ev.Fault != nil || ev.Kind == history.ReplicaExit })
		if x := Judge(e, h).Takeovers; len(x) != 0 {
			t.Errorf("%+v: without a fault it is a %s", c, x[0].Class)
		}
	}
}

// Nobody claims to have renewed an observed lock: that its holder came through a fault of the store shows in looks.
func TestAnObservedHolderThatGoesOnHasRecovered(t *testing.T) {
	for name, c := range map[string]struct {
		until float64 // the last extension
		class string
	}{"extended afterwards": {75, verdict.ClassRecovery}, "never again": {21.5, verdict.ClassPause}} {
		tp := onlyWatched("the store of an observed lock is paused")
		tp.held(1, c.until, "e1", "r1.1")
		tp.strike(22, 25, "pause#1", "e1", history.Fault{Kind: "store", Form: "pause", Victim: history.VictimStore, Declared: 3e9})
		tp.overObserved(75)
		e, _ := load(t, "pods-observed-lease")
		e.Faults = []experiments.Fault{{ID: "pause", At: 11e9, For: 3e9, Spec: &fault.Store{Do: fault.StorePause}}}
		h := tp.history(t)
		j := Judge(e, h)
		if len(j.Takeovers) != 1 || j.Takeovers[0].Class != c.class || (row(t, j, "leader", "takeover.max").Verdict == verdict.Fail) != (c.class == verdict.ClassPause) {
			t.Errorf("%s: %+v, %+v", name, j.Takeovers, row(t, j, "leader", "takeover.max"))
		}
	}
}

// A holder that wakes up when its lease has run out may still take its name out: the lease ended before, and nothing is contradicted.
func TestALeaseThatIsGivenBackTooLate(t *testing.T) {
	e, h := load(t, "pods-observed-lease")
	edit(h, func(ev *history.Event) bool {
		return ev.Kind == history.ReplicaStart && ev.Replica.Incarnation == "r1.2"
	}, func(ev *history.Event) {
		*ev = history.Event{N: ev.N, Kind: history.LookKind, Span: history.Span{From: 36.5e9, To: 36.502e9}, Source: "probe:leases", Lock: "leader", Key: "billing",
			Look: &history.Look{PTTL: -2, Prev: &history.Span{From: 36.4e9, To: 36.402e9}, Released: true}}
	})
	if j := Judge(e, h); len(j.Findings) != 0 || j.Takeovers[0].Class != verdict.ClassCrash || *j.Takeovers[0].Residual.Hi > 15.2 {
		t.Errorf("%+v, %+v", j.Findings, j.Takeovers)
	}
}

// The final reads of an observed system begin with the first of its locks that was looked at for the last time.
func TestTheFinalReadsOfAnObservedSystemAreThoseOfAllItsLocks(t *testing.T) {
	e, _ := load(t, "pods-observed-lease")
	e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "other", Key: "other"})
	final := func(at int64) *facts.Coverage { s := history.At(at); return &facts.Coverage{Final: &s} }
	ix := &facts.Facts{Exp: e, Phases: map[string]*history.Event{history.PhaseFinal: {Span: history.At(10)}}, Probes: map[string]*facts.Coverage{experiments.ProbeLeases: final(30), experiments.ProbeKeys: final(40)}}
	if at, ok := ix.FinalAt(); !ok || at != 30 {
		t.Errorf("at %d, %t", at, ok)
	}
	delete(ix.Probes, experiments.ProbeKeys)
	if _, ok := ix.FinalAt(); ok {
		t.Error("keys were not looked at, and it is said that all were")
	}
}
