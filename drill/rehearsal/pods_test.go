package rehearsal

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
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
		j := analysis.NewJudger(e).Judge(d.History)
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
}

// A replica that is asked to end stops its work, gives its lock back and ends; one that keeps its lock is taken over as after a crash.
func TestAGracefulEndIsRehearsedAsAHandOver(t *testing.T) {
	for release, class := range map[lockcore.ReleaseMode]string{lockcore.ReleaseSingle: verdict.ClassHandOver, lockcore.ReleaseNone: verdict.ClassCrash} {
		e := podDrill(t, "pods-graceful")
		e.System.Locks[0].Policy.Release.Mode = release
		d, err := New(e, sim.DefaultNet()).Run(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		j := analysis.NewJudger(e).Judge(d.History)
		if why := WhyNot(&e.Faults[0]); why != "" || len(j.Takeovers) != 1 || j.Takeovers[0].Class != class || j.Faults[0].Death == nil {
			t.Errorf("release %s: %q, takeovers %+v", release, why, j.Takeovers)
		}
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
