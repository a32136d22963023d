package drill

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

func TestWhatAMachineCarries(t *testing.T) {
	drill := func(replicas int, rate float64) *experiments.Experiment {
		return &experiments.Experiment{System: experiments.System{Replicas: replicas, Work: []experiments.Work{{Jobs: 100, Rate: rate}}}}
	}
	for _, tt := range []struct {
		name    string
		host    machine
		e       *experiments.Experiment
		refuses bool
		says    []string
	}{
		{"small", machine{2, 8 << 30, 1024}, drill(3, 6), false, []string{"of 2 cores for 6 jobs a second"}},
		{"too fast", machine{2, 8 << 30, 1024}, drill(3, 2000), false, []string{"2.6 of 2 cores for 2000 jobs", "about 1490 jobs a second are carried"}},
		{"memory", machine{64, 8 << 30, 1 << 20}, drill(1000, 6), true, []string{"1,000 replicas", "18300 MB", "8192 MB are available"}},
		{"files", machine{64, 64 << 30, 1024}, drill(1000, 6), true, []string{"3200 open files", "ulimit -n"}},
		{"replicas alone", machine{2, 64 << 30, 1 << 20}, drill(1000, 6), true, []string{"1,000 replicas", "4.2 cores before they do any job, and there are 2: declare at most 450"}},
		{"nothing known", machine{cores: 64}, drill(1000, 6), false, []string{"of 64 cores"}},
		{"pods", machine{2, 1 << 30, 64}, &experiments.Experiment{Kubernetes: &experiments.Kubernetes{}, System: experiments.System{Replicas: 1000}}, false, []string{"pods"}},
	} {
		g := tt.host.guard(tt.e)
		if g.Refuses != tt.refuses {
			t.Errorf("%s: refuses = %v: %s", tt.name, g.Refuses, g.Says)
		}
		for _, want := range tt.says {
			if !strings.Contains(g.Says, want) {
				t.Errorf("%s: %q does not say %q", tt.name, g.Says, want)
			}
		}
	}
	if m := thisMachine(); m.cores < 1 {
		t.Errorf("this machine has %d cores", m.cores)
	}
}
