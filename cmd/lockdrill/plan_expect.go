package main

import (
	"context"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/rehearsal"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// plan rehearses a file with expectations a few times, which tells whether its faults can provoke them.
const (
	planSeeds  = 5
	planWithin = 10 * time.Second
)

// planExpected notes what rehearsals of e say of its expectations; nothing where it has none, cannot be rehearsed, or takes too long.
func planExpected(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) {
	if len(e.Expect) == 0 || rehearsal.Unable(e) != "" {
		return
	}
	for i := range e.Faults {
		if rehearsal.WhyNot(&e.Faults[i]) != "" {
			return
		}
	}
	ctx, stop := context.WithTimeout(ctx, planWithin)
	defer stop()
	all, err := rehearsal.Many(ctx, rehearsal.RealTime(e), sim.DefaultNet(), planSeeds, nil)
	if err != nil {
		return
	}
	plan.Expected, plan.Rehearsed = all.Document().Expected, all.Seeds
}

// cannotProvoke reports an expectation that no rehearsal met.
func cannotProvoke(plan *forecast.Plan) bool {
	for _, x := range plan.Expected {
		if x.Missed == plan.Rehearsed {
			return true
		}
	}
	return false
}
