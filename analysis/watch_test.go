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

// A drill without a fault is a watch: what needs no fault is answered of the whole of it, and passes only where a late breach would have
// shown. A drill whose fault was never fired answers nothing.
func TestADrillWithoutAFaultIsAWatch(t *testing.T) {
	none := &experiments.CountLimit{Bound: *experiments.AtMost(0)}
	rows := []experiments.SLO{{Lock: "job", DuplicateTerminalStates: none}, {Lock: "job", Stranded: none}}
	for _, c := range []struct {
		name     string
		declared bool
		change   func(*experiments.Experiment, *history.History)
		want     verdict.Verdict
	}{
		{"a watch", false, nil, verdict.Pass},
		{"a fault that was not fired", true, nil, verdict.Inconclusive},
		{"ended before a late breach shows", false, func(e *experiments.Experiment, _ *history.History) { e.System.Work[0].Redeliver = time.Hour }, verdict.Inconclusive},
	} {
		e, h := load(t, "good-drill")
		e.SLOs, e.Expect = rows, nil
		if !c.declared {
			e.Faults = nil
		}
		h.Events = slices.DeleteFunc(h.Events, func(ev history.Event) bool { return strings.HasPrefix(string(ev.Kind), "fault.") })
		if c.change != nil {
			c.change(e, h)
		}
		j := Judge(e, h)
		for _, r := range j.SLOs {
			if r.Verdict != c.want {
				t.Errorf("%s: %s is %s: %s", c.name, r.Measure, r.Verdict, r.Why)
			}
		}
	}
}

// Without a fault, a tick gap is the longest stretch without a tick in the whole watch, from the steady state to the final reads. One that the
// watch itself cuts short counts where it is longer than any other, and a watch no longer than its limit answers nothing.
func TestTheTickGapOfAWatch(t *testing.T) {
	file := strings.NewReplacer("faults:\n  - {id: kill-job, kill: {holder_of: job}}\n", "", "takeover: {max: 60s}", "stranded: {max: 0}").Replace(somebodys)
	all := func(float64) bool { return true }
	for _, c := range []struct {
		name       string
		limit      float64
		ticks      func(at float64) bool
		want       verdict.Verdict
		lo, hi     float64
		stretches  int
		tooShortly bool
	}{
		{"every 10 s", 12, all, verdict.Pass, 9.9, 10.1, 11, false},
		{"every 10 s, and less is promised", 8, all, verdict.Fail, 9.9, 10.1, 11, false},
		{"three are missing", 12, func(at float64) bool { return at < 40 || at > 65 }, verdict.Fail, 39.9, 40.1, 8, false},
		{"none after a while", 12, func(at float64) bool { return at < 50 }, verdict.Fail, 75.9, 76.1, 5, false},
		{"none before a while", 12, func(at float64) bool { return at > 50 }, verdict.Fail, 50.9, 51.1, 7, false},
		{"none at all", 12, func(at float64) bool { return at < 3 }, verdict.Fail, 114, 120, 1, false},
		{"a watch shorter than the limit", 200, all, verdict.Inconclusive, 9.9, 10.1, 11, true},
	} {
		r, _ := struckAsWatched(t, file, experiments.SLO{TickGap: atMostSeconds(c.limit)}, func(tp foreignTape) {
			tp.holds(1, 0, pollerKey, "l1", "r1.1")
			for at := 2.0; at < 120; at += 0.5 {
				if int(at*2)%20 == 8 && c.ticks(at) || at == 2.5 {
					tp.effect(at, pollerKey, said{token: "l1"})
				}
			}
		})
		lacks := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingHorizon })
		if r.Verdict != c.want || r.Lo < c.lo || r.Hi == nil || *r.Hi > c.hi || r.N != c.stretches || lacks != c.tooShortly {
			t.Errorf("%s: %s: %g to %v in %d, %q, %q, lacks %+v", c.name, r.Verdict, r.Lo, r.Hi, r.N, r.Why, r.Next, r.Missing)
		}
	}
}
