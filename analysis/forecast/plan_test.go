package forecast

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// plannedDrill is a leader loop and faults that are not in the order of their times.
func plannedDrill() *experiments.Experiment {
	limit := 95 * time.Second
	return &experiments.Experiment{
		Name: "p", TimeScale: 0.1,
		System:      experiments.System{Replicas: 3, Locks: []experiments.Lock{planLock()}},
		SteadyState: experiments.SteadyState{For: 2 * time.Second},
		Faults: []experiments.Fault{
			{ID: "slow", At: 100 * time.Second, For: 50 * time.Second, Repeat: experiments.Repeat{Count: 3, Every: 200 * time.Second},
				Spec: &fault.Latency{Aim: fault.Aim{All: true}, Add: time.Second, Stream: fault.StreamDown}},
			{ID: "kill", At: 10 * time.Second, Repeat: experiments.Repeat{Count: 5, Settled: true}, Spec: &fault.Kill{HolderOf: "loop", Phase: fault.RandomPhase, How: "crash"}},
		},
		Limits: experiments.RunLimits{MaxKills: 10, MaxRun: time.Minute},
		SLOs:   []experiments.SLO{{Lock: "loop", Takeover: &experiments.DurationLimits{Bound: *experiments.AtMost(limit), P90: &limit}}},
	}
}

func planLock() experiments.Lock {
	l, err := experiments.Profile("cordum/scheduler-reconciler")
	if err != nil {
		panic(err)
	}
	l.Name = "loop"
	return *l
}

func TestPlanOf(t *testing.T) {
	e := plannedDrill()
	p := PlanOf(e)
	if len(p.Timeline) != 2 || p.Timeline[0].ID != "kill" || p.Timeline[1].ID != "slow" {
		t.Fatalf("timeline %+v, want the kill first", p.Timeline)
	}
	slow := p.Timeline[1]
	if slow.At != 100 || slow.For != 50 || slow.Every != 200 || slow.Shots != 3 || slow.Whom != "every replica" || slow.Does == "" {
		t.Errorf("planned %+v, want the numbers of the file", slow)
	}
	if len(p.Quantiles) != 1 || p.Quantiles[0].Quantile != "p90" || p.Quantiles[0].Need != 29 || p.Quantiles[0].Declared != 5 {
		t.Errorf("quantiles %+v", p.Quantiles)
	}
	if len(p.Bands) != 1 || p.Bands[0].Hi < 90 {
		t.Errorf("bands %+v, want them in the numbers of the file", p.Bands)
	}
}

// The duration is real: scaled where the drill is. A series of shots at 100 s, 300 s and 500 s of 50 s each ends at 55 s.
func TestPlannedDuration(t *testing.T) {
	e := plannedDrill()
	d := PlanOf(e).Duration
	if d.SteadyState != 2 || d.MaxRun != 60 {
		t.Errorf("%+v: the steady state and max_run are not scaled", d)
	}
	if d.Faults < 5*4.7 { // five takeovers in the middle of a band up to 94 s, scaled
		t.Errorf("faults take %g", d.Faults)
	}
	if want := Horizon(experiments.Scale(e), "").Seconds(); d.Horizon != want || d.Expected != d.SteadyState+d.Faults+want {
		t.Errorf("%+v, want a horizon of %g and the sum", d, want)
	}
	e.Faults = e.Faults[:1]
	if d := PlanOf(e).Duration; d.Faults != 55 {
		t.Errorf("the latencies take %g, want 55", d.Faults)
	}
	e.System.Work = []experiments.Work{{Lock: "loop", Jobs: 1000, Rate: 1}}
	if d := PlanOf(e).Duration; d.Jobs != 100 || d.Expected != 100 {
		t.Errorf("%+v, want the jobs to take the longest", d)
	}
}
