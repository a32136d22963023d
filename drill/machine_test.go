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
		{"small", machine{cores: 2, memory: 8 << 30, files: 1024}, drill(3, 6), false, []string{"of 2 cores for 6 jobs a second"}},
		{"too fast", machine{cores: 2, memory: 8 << 30, files: 1024}, drill(3, 2000), false, []string{"2.6 of 2 cores for 2000 jobs", "about 1490 jobs a second are carried"}},
		{"memory", machine{cores: 64, memory: 8 << 30, files: 1 << 20}, drill(1000, 6), true, []string{"1,000 replicas", "18300 MB", "8192 MB are available"}},
		{"files", machine{cores: 64, memory: 64 << 30, files: 1024}, drill(1000, 6), true, []string{"3200 open files", "ulimit -n"}},
		{"replicas alone", machine{cores: 2, memory: 64 << 30, files: 1 << 20}, drill(1000, 6), true, []string{"1,000 replicas", "4.2 cores before they do any job, and there are 2: declare at most 450"}},
		{"twice as slow", machine{cores: 2, memory: 8 << 30, files: 1024, message: 2 * perMessage}, drill(3, 2000), false, []string{"5.2 of 2 cores for 2000 jobs", "about 657 jobs a second are carried"}},
		{"half as slow", machine{cores: 2, memory: 8 << 30, files: 1024, message: perMessage / 2}, drill(3, 2000), false, []string{"1.3 of 2 cores for 2000 jobs"}},
		{"a busy machine refuses no more", machine{cores: 2, memory: 64 << 30, files: 1 << 20, message: 4 * perMessage}, drill(500, 6), false, []string{"8.8 of 2 cores", "about 0 jobs"}},
		{"but a fast one less", machine{cores: 2, memory: 64 << 30, files: 1 << 20, message: perMessage / 2}, drill(1000, 6), false, []string{"2.1 of 2 cores"}},
		{"nothing known", machine{cores: 64}, drill(1000, 6), false, []string{"of 64 cores"}},
		{"pods", machine{cores: 2, memory: 1 << 30, files: 64}, &experiments.Experiment{Kubernetes: &experiments.Kubernetes{}, System: experiments.System{Replicas: 1000}}, false, []string{"pods"}},
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
