package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// inTwo is a cluster of namespaces a and b, with a pod of one name in each, and in a third that is none of its.
func inTwo() (*fake.Clientset, *Cluster) {
	var pods []runtime.Object
	for _, in := range []string{"a", "b", "c"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: in, UID: types.UID("of-" + in), Labels: map[string]string{"app": "web"}}})
	}
	client := fake.NewClientset(pods...)
	c := New(kubefake.Generic(client), "a")
	c.Also = []string{"b"}
	return client, c
}

// Where zones are asked for, a pod has that of its node, in a list, by its name and in a watch; one on no node, or on one that says none, has none.
func TestPodsAreToldOfWithTheZonesOfTheirNodes(t *testing.T) {
	client, c := inTwo()
	for node, labels := range map[string]map[string]string{"n1": {corev1.LabelTopologyZone: "eu-1"}, "n2": nil} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node, Namespace: "a", UID: types.UID(node), Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: node}}
		if _, err := client.CoreV1().Pods("a").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, zones := range []bool{false, true} {
		c.Zones = zones
		want := map[string]string{"on-n1": "", "on-n2": "", "web-0": "", "b/web-0": ""}
		if zones {
			want["on-n1"] = "eu-1"
		}
		pods, err := c.Pods(t.Context(), map[string]string{"app": "web"}, "")
		if err != nil || len(pods) != len(want) {
			t.Fatalf("%+v, %v", pods, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		c.WatchPods(ctx, map[string]string{"app": "web"}, "", func(change Change) {
			pods = append(pods, change.Pod)
			if seen++; seen == len(want) {
				cancel()
			}
		}, nil)
		one, _, err := c.Pod(t.Context(), "on-n1", "")
		if err != nil || seen < len(want) {
			t.Fatal(seen, err)
		}
		for _, p := range append(pods, one) {
			if p.Labels[corev1.LabelTopologyZone] != want[p.Name] || p.Labels["app"] != "web" {
				t.Errorf("zones %v: pod %s has %v, want %q", zones, p.Name, p.Labels, want[p.Name])
			}
		}
	}
	testkit.Must(t, client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}))
	c.zones.Clear()
	if _, err := c.Pods(t.Context(), map[string]string{"app": "web"}, ""); err == nil || !strings.Contains(err.Error(), "read the zone of node n1") {
		t.Errorf("a node that cannot be read: %v", err)
	}
}

func TestPodsOfSeveralNamespaces(t *testing.T) {
	client, c := inTwo()
	pods, err := c.Pods(t.Context(), map[string]string{"app": "web"}, "")
	if err != nil || len(pods) != 2 || pods[0].Name != "web-0" || pods[0].UID != "of-a" || pods[1].Name != "b/web-0" || pods[1].UID != "of-b" {
		t.Fatalf("%+v, %v", pods, err)
	}
	p, there, err := c.Pod(t.Context(), "b/web-0", "")
	if err != nil || !there || p.UID != "of-b" || p.Name != "b/web-0" {
		t.Errorf("%+v, %v, %v", p, there, err)
	}
	for _, change := range []func() error{
		func() error { return c.DeletePod(t.Context(), "b/web-0", "of-b", nil) },
		func() error { return c.Evict(t.Context(), "b/web-0", "of-b") },
		func() error { return c.SetCut(t.Context(), "b/web-0", "of-b", "x") },
		func() error { return c.WriteNote(t.Context(), Note{Pod: "b/web-0", UID: "of-b", Reason: "R"}) },
		func() error { return c.WriteNote(t.Context(), Note{Namespace: "b", Reason: "R"}) },
	} {
		client.ClearActions()
		_ = change() // a fake knows no eviction, and no pod that was deleted
		for _, a := range client.Actions() {
			if a.GetNamespace() != "b" {
				t.Errorf("%s of %s in namespace %s", a.GetVerb(), a.GetResource().Resource, a.GetNamespace())
			}
			if d, ok := a.(clienttesting.DeleteAction); ok && d.GetName() != "web-0" {
				t.Errorf("deleted %q", d.GetName())
			}
		}
		if len(client.Actions()) == 0 {
			t.Error("nothing was asked")
		}
	}
}

// Several namespaces are watched as one: the list is whole when all are, and broken as soon as one is.
func TestSeveralNamespacesAreWatchedAsOne(t *testing.T) {
	client, c := inTwo()
	var mu sync.Mutex
	away := true // the second namespace
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if away && a.GetNamespace() == "b" {
			return true, nil, errors.New("away")
		}
		return false, nil, nil
	})
	var names []string
	whole, broken := make(chan struct{}, 9), make(chan struct{}, 9)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := make(chan struct{}, 9)
	go c.WatchPods(ctx, map[string]string{"app": "web"}, "", func(k Change) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, k.Pod.Name)
		seen <- struct{}{}
	}, func(err error) {
		if err == nil {
			whole <- struct{}{}
		} else {
			broken <- struct{}{}
		}
	})
	wait := func(what string, on chan struct{}) {
		t.Helper()
		select {
		case <-on:
		case <-time.After(time.Minute):
			t.Fatal("no " + what)
		}
	}
	wait("pod of the first namespace", seen)
	select {
	case <-whole:
		t.Error("the list is called whole while a namespace is away")
	default:
	}
	mu.Lock()
	away = false
	mu.Unlock()
	wait("whole list", whole)
	mu.Lock()
	defer mu.Unlock()
	if slices.Sort(names); !slices.Equal(names, []string{"b/web-0", "web-0"}) || len(broken) > 0 {
		t.Errorf("%q, broken %d times", names, len(broken))
	}
}
