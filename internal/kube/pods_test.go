package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// A status is a sign of an end only where the node has seen the end of that very container.
func TestStatesOfContainers(t *testing.T) {
	over := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, ContainerID: id}}
	}
	for _, c := range []struct {
		name   string
		status corev1.ContainerStatus
		want   Container
	}{
		{"none yet", corev1.ContainerStatus{}, Container{}},
		{"running", corev1.ContainerStatus{ContainerID: "a", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, Container{ID: "a", Running: true}},
		{"terminated", corev1.ContainerStatus{ContainerID: "a", State: over("a")}, Container{ID: "a", Terminated: true, ExitCode: 137}},
		{"not located", corev1.ContainerStatus{ContainerID: "a", State: over("")}, Container{ID: "a"}}, // ContainerStatusUnknown
		{"restarted", corev1.ContainerStatus{ContainerID: "b", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: over("a")},
			Container{ID: "b", Running: true, Restarts: 1, LastID: "a", LastExit: 137}},
		{"waiting to restart", corev1.ContainerStatus{ContainerID: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: over("a")},
			Container{ID: "a", LastID: "a", LastExit: 137}},
	} {
		c.status.Name, c.want.Name = "c", "c"
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", ContainerID: "x"}, c.status}}}
		if got := podOf(pod, "c").Container; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A Deployment owns its pods through a ReplicaSet, and through two while it rolls out.
func TestOwnersOfPods(t *testing.T) {
	yes := true
	for _, c := range []struct{ kind, name, sum, want string }{
		{"", "", "", ""},
		{"ReplicaSet", "web-6d4cf56db6", "6d4cf56db6", "deployment/web"},
		{"ReplicaSet", "web", "", "replicaset/web"},
		{"StatefulSet", "db", "", "statefulset/db"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pod-template-hash": c.sum}}}
		if c.kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "n"}, {Kind: c.kind, Name: c.name, Controller: &yes}}
		}
		if got := podOf(pod, "").Owner; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A pod that is not ready says for what it waits: the container that does not merely start, and what does not change with every try.
func TestWhatPodsWaitFor(t *testing.T) {
	waits := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "example/w:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	crashed := waits("c", "CrashLoopBackOff", "back-off 10s restarting failed container")
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3}
	unfit := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available:\n 1 Insufficient cpu."}
	for _, c := range []struct {
		want   string
		status corev1.PodStatus
	}{
		{"", corev1.PodStatus{}},
		{"Unschedulable (0/1 nodes are available: 1 Insufficient cpu.)", corev1.PodStatus{Conditions: []corev1.PodCondition{unfit}}},
		{"Unschedulable", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}}},
		{"c: CreateContainerError", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("c", "CreateContainerError", "")}}},
		{"c: ContainerCreating", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("c", "ContainerCreating", ""), waits("d", "PodInitializing", "")}}},
		{"d: ImagePullBackOff (image example/w:1)", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("c", "ContainerCreating", ""), waits("d", "ImagePullBackOff", "Back-off pulling")}}},
		{"i: CreateContainerConfigError (secret \"s\" not found)", corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waits("i", "CreateContainerConfigError", "secret \"s\" not found")},
			ContainerStatuses: []corev1.ContainerStatus{waits("c", "PodInitializing", "")}}},
		{"c: CrashLoopBackOff (last exit status 3)", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashed}}},
		{"c: Odd (" + strings.Repeat("x", mostOfMessage) + " ..)", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("c", "Odd", strings.Repeat("x", 300))}}},
		{"", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{crashed}}},
	} {
		if got := podOf(&corev1.Pod{Status: c.status}, "c").Waiting; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A Deployment of which no pod is made says why, as long as that is so.
func TestPodsThatAreNotMade(t *testing.T) {
	quota := "pods \"w-1\" is forbidden: exceeded quota: compute, requested: pods=1\n"
	for _, k := range []struct {
		status corev1.ConditionStatus
		want   string
	}{
		{corev1.ConditionTrue, `FailedCreate (pods "w-1" is forbidden: exceeded quota: compute, requested: pods=1)`},
		{corev1.ConditionFalse, ""},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns"}}
		d.Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "x"},
			{Type: appsv1.DeploymentReplicaFailure, Status: k.status, Reason: "FailedCreate", Message: quota},
		}
		c := New(kubefake.Generic(fake.NewClientset(d)), "ns")
		if got, err := c.Unmade(t.Context(), "Deployment", "w"); got != k.want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, k.want)
		}
		if got, err := c.Unmade(t.Context(), "Deployment", "another"); got != "" || err == nil {
			t.Errorf("no Deployment: %q, %v", got, err)
		}
	}
	three := int32(3)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns"}, Spec: appsv1.StatefulSetSpec{Replicas: &three}}
	for made, want := range map[int32]string{1: "there are 1 of 3; its Events say why", 3: ""} {
		set.Status.Replicas = made
		if got, err := New(kubefake.Generic(fake.NewClientset(set)), "ns").Unmade(t.Context(), "StatefulSet", "w"); got != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestOrdinals(t *testing.T) {
	for _, k := range []struct {
		owner, name string
		want        int // -1 = none
	}{{"statefulset/db", "db-0", 0}, {"statefulset/db-1", "db-1-12", 12}, {"deployment/db", "db-0", -1}, {"statefulset/db", "db-x", -1}, {"", "db-0", -1}} {
		if n, ok := (&Pod{Owner: k.owner, Name: k.name}).Ordinal(); ok != (k.want >= 0) || ok && n != k.want {
			t.Errorf("%s of %q: %d, %v", k.name, k.owner, n, ok)
		}
	}
}

// What is deleted is that very object, whatever has its name by then. That an API server keeps to it is shown by the tests in a cluster.
func TestDeletionsNameTheUID(t *testing.T) {
	client := fake.NewClientset()
	c := New(kubefake.Generic(client), "ns")
	_ = c.DeletePod(t.Context(), "w", "u1", nil) // there is none
	_ = c.Remove(t.Context(), "apps/v1", "Deployment", "w", "u2")
	if _, mine, err := c.TakeTurn(t.Context(), Turn{Name: "turn", Run: "r"}); err != nil || !mine {
		t.Fatalf("take the turn: %t, %v", mine, err)
	}
	leases := client.CoordinationV1().Leases("ns")
	l, err := leases.Get(t.Context(), "turn", metav1.GetOptions{})
	testkit.Must(t, err)
	l.UID, l.ResourceVersion = "u3", "7"
	if l, err = leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, c.DropTurn(t.Context(), turnOf(l)))
	var got []string
	for _, a := range client.Actions() {
		d, ok := a.(clienttesting.DeleteActionImpl)
		if !ok {
			continue
		}
		said := a.GetResource().Resource
		if p := d.DeleteOptions.Preconditions; p != nil && p.UID != nil {
			said += " " + string(*p.UID)
			if p.ResourceVersion != nil {
				said += " as of " + *p.ResourceVersion
			}
		}
		got = append(got, said)
	}
	if want := []string{"pods u1", "deployments u2", "leases u3 as of 7"}; !slices.Equal(got, want) {
		t.Errorf("deleted %q, want %q", got, want)
	}
}

// A delete that was not answered may have been done.
func TestADeleteWithoutAnAnswer(t *testing.T) {
	pods := corev1.Resource("pods")
	for err, unanswered := range map[error]bool{
		context.DeadlineExceeded: true, errors.New("connection reset by peer"): true, apierrors.NewTimeoutError("busy", 1): true,
		apierrors.NewInternalError(errors.New("etcd: request timed out")): true, apierrors.NewForbidden(pods, "w", nil): false,
		apierrors.NewTooManyRequests("later", 1): false, apierrors.NewNotFound(pods, "w"): false, apierrors.NewConflict(pods, "w", nil): false,
	} {
		client := fake.NewClientset()
		client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		got := New(kubefake.Generic(client), "ns").DeletePod(t.Context(), "w", "u1", nil)
		if got == nil || errors.Is(got, ErrUnanswered) != unanswered {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// What went while the watch was broken is told of when it stands again, before what has its name by then.
func TestAPodThatWentUnwatched(t *testing.T) {
	pod := func(uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "w-0", Namespace: "ns", UID: types.UID(uid)}}
	}
	client := fake.NewClientset(pod("u1"))
	first := watch.NewFake()
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) { return true, first, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var told []string
	New(kubefake.Generic(client), "ns").WatchPods(ctx, nil, "", func(c Change) {
		word := " is there"
		if c.Gone {
			word = " is gone"
		}
		told = append(told, c.Pod.UID+word)
		switch len(told) {
		case 1:
			pods := client.CoreV1().Pods("ns")
			_ = pods.Delete(ctx, "w-0", metav1.DeleteOptions{})
			_, _ = pods.Create(ctx, pod("u2"), metav1.CreateOptions{})
			first.Stop()
		case 3:
			cancel()
		}
	}, nil)
	if want := []string{"u1 is there", "u1 is gone", "u2 is there"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
