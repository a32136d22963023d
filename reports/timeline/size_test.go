package timeline

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/rehearsal"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

const (
	maxOverview   = 300_000 // bytes
	maxAllTrials  = 600_000
	maxAllPicture = 1_200_000 // of a report that must stay under 2 MB
)

func sizes(t *testing.T, r run) {
	t.Helper()
	overview, trials, all := 0, 0, 0
	for _, p := range r.pictures() {
		n := len(p.SVG)
		all += n
		switch {
		case p.ID == "overview":
			overview += n
		case len(p.ID) > 5 && p.ID[:5] == "trial":
			trials += n
		}
	}
	t.Logf("overview %d, trials %d, all %d bytes", overview, trials, all)
	if overview > maxOverview || trials > maxAllTrials || all > maxAllPicture {
		t.Errorf("overview %d, trials %d, all %d bytes: more than %d, %d, %d", overview, trials, all, maxOverview, maxAllTrials, maxAllPicture)
	}
}

// A drill of some minutes with 60 kills and 500 jobs, in virtual time.
func TestSizeOfADrillWithManyKills(t *testing.T) {
	e, err := experiments.Load("../../scenarios/first-drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.System.Work {
		e.System.Work[i].Jobs, e.System.Work[i].Rate = 500, 5
	}
	for i := range e.Faults {
		e.Faults[i].Repeat.Count = 30
	}
	e.Limits.MaxRun, e.Limits.MaxKills = time.Hour, 1000
	d, err := rehearsal.New(e, sim.DefaultNet()).Run(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := judged(e, d.History)
	check(t, r.pictures())
	sizes(t, r)
	if n := len(r.j.Takeovers); n < 60 {
		t.Errorf("%d takeovers: the drill is too small to show anything", n)
	}
}

// Two hours with a kill every 20 seconds and a grant every 2: nothing grows with the length of a run.
func TestSizeOfALongRun(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 1)), 7200}
	l := &Lanes{Seconds: d.length, TimeScale: 1, Live: true}
	at := func(s float64) Moment { return Moment{From: s, To: s + 1e-3} }
	leader := KeyLane{Key: "leader"}
	jobs := LockLane{Lock: "job"}
	lanes := []ReplicaLane{{Name: "r1"}, {Name: "r2"}, {Name: "r3"}}
	for s := 1.0; s < d.length-20; s += 20 {
		victim := d.replica()[:2] + ".1"
		held := Hold{Epoch: "e", Replica: "r1.1", Granted: at(s - 8), Held: &Moment{From: s, To: s}, End: at(s + 5)}
		struck, ended := at(s), at(s+7)
		hi := 7.001
		x := verdict.Takeover{Lock: "leader", Key: "leader", Fault: "kill#" + count(int(s)), Victim: victim, Successor: "r2.1", Lo: 7, Hi: &hi,
			Residual: &verdict.Range{Lo: 5, Hi: &hi}, Pickup: &verdict.Range{Lo: 2, Hi: &hi}, Class: "crash", End: "effect"}
		l.Trials = append(l.Trials, TrialLane{Number: len(l.Trials) + 1, Takeover: x, Struck: &struck, Clock: struck, Held: held, Ended: &ended})
		l.Faults = append(l.Faults, FaultLane{Op: x.Fault, Applied: &struck, Over: struck,
			FaultResult: verdict.FaultResult{ID: "kill", Victim: victim, Confirmed: true, Effective: &verdict.Window{From: s, To: &s}}})
		leader.Holds = append(leader.Holds, held)
	}
	for s := 1.0; s < d.length; s += 2 {
		r := &lanes[d.IntN(3)]
		h := Hold{Replica: r.Name + ".1", Granted: at(s), Held: &Moment{From: s + 3, To: s + 3}, End: at(s + 3)}
		jobs.Keys = append(jobs.Keys, KeyLane{Key: "job-" + count(int(s)), Holds: []Hold{h}})
		work := Extent{Start: at(s), End: at(s + 1.5)}
		r.Lives = append(r.Lives, Life{Incarnation: h.Replica, Extent: work, Killed: "kill", Belief: []Extent{work},
			Work: []Extent{work}, Effects: []Moment{at(s), at(s + 1.5)}})
	}
	l.Locks = []LockLane{{Lock: "leader", Keys: []KeyLane{leader}}, jobs}
	l.Replicas = lanes
	r := run{&experiments.Experiment{}, d.judgement(l), l}
	check(t, r.pictures())
	sizes(t, r)
}
