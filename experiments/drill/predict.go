package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/rehearsal"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

const (
	predictJobs   = 1000 // of a stream: more make a takeover no other, and leave time for fewer rehearsals
	predictSeeds  = 100
	predictWithin = 3 * time.Second // a drill does not wait longer for what it will be held against
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
	ctx, cancel := context.WithTimeout(ctx, predictWithin)
	defer cancel()
	body, err := rehearsal.Predict(ctx, thinned(d.loaded), d.net, predictSeeds)
	if err != nil {
		return &history.Prediction{Why: fmt.Sprintf("not one rehearsal within %s: %v", predictWithin, err)}
	}
	return body
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
