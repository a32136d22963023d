package forecast

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

const deadEnd = `
apiVersion: lockdrill/v1
kind: Experiment
name: dead-end
system:
  mode: embedded
  replicas: 2
  locks:
    - name: job
      policy:
        ttl: 6s
        renew_every: 2s
        class: standard
        op_timeout: 500ms
        drift: 60ms
        stop_budget: 200ms
        release: {mode: single, timeout: 500ms, after_abandon: skip}
        acquire: {mode: try, timeout: 500ms}
  work:
    - {lock: job, jobs: %d, rate: 1/s, hold: {p50: 1s}, redeliver: 2s}
steady_state: {for: 1s, timeout: 10s}
time_scale: %g
faults:
  - {id: kill, at: %s, repeat: %s, kill: {holder_of: job, phase: random}}
limits: {max_run: %s, max_kills: 100}
slos:
  - {lock: job, takeover: {max: 30s}}
`

// What the times of a file alone rule out is said beforehand, and what they allow is not.
func TestDeadEnds(t *testing.T) {
	for _, c := range []struct {
		name, at, repeat, maxRun string
		jobs                     int
		scale                    float64
		rule, says               string
	}{
		{"jobs for the kill", "4s", "{count: 1}", "2m", 60, 1, "", ""},
		{"jobs end before the kill", "40s", "{count: 1}", "2m", 10, 1, "L11", "1 of 1 shot of fault kill will come 41s after the first job or later, and the last job has ended after 13.5s"},
		{"all shots too late", "40s", "{count: 20, every: settled}", "20m", 10, 1, "L11", "20 of 20 shots"},
		{"kills keep the jobs going", "4s", "{count: 3, every: settled}", "10m", 10, 1, "", ""},
		{"the last of the timed shots", "4s", "{count: 3, every: 50s}", "10m", 20, 1, "L11", "2 of 3 shots"},
		{"a scaled run, in real time", "40s", "{count: 1}", "2m", 10, 0.5, "L11", "come 21s after"},
		{"more than max_run", "4s", "{count: 60, every: settled}", "2m", 60, 1, "L10", "The run cannot come to its end, because it takes at least"},
		{"perhaps more than max_run", "4s", "{count: 10, every: settled}", "1m30s", 60, 1, "L10", "The run will probably be aborted"},
	} {
		e, err := experiments.Parse("dead-end.yaml", fmt.Appendf(nil, deadEnd, c.jobs, c.scale, c.at, c.repeat, c.maxRun))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := DeadEnds(PlanOf(e).Sums)
		switch {
		case c.rule == "" && len(got) > 0:
			t.Errorf("%s: %+v", c.name, got)
		case c.rule != "" && (len(got) != 1 || got[0].Rule != c.rule || !strings.Contains(got[0].Text+"; "+got[0].Means, c.says)):
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.rule, c.says)
		}
	}
}
