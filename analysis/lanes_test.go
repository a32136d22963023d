package analysis

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// What is drawn is what was judged: the lanes' trials are the judgement's takeovers, and their instants give the same figures.
func TestLanesAgreeWithTheJudgement(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			e, h := load(t, name)
			j := Judge(e, h)
			l := FactsOf(e, h).Lanes(j)
			if len(l.Trials) != len(j.Takeovers) || len(l.Faults) != len(j.Faults) {
				t.Fatalf("%d trials and %d faults are drawn of %d and %d", len(l.Trials), len(l.Faults), len(j.Takeovers), len(j.Faults))
			}
			for i := range l.Faults {
				if !reflect.DeepEqual(l.Faults[i].FaultResult, j.Faults[i]) {
					t.Errorf("fault %d is drawn as %+v, and judged as %+v", i, l.Faults[i].FaultResult, j.Faults[i])
				}
			}
			for i := range l.Trials {
				agree(t, &l.Trials[i], &j.Takeovers[i])
			}
		})
	}
}

// The end of a pod's process is drawn where it was seen, not halfway between it and the call.
func TestAPodsFaultIsDrawnUntilItsProcessEnded(t *testing.T) {
	e, h := load(t, "pods-force-delete-overlap")
	l := FactsOf(e, h).Lanes(Judge(e, h))
	for _, over := range []verdict.Moment{l.Faults[0].Over, *l.Trials[0].Over} {
		if over.From < 13.05 || over.To > 13.13 {
			t.Errorf("over at %+v: its last sign of life was at 13.06s, its end was seen by 13.12s", over)
		}
	}
}

func agree(t *testing.T, lane *verdict.TrialLane, want *verdict.Takeover) {
	t.Helper()
	if !reflect.DeepEqual(&lane.Takeover, want) {
		t.Errorf("drawn as %+v, judged as %+v", lane.Takeover, *want)
	}
	if lane.Fault == "" {
		return
	}
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-8 {
			t.Errorf("takeover %d: %s is drawn as %.9fs, judged as %.9fs", lane.Number, what, got, want)
		}
	}
	whole := want.Whole()
	span := func(what string, a, b verdict.Moment, r *verdict.Range) {
		t.Helper()
		if r == nil {
			return
		}
		most := math.Inf(1) // no part is longer than the whole, whatever the brackets of its ends allow
		if whole.Hi != nil {
			most = *whole.Hi
		}
		same(what+" (lo)", min(most, max(0, b.From-a.To)), r.Lo)
		if r.Hi != nil {
			same(what+" (hi)", min(most, max(0, b.To-a.From)), *r.Hi)
		}
	}
	if lane.Ended == nil {
		if !want.Censored {
			t.Errorf("takeover %d has no end and is not censored", lane.Number)
		}
		same("takeover (lo)", max(0, lane.Until-lane.Clock.To), want.Lo)
		return
	}
	span("takeover", lane.Clock, *lane.Ended, &whole)
	span("residual", lane.Clock, lane.Held.End, want.Residual)
	if lane.Next != nil {
		span("pickup", lane.Held.End, lane.Next.Granted, want.Pickup)
		span("warm-up", lane.Next.Granted, *lane.Ended, want.Warmup)
	}
}

// Nobody tells of belief in an observed system. Its holder is whom looks or a fault name, until its death or the end of the lease.
func TestAnObservedHolderHoldsUntilItsDeath(t *testing.T) {
	const died = 21.7
	never := math.Inf(1)
	for _, c := range []struct {
		name     string
		by       string  // who names the holder
		extended float64 // when the lease of the dead is extended; 0 = never
		named    bool    // looks name holders
		first    string  // whose the first lease is
		second   string
		until    float64 // the end of the first holder; infinite = the end of the lease
	}{
		{"looks name it", "client", 0, true, "r1.1", "r2.1", died},
		{"another extends its lease", "client", 30, true, "", "r2.1", never},
		{"its next life extends its lease", "value", 30, true, "r1.1", "r2.1", never},
		{"only the fault names it", "", 0, false, "r1.1", "", died},
	} {
		t.Run(c.name, func(t *testing.T) {
			tape := podsObserved(1 + c.extended/2)
			if c.extended != 0 {
				tape.lease(c.extended, want{"leader", "billing", 15}, "e1", "r1.1")
			}
			e, _ := load(t, "pods-observed-lease")
			h, err := history.Read(bytes.NewReader(tape.lines("pods-observed-lease", digest(t, "pods-observed-lease"))))
			if err != nil {
				t.Fatal(err)
			}
			edit(h, func(ev *history.Event) bool { return ev.Look != nil }, func(ev *history.Event) {
				if ev.Look.By = c.by; !c.named {
					ev.Look.Holder = ""
				}
			})
			holds := FactsOf(e, h).Lanes(Judge(e, h)).Locks[0].Keys[0].Holds
			if len(holds) != 2 || holds[0].Held == nil || holds[1].Held == nil {
				t.Fatalf("holds %+v", holds)
			}
			if holds[0].Replica != c.first || holds[1].Replica != c.second {
				t.Errorf("held by %q and %q, want %q and %q", holds[0].Replica, holds[1].Replica, c.first, c.second)
			}
			if want := min(c.until, holds[0].End.To); holds[0].Held.To != want {
				t.Errorf("the first holder held until %+v, its lease ended at %+v, want %v", *holds[0].Held, holds[0].End, want)
			}
			if *holds[1].Held != holds[1].End {
				t.Errorf("the second holder held until %+v, its lease ends at %+v", *holds[1].Held, holds[1].End)
			}
		})
	}
}
