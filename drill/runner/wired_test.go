package runner

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// A fault that nobody would make is refused before anything is started, and not found out when it is to be fired.
func TestAFaultWithoutAnInjectorIsRefused(t *testing.T) {
	e := &experiments.Experiment{TimeScale: 1, Faults: []experiments.Fault{
		{ID: "stop", Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "l"}}}, {ID: "hole", Spec: &fault.Cut{How: fault.Hole}},
	}}
	err := Run(t.Context(), Config{Experiment: e, Injectors: fakes{"pause": &slow{}}})
	if err == nil || !strings.Contains(err.Error(), "hole") || !strings.Contains(err.Error(), "black_hole") {
		t.Errorf("%v", err)
	}
}
