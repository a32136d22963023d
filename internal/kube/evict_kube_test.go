package kube

import (
	"errors"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lockdrill/lockdrill/internal/kubetest"
)

// A real API server asks the budget: it names the one that blocks, and the pod goes once that allows it. A UID of another pod is no match.
func TestKubeEvictWithinBudgets(t *testing.T) {
	s := newStand(t, kubetest.NodeOptions{})
	p := s.run("w-0")
	budgets, least := s.Env.Client.PolicyV1().PodDisruptionBudgets(namespace), intstr.FromInt32(1)
	b, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stays"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "w"}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allow := func(n int32) { // as its controller does, which is not here
		t.Helper()
		if b, err = budgets.Get(t.Context(), b.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1, DisruptionsAllowed: n}
		if b, err = budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	allow(0)
	if err := s.Evict(t.Context(), p.Name, p.UID); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "stays") {
		t.Errorf("blocked: %v", err)
	}
	if now, there, err := s.Pod(t.Context(), p.Name, ""); err != nil || !there || now.Ending {
		t.Errorf("%+v, %v, %v", now, there, err)
	}
	all, err := s.Budgets(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "stays" || all[0].Allows != 0 || !all[0].Covers(p) {
		t.Errorf("%+v, %v", all, err)
	}
	allow(1)
	if err := s.Evict(t.Context(), p.Name, "another"); !errors.Is(err, ErrAnother) {
		t.Errorf("another pod's UID: %v", err)
	}
	allow(1) // the API server takes what it allowed off, whatever became of it
	if err := s.Evict(t.Context(), p.Name, p.UID); err != nil {
		t.Fatal(err)
	}
	if err := s.Evict(t.Context(), "nobody", p.UID); !errors.Is(err, ErrGone) {
		t.Errorf("nobody: %v", err)
	}
}

// A node is cordoned in the state that was read, and not twice; what ends it takes the mark along.
func TestKubeCordon(t *testing.T) {
	s := newStand(t, kubetest.NodeOptions{})
	look := func() Node {
		t.Helper()
		n, there, err := s.Node(t.Context(), kubetest.Node)
		if err != nil || !there {
			t.Fatal(there, err)
		}
		return n
	}
	before := look()
	if err := s.Cordon(t.Context(), before, "run"); err != nil {
		t.Fatal(err)
	}
	if n := look(); !n.Cordoned || n.By != "run" {
		t.Errorf("%+v", n)
	}
	if err := s.Cordon(t.Context(), before, "other"); !errors.Is(err, ErrAnother) {
		t.Errorf("of a state that is over: %v", err)
	}
	if err := s.Cordon(t.Context(), look(), ""); err != nil {
		t.Fatal(err)
	}
	if n := look(); n.Cordoned || n.By != "" {
		t.Errorf("%+v", n)
	}
	if _, there, err := s.Node(t.Context(), "nobody"); there || err != nil {
		t.Errorf("nobody: %v, %v", there, err)
	}
	if err := s.Cordon(t.Context(), Node{Name: "nobody", UID: "x"}, "run"); !errors.Is(err, ErrGone) {
		t.Errorf("nobody: %v", err)
	}
}
