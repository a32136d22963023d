package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// electorEnv makes this test binary a candidate of a leader election of client-go; its value is a kubeconfig.
const electorEnv = "LOCKDRILL_TEST_ELECTOR"

// The retry period is above a second: contenders of client-go see no more of a renewal than the second in which it was, so one that
// renews more often is taken for dead up to a second early (docs/kubernetes.md), and the drill says so.
const (
	electedLease  = "web-leader"
	leaseDuration = 4 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = 1100 * time.Millisecond
)

// elect is somebody's own program: it knows nothing of lockdrill. SIGTERM ends it at once, and it releases nothing.
func elect(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: os.Getenv("NAMESPACE"), Name: electedLease}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: os.Getenv("POD") + "_" + fmt.Sprint(os.Getpid())},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("I lead now: " + lock.Identity()) },
			OnStoppedLeading: func() { fmt.Println("run lock renewal failed, or told to end: " + lock.Identity()) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return ctx.Err()
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
steady_state: {for: 500ms, timeout: 60s}
faults:
  - {id: kill, at: 0s, kill: {holder_of: leader, form: force_delete}}
probes:
  leases: {every: 100ms, max_gap: 1s}
  logs: {patterns: {leads: "I lead now"}}
limits: {max_kills: 4, max_run: 3m}
slos:
  - {lock: leader, takeover: {max: 12s}}
`

// observedDrill kills the leaders of an election of client-go that knows nothing of lockdrill, and measures who leads next.
func observedDrill(t *testing.T, s *site) {
	three, labels := int32(3), map[string]string{"app": "web"}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	_, err := s.Client.AppsV1().Deployments(s.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none",
				Env: []corev1.EnvVar{field("POD", "metadata.name"), field("NAMESPACE", "metadata.namespace")}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a leader and three pods that are ready", func() bool {
		lease, err := s.Client.CoordinationV1().Leases(s.namespace).Get(t.Context(), electedLease, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		d, err := s.Client.AppsV1().Deployments(s.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 3
	})
	yaml := fmt.Sprintf(electedDrill, s.namespace)
	planned := strings.Join(strings.Fields(s.plan(t, yaml)), " ")
	for _, want := range []string{"PODS", "uid", "which holds the Lease " + electedLease} {
		if !strings.Contains(planned, want) {
			t.Errorf("the plan does not say %q:\n%s", want, planned)
		}
	}
	o := s.drill(t, yaml, exitPass)
	if len(o.j.Takeovers) != 1 {
		t.Fatalf("takeovers: %+v\n%s", o.j.Takeovers, o.text)
	}
	for _, x := range o.j.Takeovers {
		if x.Hi == nil || *x.Hi < 1 || x.Lo > 11 || x.Successor == "" {
			t.Errorf("takeover %+v", x)
		}
	}
	for _, want := range []string{"somebody's own pods in kubernetes kubetest/observed", "3 pods of somebody's own, only watched"} {
		if !strings.Contains(o.text, want) {
			t.Errorf("it does not say %q:\n%s", want, o.text)
		}
	}
	if left := s.objects(t); strings.Contains(strings.Join(left, " "), "lockdrill") {
		t.Errorf("left: %q", left)
	}
}
