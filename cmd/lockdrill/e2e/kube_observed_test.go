package e2e

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// The retry period is above a second: contenders of client-go see no more of a renewal than the second in which it was, and take the
// lease of one that renews more often up to a second early (docs/kubernetes.md).
const (
	electedLease  = "web-leader"
	leaseDuration = 4 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = 1100 * time.Millisecond
	electedKey    = "app:leader"
	keyTTL        = time.Second
)

// beliefs is what an elector calls the file that says when it led, after its diary's name.
const beliefs = ".beliefs"

// elector is the program of internal/elector, built once: a candidate of somebody's, in a module of its own.
var elector = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(filepath.Dir(built), "elector")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
	cmd.Dir = filepath.Join("..", "..", "..", "internal", "elector")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the elector: %w: %s", err, out)
	}
	return path, nil
})

func needElector(t *testing.T) string {
	t.Helper()
	path, err := elector()
	must(t, err)
	return path
}

// candidate is the container of an elector for the Lease.
func candidate(env ...corev1.EnvVar) corev1.Container {
	k := corev1.Container{Name: "c", Image: "none", Env: env}
	for name, value := range map[string]string{"LEASE": electedLease, "LEASE_DURATION": leaseDuration.String(), "RENEW_DEADLINE": renewDeadline.String(), "RETRY_PERIOD": retryPeriod.String()} {
		k.Env = append(k.Env, corev1.EnvVar{Name: name, Value: value})
	}
	for name, path := range map[string]string{"POD": "metadata.name", "NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"} {
		k.Env = append(k.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
	}
	return k
}

// electedDrill watches and strikes the electors.
const electedDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: pods
environment: staging
kubernetes: {namespace: %s, selector: {app: web}}
system:
  mode: observe
  replicas: 3
  locks:
    - name: leader
      lease: ` + electedLease + `
      policy:
        ttl: 4s
        renew_every: 1100ms
        class: standard
        op_timeout: 1s
        stop_budget: 100ms
        release: {mode: none}
        acquire: {mode: try, timeout: 1s}
        loop: {poll: 1760ms, jitter: 0.375, mode: renewed, tick: 100ms}
steady_state: {for: 6s, timeout: 60s} # longer than it takes to prolong the turn in the namespace, which a Role has to permit
faults:
  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}
probes:
  leases: {every: 100ms, max_gap: 3s}
  logs: {patterns: {leads: "I lead now"}}
limits: {max_kills: 4, max_run: 3m}
slos:
  - {lock: leader, takeover: {max: 12s}}
`

// observedDrill kills the leaders of an election of client-go that knows nothing of lockdrill, and measures who leads next.
func observedDrill(t *testing.T, s *site) {
	diary := s.elections(t)
	yaml := fmt.Sprintf(electedDrill, s.namespace)
	planned := strings.Join(strings.Fields(s.plan(t, yaml)), " ")
	says(t, planned, "Pods", "uid", "which holds the Lease "+electedLease)
	o := s.drill(t, yaml, verdict.ExitPass)
	if len(o.j.Takeovers) != 1 {
		t.Fatalf("takeovers: %+v\n%s", o.j.Takeovers, o.text)
	}
	for _, x := range o.j.Takeovers {
		if x.Hi == nil || *x.Hi < 1 || x.Lo > 11 || x.Successor == "" {
			t.Errorf("takeover %+v", x)
		}
	}
	diary.agree(t, s, o, electedLease)
	says(t, o.text, "somebody's own pods in kubernetes kubetest/observed", "3 pods of somebody's own, only watched")
	if left := s.objects(t); strings.Contains(strings.Join(left, " "), "lockdrill") {
		t.Errorf("left: %q", left)
	}
}

// electors makes three of them, a Deployment.
func (s *site) electors(t *testing.T, env ...corev1.EnvVar) {
	t.Helper()
	three, labels, spec := int32(3), map[string]string{"app": "web"}, corev1.PodSpec{Containers: []corev1.Container{candidate(env...)}}
	if s.onNode != nil {
		s.onNode(&spec)
	}
	_, err := s.Client.AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}},
	}, metav1.CreateOptions{})
	must(t, err)
}

// keyedDrill watches and strikes whoever holds a key of a Redis of theirs.
const keyedDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: pods
environment: staging
redis: {mode: external, url: "redis://%s"}
kubernetes: {namespace: %s, selector: {app: web}, holder: {name: "{pod}_*"}}
system:
  mode: observe
  replicas: 3
  locks:
    - name: leader
      key: "` + electedKey + `"
      policy:
        ttl: 1s
        renew_every: 100ms
        class: standard
        op_timeout: 200ms
        stop_budget: 100ms
        release: {mode: none}
        acquire: {mode: try, timeout: 200ms}
        loop: {poll: 100ms, mode: renewed, tick: 100ms}
steady_state: {for: 6s, timeout: 60s} # longer than it takes to prolong the turn in the namespace, which a Role has to permit
faults:
  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}
probes:
  lock_keys: {every: 5ms, max_gap: 500ms}
limits: {max_kills: 2, max_run: 3m}
slos:
  - {lock: leader, takeover: {max: 5s}}
`

// keyedElectors makes three of them, and returns when all are ready and one leads.
func (s *site) keyedElectors(t *testing.T) {
	t.Helper()
	s.electors(t, corev1.EnvVar{Name: "REDIS", Value: s.locks}, corev1.EnvVar{Name: "KEY", Value: electedKey}, corev1.EnvVar{Name: "TTL", Value: keyTTL.String()})
	until(t, "a leader and three pods that are ready", func() bool {
		d, err := s.Client.AppsV1().Deployments(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 3 && asked(t, s.locks, "EXISTS "+electedKey) == ":1"
	})
}

// keyedSystem is drilled by the key itself, which no prefix of the run goes before, and which names its holder.
func keyedSystem(t *testing.T, s *site) {
	s.keyedElectors(t)
	o := s.drill(t, fmt.Sprintf(keyedDrill, s.locks, s.namespace), verdict.ExitPass)
	if len(o.j.Takeovers) != 1 || o.j.Takeovers[0].Successor == "" || o.j.Takeovers[0].Hi == nil || *o.j.Takeovers[0].Hi > 3 {
		t.Errorf("takeovers: %+v\n%s", o.j.Takeovers, o.text)
	}
	if n := asked(t, s.locks, "DBSIZE"); n != ":1" {
		t.Errorf("%s keys are there, want theirs", n)
	}
}

// nothingIsCut: neither a policy nor its label is there.
func (s *site) nothingIsCut(t *testing.T) {
	t.Helper()
	policies, err := s.Client.NetworkingV1().NetworkPolicies(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(policies.Items) > 0 {
		t.Errorf("policies %+v, %v", policies, err)
	}
	pods, err := s.Client.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: kube.CutLabel})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("labelled pods %+v, %v", pods, err)
	}
}

// cutOff: nobody enforces policies here, so the holder's lease goes on and no shot counts. Whatever becomes of the runner, neither the policy
// nor its label is left. All by the shipped Role and no more.
func cutOff(t *testing.T, s *site) {
	s.keyedElectors(t)
	yaml := edit(t, fmt.Sprintf(keyedDrill, s.locks, s.namespace), "kill: {holder_of: leader, form: force_delete}", "for: 2s, network_policy: {holder_of: leader}")
	killed := edit(t, yaml, "for: 2s", "for: 50s")
	s.shippedRole(t, yaml)
	s.killed(t, killed, "network_policy", "injected", func() {}, func() { s.nothingIsCut(t) })
	o := s.drill(t, yaml, verdict.ExitInconclusive)
	if len(o.j.Faults) == 0 || o.j.Faults[0].Confirmed || !strings.Contains(o.text, "does not enforce NetworkPolicy") {
		t.Errorf("faults %+v\n%s", o.j.Faults, o.text)
	}
	s.nothingIsCut(t)
	s.roleFits(t)
	yaml = edit(t, yaml, "network_policy: {holder_of: leader}", "network_policy: {holder_of: leader, reach: [\"true\"]}")
	s.shippedRole(t, yaml)
	o = s.drill(t, yaml, verdict.ExitInconclusive)
	if len(o.j.Faults) == 0 || o.j.Faults[0].Confirmed || !strings.Contains(o.text, "goes on reaching") {
		t.Errorf("faults %+v\n%s", o.j.Faults, o.text)
	}
	s.nothingIsCut(t)
	s.roleFits(t)
}

// killInContainer is the only command that containers here know, beside true: it ends the one process that is in them.
func killInContainer(ctx context.Context, l *kubetest.Life, command []string, _ io.Reader, _, _ io.Writer) int {
	switch command[0] {
	case "true":
		return 0
	case "kill":
	default:
		return 127
	}
	l.Kill()
	<-ctx.Done()
	return 137
}

// crashedByCommand: whoever leads dies by a command in its container, by the shipped Role and no more. The object stays, and what the
// next container says first is read.
func crashedByCommand(t *testing.T, s *site) {
	diary := s.elections(t)
	yaml := edit(t, fmt.Sprintf(electedDrill, s.namespace), "form: force_delete", "form: crash, exec: [kill, \"-9\", \"1\"]",
		"patterns: {", "patterns: {begun: \"^I begin$\", ", "slos:\n", "slos:\n  - {lock: leader, logs: {pattern: begun, max: 1}}\n")
	s.shippedRole(t, yaml)
	o := s.drill(t, yaml, verdict.ExitPass)
	diary.agree(t, s, o, electedLease)
	s.roleFits(t)
	if len(o.j.Faults) != 1 || len(o.j.Takeovers) != 1 || o.j.Takeovers[0].Class != "crash" {
		t.Fatalf("faults %+v, takeovers %+v", o.j.Faults, o.j.Takeovers)
	}
	if d := o.j.Faults[0].Death; d == nil || d.Means != "exec" || d.Object != nil || d.End == nil {
		t.Errorf("death: %+v", d)
	}
	for _, r := range o.j.SLOs {
		if r.Measure == "logs.begun" && r.N != 1 {
			t.Errorf("%d lines of the container that began during the drill are counted, want 1", r.N)
		}
	}
}
