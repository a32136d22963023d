package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

const (
	predictJobs   = 1000 // of a stream: more make a takeover no other, and leave time for fewer rehearsals
	predictSeeds  = 100
	predictWithin = 3 * time.Second  // a drill does not wait longer for more rehearsals
	predictAtMost = 15 * time.Second // nor longer for a single one: a busy machine takes seconds for some milliseconds of work
)

// predict rehearses the drill at its own time scale, in a network as it was just calibrated: what its takeovers are held against.
func (d *Drill) predict(ctx context.Context) *history.Prediction {
	if len(d.e.System.Worker) > 0 {
		return &history.Prediction{Why: "system.worker is not rehearsed"}
	}
	if why := rehearsal.Unable(d.e); why != "" {
		return &history.Prediction{Why: why}
	}
	for i := range d.e.Faults {
		if why := rehearsal.WhyNot(&d.e.Faults[i]); why != "" {
			return &history.Prediction{Why: fmt.Sprintf("fault %s is not rehearsed: %s", d.e.Faults[i].ID, why)}
		}
	}
	return predicted(ctx, func(ctx context.Context, seeds int64) (*history.Prediction, error) {
		return rehearsal.Predict(ctx, thinned(d.loaded), d.net, seeds)
	})
}

// predicted is what rehearse gives in time: of many seeds, or, where not one of the many came to its end, of a single one, which has the
// machine to itself and more time.
func predicted(ctx context.Context, rehearse func(context.Context, int64) (*history.Prediction, error)) *history.Prediction {
	for _, try := range []struct {
		seeds  int64
		within time.Duration
	}{{predictSeeds, predictWithin}, {1, predictAtMost}} {
		within, cancel := context.WithTimeout(ctx, try.within)
		body, err := rehearse(within, try.seeds)
		cancel()
		switch {
		case err == nil:
			return body
		case ctx.Err() != nil:
			return &history.Prediction{Why: "the run was interrupted before its rehearsals had ended"}
		case !overdue(err):
			return &history.Prediction{Why: fmt.Sprintf("a rehearsal of this drill failed: %v", err)}
		}
	}
	return &history.Prediction{Why: fmt.Sprintf("no rehearsal of this drill ended within %s on this machine; the verdict does not need one", predictAtMost)}
}

// thinned is e with fewer jobs, spread over the same time.
func thinned(e *experiments.Experiment) *experiments.Experiment {
	t := *e
	t.System.Work = slices.Clone(e.System.Work)
	for i := range t.System.Work {
		if w := &t.System.Work[i]; w.Jobs > predictJobs {
			w.Rate, w.Jobs = w.Rate*predictJobs/float64(w.Jobs), predictJobs
		}
	}
	return &t
}

// Network is the network that was measured.
func Network(c history.Calibration) sim.Net {
	return sim.Net{Least: time.Duration(c.RTT50 / 2), Most: time.Duration(c.RTT99 / 2), Late: time.Duration(c.Timer99)}
}
