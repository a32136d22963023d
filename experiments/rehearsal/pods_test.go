package rehearsal

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// podDrill is a recorded drill of pods, as it was loaded.
func podDrill(t *testing.T, name string) *experiments.Experiment {
	t.Helper()
	e, err := experiments.Load("../../scenarios/testdata/" + name + "/experiment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestKillsOfOurOwnPodsAreRehearsedAsDeathsAtTheCall(t *testing.T) {
	for _, name := range []string{"pods-crash", "pods-force-delete-overlap"} {
		e := podDrill(t, name)
		d, err := New(e, sim.DefaultNet()).Run(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		j := analysis.Judge(e, d.History)
		if why := WhyNot(&e.Faults[0]); why != "" || Unable(e) != "" || len(j.Takeovers) != 1 || j.Takeovers[0].Class != verdict.ClassCrash {
			t.Errorf("%s: %q, takeovers %+v", name, why, j.Takeovers)
		}
		if told := Simpler(&e.Faults[0]) != ""; told != (name == "pods-force-delete-overlap") {
			t.Errorf("%s: what it leaves out is told: %v", name, told)
		}
	}
}

func TestWhatOfPodsCannotBeRehearsed(t *testing.T) {
	if why := Unable(podDrill(t, "pods-observed-lease")); !strings.Contains(why, "observe") {
		t.Errorf("observed: %q", why)
	}
	e := podDrill(t, "pods-graceful")
	d, err := New(e, sim.DefaultNet()).Run(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	voids := 0
	for _, ev := range d.History.Events {
		if ev.Kind == history.FaultApplied {
			t.Error("a graceful end was rehearsed as a kill")
		}
		if ev.Kind == history.FaultVoid {
			voids++
		}
	}
	if WhyNot(&e.Faults[0]) == "" || voids == 0 {
		t.Errorf("graceful: %d void shots", voids)
	}
}

// Pods begin one by one, so a fault that is due at a fixed time strikes at any moment of a lease. With processes, which begin together,
// it is nearly the same moment in each run, live too.
func TestPodsBeginApart(t *testing.T) {
	recoveries := func(e *experiments.Experiment) (lo, hi int64) {
		t.Helper()
		body, err := Predict(t.Context(), e, sim.DefaultNet(), 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range body.Takeovers {
			if p.Class == verdict.ClassRecovery && p.Hi != nil {
				return p.Lo, *p.Hi
			}
		}
		t.Fatalf("no recovery in %+v", body.Takeovers)
		return
	}
	e, err := experiments.Load("testdata/pods-network.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cycle := int64(e.System.Locks[0].Policy.RenewEvery)
	if lo, hi := recoveries(e); hi-lo < cycle*8/10 {
		t.Errorf("pods get over it after %d to %d ns: less than a renewal's cycle of %d", lo, hi, cycle)
	}
	e.Kubernetes = nil
	if lo, hi := recoveries(e); hi-lo > cycle*3/10 {
		t.Errorf("processes get over it after %d to %d ns", lo, hi)
	}
}
