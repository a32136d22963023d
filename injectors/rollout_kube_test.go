package injectors

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
	"github.com/lockdrill/lockdrill/internal/monotime"
)

// deployed is a cluster with a Deployment of two pods that are available.
func deployed(t *testing.T, exec func(context.Context, *kubetest.Life, []string, io.Reader, io.Writer, io.Writer) int) (*kubetest.Env, *kube.Cluster) {
	t.Helper()
	env := kubetest.Start(t, kubetest.Options{Controllers: true, NodeOptions: kubetest.NodeOptions{Run: kubetest.Command("/bin/sh"), Exec: exec, ReadyAt: "listening"}})
	ns := env.Namespace("drill", nil)
	labels := map[string]string{"app": "w"}
	_, err := env.Client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "none", Args: []string{"-c", "trap 'exit 0' TERM; echo listening; while :; do sleep 0.05; done"}}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.Open(kube.Options{Kubeconfig: env.Kubeconfig, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for w, err := c.Workload(ctx, "deployment/w"); err != nil || !w.RolledOut(); w, err = c.Workload(ctx, "deployment/w") {
		if ctx.Err() != nil {
			t.Fatalf("the Deployment never got ready: %+v, %v", w, err)
		}
	}
	return env, c
}

// podsOf are the pods of the Deployment.
func podsOf(t *testing.T, env *kubetest.Env, c *kube.Cluster) []corev1.Pod {
	t.Helper()
	list, err := env.Client.CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=w"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// What a row changes in a cluster is there while it lasts, and is gone once the runner has ended it, or, after its death, whoever has the record.
func TestKubeRowsAreUndoneByAnybody(t *testing.T) {
	var enforced atomic.Bool // as by a network that enforces policies
	env, c := deployed(t, func(context.Context, *kubetest.Life, []string, io.Reader, io.Writer, io.Writer) int {
		if enforced.Load() {
			return 1
		}
		return 0
	})
	victim := podsOf(t, env, c)[0]
	network := func(context.Context, undo.Record) (Network, error) { return c, nil }
	start := history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", Pod: &history.Pod{Name: victim.Name, UID: string(victim.UID)}}}
	reach := &Reach{Pods: c, Cluster: network, Past: recorded{start}.past, Clock: monotime.Now,
		Home: func(string) undo.Cluster { return undo.Cluster{Run: "run-1", Namespace: c.Namespace} }}
	for _, row := range []struct {
		spec fault.Spec
		is   func() bool // in effect
	}{
		{&fault.Node{HolderOf: "l", Do: fault.Cordon}, func() bool {
			n, err := env.Client.CoreV1().Nodes().Get(t.Context(), victim.Spec.NodeName, metav1.GetOptions{})
			return err == nil && n.Spec.Unschedulable
		}},
		{&fault.NetworkPolicy{Reach: []string{"wget"}}, func() bool {
			list, err := env.Client.NetworkingV1().NetworkPolicies(c.Namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cut := podsOf(t, env, c)[0].Labels[kube.CutLabel]+podsOf(t, env, c)[1].Labels[kube.CutLabel] != ""
			if cut != (len(list.Items) == 1) {
				t.Errorf("%d policies, and a pod is meant: %t", len(list.Items), cut)
			}
			return cut
		}},
	} {
		for _, by := range []string{"the runner", "its record"} {
			t.Run(row.spec.Kind()+", undone by "+by, func(t *testing.T) {
				shot := history.Event{Op: "x#1", Fault: &history.Fault{ID: "x", Shot: 1, Kind: row.spec.Kind(), Form: fault.Of(row.spec).Form(), Victim: "r1.1", Declared: int64(time.Minute)}}
				h, err := reach.Prepare(t.Context(), row.spec, shot)
				if err != nil {
					t.Fatal(err)
				}
				applied, err := h.Inject(t.Context())
				if err != nil || !row.is() {
					t.Fatalf("made: %v", err)
				}
				enforced.Store(true)
				if _, saw, err := h.Confirm(t.Context(), applied); err != nil || saw.Hits != 1 {
					t.Errorf("saw %+v, %v", saw, err)
				}
				enforced.Store(false)
				for range 2 {
					if by == "the runner" {
						_, err = h.Revert(t.Context())
					} else {
						err = (&Reach{Cluster: network}).Reverters(false)[row.spec.Kind()](t.Context(), h.Record())
					}
					if err != nil || row.is() {
						t.Errorf("undone: %v", err)
					}
				}
			})
		}
	}
}

// A rollout restart is confirmed when its Deployment has replaced every pod, and not before; one that is not there is an error.
func TestKubeRolloutRestartReplacesEveryPod(t *testing.T) {
	env, c := deployed(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods := func() map[string]bool {
		uids := map[string]bool{}
		for _, p := range podsOf(t, env, c) {
			uids[string(p.UID)] = true
		}
		return uids
	}
	before := pods()
	past := func() []history.Event {
		now := pods()
		var events []history.Event
		for uid := range before {
			events = append(events, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Incarnation: uid, Pod: &history.Pod{UID: uid}}})
			if !now[uid] {
				events = append(events, history.Event{Kind: history.ObjectKind, Object: &history.Object{UID: uid, Gone: true}})
			}
		}
		return events
	}
	spec := &fault.RollingRestart{Rollout: "deployment/w", Within: time.Minute}
	reach := &Reach{Pods: c, Past: past, Clock: func() int64 { return time.Now().UnixNano() }}
	shot := history.Event{Fault: &history.Fault{Kind: "rolling_restart", Form: fault.RolledOut}}
	for uid := range before {
		shot.Fault.Victims = append(shot.Fault.Victims, uid)
	}
	r, err := reach.Prepare(ctx, spec, shot)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := r.Inject(ctx)
	if err != nil {
		t.Fatal(err)
	}
	window, seen, err := r.Confirm(ctx, applied)
	if err != nil || seen.Hits != 2 || window.From != applied.From || window.To <= applied.To {
		t.Fatalf("%+v, %+v, %v", window, seen, err)
	}
	after := pods()
	for uid := range before {
		if after[uid] {
			t.Errorf("pod %s is still there", uid)
		}
	}
	if len(after) != 2 {
		t.Errorf("%d pods", len(after))
	}
	spec.Rollout = "statefulset/w"
	if _, err := reach.Prepare(ctx, spec, shot); err == nil {
		t.Error("an owner that is not there was found")
	}
}
