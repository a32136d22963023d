package injectors

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// A rollout restart is confirmed when its Deployment has replaced every pod, and not before; one that is not there is an error.
func TestKubeRolloutRestartReplacesEveryPod(t *testing.T) {
	env := kubetest.Start(t, kubetest.Options{Controllers: true, NodeOptions: kubetest.NodeOptions{Run: kubetest.Command("/bin/sh"), ReadyAt: "listening"}})
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
	pods := func() map[string]bool {
		list, err := env.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=w"})
		if err != nil {
			t.Fatal(err)
		}
		uids := map[string]bool{}
		for _, p := range list.Items {
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
	r := steps(spec, &Reach{Pods: c, Past: past, Clock: func() int64 { return time.Now().UnixNano() }})
	shot := history.Event{Fault: &history.Fault{Kind: "rolling_restart", Form: fault.RolledOut}}
	for uid := range before {
		shot.Fault.Victims = append(shot.Fault.Victims, uid)
	}
	rec, err := r.Prepare(ctx, shot)
	if err != nil {
		t.Fatal(err)
	}
	rec = undo.Record{Kind: rec.Kind, Shot: shot}
	applied, err := r.Inject(ctx, rec)
	if err != nil {
		t.Fatal(err)
	}
	window, seen, err := r.Confirm(ctx, rec, applied)
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
	if _, err := r.Prepare(ctx, shot); err == nil {
		t.Error("an owner that is not there was found")
	}
}
