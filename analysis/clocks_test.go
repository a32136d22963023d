package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// shifted moves all that a replica says by so many seconds; what others see of it stays.
func (t *tape) shifted(rep string, by float64) {
	for i := range t.events {
		if ev := &t.events[i]; ev.Source == rep {
			ev.Span = ev.Add(ns(by))
		}
	}
}

// Stamps that the ledger and the looks contradict make all that their incarnation claims as uncertain as they are, in one finding: what had
// more room than that still passes, what had less is open, and nothing fails by it.
func TestAClockThatEvidenceContradicts(t *testing.T) {
	for _, by := range []float64{0, -0.05, 0.05} {
		j := testifiedBy(t, drilled("stamps that are off", func(tp *tape) {
			tp.seenJob(10, 3, "r3.1", 1, "a1", "j1", 11)
			tp.seenJob(13.02, 3, "r2.1", 1, "b1", "j1b", 12)
			// Worked until 70 ms before its lease's end, by the 60 s that the client reckons with.
			tp.grant(20, "r2.1", jobs(2), "b2", 13)
			tp.look(20.003, jobs(2), "b2", 60)
			tp.enter(20.002, "b2", "j2")
			tp.exit(79.930, "b2", "j2", "done")
			tp.release(79.932, "b2")
			tp.look(79.936, jobs(2), "", 0)
			tp.shifted("r2.1", by)
		}))
		verdicts := map[string]verdict.Verdict{}
		for _, r := range j.SLOs {
			verdicts[r.Measure] = r.Verdict
		}
		if by == 0 {
			passes(t, "in time", j)
			continue
		}
		if len(j.Findings) != 1 || !strings.Contains(j.Findings[0].What, "r2.1: ") || !strings.Contains(j.Findings[0].What, "claims lie at least 4") || len(j.Findings[0].Evidence) < 4 {
			t.Errorf("%gs: %+v", by, j.Findings)
		}
		if verdicts["fence_lag"] != verdict.Inconclusive || verdicts["overlap.effect"] != verdict.Pass {
			t.Errorf("%gs: %v", by, verdicts)
		}
		for m, v := range verdicts {
			if v == verdict.Fail {
				t.Errorf("%gs: %s fails", by, m)
			}
		}
	}
}

// One outlier widens; what it widens by is the distance and what the witness and the call leave open.
func TestOneOutlierWidens(t *testing.T) {
	ix := faulted(t, func(tp *tape) {
		tp.grant(1, "r1.1", leader, "a", 1)
		tp.look(1.2, leader, "a", 6) // not there at 1.195
		tp.renew(3, "a")
		tp.grant(20, "r2.1", leader, "b", 2)
	})
	e := ix.Keys[leader.key].Find("a")
	apart, by := ns(0.194), ns(0.194+0.006+0.001)
	if got := e.Renewals[0].Span; got != (history.Span{From: ns(3) - by, To: ns(3.001) + by}) {
		t.Errorf("the renewal is in %v, want it %d ns wider", got, by)
	}
	if e.Granted.From < ns(1.195) || e.Granted.To > ns(1.201) {
		t.Errorf("granted in %v: evidence narrows", e.Granted)
	}
	if c := ix.Keys[leader.key].Find("b").Acquires[0].Span; c.Width() != ns(ms) {
		t.Errorf("another's call is %d ns wide", c.Width())
	}
	if len(ix.Findings) != 1 || !strings.Contains(ix.Findings[0].What, "1 claim lies at least 194ms away") || apart != ns(0.194) {
		t.Errorf("%+v", ix.Findings)
	}
}
