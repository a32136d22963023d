package rehearsal

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/advicetest"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/scenarios"
)

// No advice names what the file has: over all scenarios with some seeds each, judged as if they had been live, against what they promise
// and against limits that they may meet or not. Random drills are held to the same (verdicts).
func TestNoAdviceOnAScenarioNamesWhatItHas(t *testing.T) {
	roomy(t)
	told := 0
	for _, s := range scenarios.List() {
		e := load(t, s.Name)
		if e.Observed() { // which is not rehearsed
			continue
		}
		e.SLOs = slices.DeleteFunc(e.SLOs, func(s experiments.SLO) bool { return s.Metric != nil })
		promised := slices.Clone(e.SLOs)
		for seed := range int64(5) {
			e.SLOs = slices.Concat(promised, limits(e, rand.New(rand.NewPCG(uint64(seed), 7))))
			for i := range e.System.Locks {
				e.SLOs = append(e.SLOs,
					experiments.SLO{Lock: e.System.Locks[i].Name, Takeover: &experiments.DurationLimits{P99: experiments.Within(e.System.Locks[i].Policy.TTL).Max}},
					experiments.SLO{Lock: e.System.Locks[i].Name, LossToFence: experiments.AtMost(e.System.Locks[i].Policy.TTL / 2)},
					experiments.SLO{Lock: e.System.Locks[i].Name, Abandonment: &experiments.AbandonmentLimits{Missed: experiments.AtMost(0), Late: experiments.AtMost(0), Needless: experiments.AtMost(0)}})
			}
			d, err := New(e, sim.DefaultNet()).Run(context.Background(), seed)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", s.Name, seed, err)
			}
			idle, n := advicetest.Idle(e, analysis.FactsOf(e, d.History).AsLive().Judge())
			for _, says := range idle {
				t.Errorf("%s, seed %d: %s", s.Name, seed, says)
			}
			told += n
		}
	}
	if told < 1000 {
		t.Errorf("%d pieces of advice: this test looks in the wrong place", told)
	}
}
