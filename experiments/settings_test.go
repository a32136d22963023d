package experiments

import (
	"slices"
	"testing"
)

func TestSettingsGoByTheirPlaceInTheFile(t *testing.T) {
	e, err := Parse("a.yaml", []byte(`
apiVersion: lockdrill/v1
kind: Experiment
name: a
system:
  mode: embedded
  replicas: 2
  locks:
    - {name: leader, profile: cordum/scheduler-reconciler}
    - {name: job, profile: cordum/scheduler-job}
  work:
    - {lock: job, jobs: 4, rate: 1/s, hold: {p50: 1s, p99: 4s}, redeliver: 2s}
faults:
  - {id: kill-leader, at: 8s, kill: {holder_of: leader}}
  - {id: kill-worker, at: 46s, kill: {holder_of: job}}
allow_overlap: [[kill-leader, kill-worker]]
slos:
  - {lock: leader, takeover: {max: 95s}}
  - {lock: leader, overlap: {level: effect, max: 0}}
`))
	if err != nil {
		t.Fatal(err)
	}
	all := Settings(e)
	for path, value := range map[string]string{
		"name": "a", "system.replicas": "2", "system.locks.job.policy.ttl": "1m", "system.work.job.hold.p99": "4s", "faults.kill-leader.at": "8s",
		"allow_overlap.1": "kill-leader kill-worker", "slos.leader.takeover.max": "1m35s", "slos.leader#2.overlap.level": "effect",
	} {
		if !slices.Contains(all, Setting{Path: path, Value: value}) {
			t.Errorf("no %s = %s", path, value)
		}
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Path] {
			t.Errorf("%s is there twice", s.Path)
		}
		seen[s.Path] = true
	}
}
