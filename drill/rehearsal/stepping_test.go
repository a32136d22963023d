package rehearsal

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
	"github.com/lockdrill/lockdrill/scenarios"
)

// stepped rehearses a seed. every > 0: beside the instants that the conductor asks for it is stepped that often, and must have nothing
// to say then.
func stepped(t *testing.T, e *experiments.Experiment, net sim.Net, seed int64, every time.Duration) *history.History {
	t.Helper()
	d := New(e, net).begin(seed)
	var look func()
	look = func() {
		if d.over {
			return
		}
		if out := d.c.Step(d.w.Now()); len(out) > 0 {
			t.Errorf("%s, seed %d, at %s: %+v, and nobody was to ask", e.Name, seed, time.Duration(d.w.Now()), out)
		}
		d.w.After(every, look)
	}
	if every > 0 {
		d.w.After(every, look)
	}
	if err := d.lead(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.finish()
	return d.h
}

// Next is exact: a conductor that is also stepped in between, every 50 ms, decides the very same at the very same instants. Each way
// in which time alone moves a drill on is among the experiments.
func TestStepsInBetweenChangeNothing(t *testing.T) {
	roomy(t)
	compare := func(e *experiments.Experiment, net sim.Net, seed int64) {
		t.Helper()
		if !reflect.DeepEqual(stepped(t, e, net, seed, 0), stepped(t, e, net, seed, 50*time.Millisecond+1)) {
			t.Errorf("%s, seed %d: another history", e.Name, seed)
		}
	}
	for _, s := range scenarios.List() {
		if e := load(t, s.Name); !e.Observed() { // which is not rehearsed
			compare(e, sim.DefaultNet(), 1)
		}
	}
	for seed := range uint64(120) {
		e, net := randomDrill(seed)
		compare(e, net, int64(seed))
		switch seed % 6 {
		case 0: // it is ended early
			e.Limits.MaxRun = 2*time.Second + time.Duration(seed)*time.Millisecond
		case 1: // the steady state comes and goes, or does not come
			net.Loss, e.SteadyState.For, e.SteadyState.Timeout = 0.4, 5*time.Second, 20*time.Second
		case 2: // a replica does not get ready in time
			e.Faults = append(e.Faults, experiments.Fault{ID: "gone", At: time.Second, For: 30 * time.Second,
				Spec: &fault.Store{Do: fault.StoreStop}})
			e.System.Restart = 0
		case 3: // nothing settles
			net.Loss = 0.7
		case 4: // far more jobs than a step gives out
			for i := range e.System.Work {
				e.System.Work[i].Jobs, e.System.Work[i].Rate = 1000, 200_000
				e.System.Work[i].Hold, e.System.Work[i].Redeliver = experiments.Hold{}, 300*time.Millisecond
			}
		default:
			continue
		}
		e.Name = fmt.Sprintf("%s, way %d", e.Name, seed%6)
		compare(e, net, int64(seed))
	}
}
