package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// rolledNamespace is one of electors, which their Deployment restarts.
const rolledNamespace = "rolled"

// rolledOut: a Deployment of electors replaces all of them, as kubectl rollout restart has it do, by the shipped Role and no more. Each leader
// that is told to end gives its lease back.
func rolledOut(t *testing.T, s *site) {
	diary := s.elections(t, corev1.EnvVar{Name: "RELEASE", Value: "1"})
	yaml := edit(t, fmt.Sprintf(electedDrill, s.namespace), "id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}", "id: roll, at: 0s, rolling_restart: {rollout: deployment/web}",
		"{lock: leader, takeover: {max: 12s}}", "{lock: leader, rolling: {without_leader: 12s}}")
	s.shippedRole(t, yaml)
	o := s.drill(t, yaml, verdict.ExitPass)
	s.restartedAll(t, o)
	s.roleFits(t)
	diary.agree(t, s, o, electedLease)
}

// rolledInOrder: so does a StatefulSet of workers that stay. The drill lasts longer than the run goes without renewing its turn, or that
// permission would have no use.
func rolledInOrder(t *testing.T, s *site) {
	yaml, dir := edit(t, s.yaml(), "pods: apply", "pods: use, workers: statefulset", "repeat: {count: 2, every: settled}, kill: {holder_of: loop, form: crash}",
		"rolling_restart: {rollout: statefulset/lockdrill-pods}", "takeover: {max: 5s}", "rolling: {without_leader: 5s}"), t.TempDir()
	write(t, filepath.Join(dir, "pods.yaml"), []byte(yaml))
	s.exportedWorkers(t, dir)
	s.shippedRole(t, yaml)
	s.planned(t, dir, 3)
	before := s.objects(t)
	o := s.drill(t, yaml, verdict.ExitPass)
	s.restartedAll(t, o)
	s.roleFits(t)
	s.clean(t, before...)
}

// planned waits for a plan of pods.yaml in dir that is refused nothing, of so many pods that are ready.
func (s *site) planned(t *testing.T, dir string, pods int) {
	t.Helper()
	until(t, fmt.Sprintf("%d pods that are ready", pods), func() bool {
		plan := tryIn(t, dir, append([]string{"plan", "pods.yaml"}, s.flags()...)...)
		return plan.code == verdict.ExitPass && strings.Count(plan.stdout, "Running, ready") == pods
	})
}

// restartedAll: the one shot is confirmed, and all three that were there before it are not there any more.
func (s *site) restartedAll(t *testing.T, o drillOut) {
	t.Helper()
	if len(o.j.Faults) != 1 || !o.j.Faults[0].Confirmed || len(o.j.Faults[0].Victims) != 3 || len(o.j.Rolling) != 1 {
		t.Fatalf("faults %+v, rolling restarts %+v\n%s", o.j.Faults, o.j.Rolling, o.text)
	}
	h := historyIn(t, o.dir)
	for _, victim := range o.j.Faults[0].Victims {
		pod := podOfLife(h, victim)
		for _, l := range s.Lives() {
			if l.UID == pod.UID && l.Ended.IsZero() {
				t.Errorf("%s in pod %s lives on", victim, pod.Name)
			}
		}
	}
}
