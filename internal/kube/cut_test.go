package kube

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lockdrill/lockdrill/internal/kubefake"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// What a cluster without an API server shows of it: the label comes and goes, and the other labels stay.
func TestAPodIsLabelledToBeCutOff(t *testing.T) {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", UID: "p1", Labels: map[string]string{"app": "w"}}})
	c := New(kubefake.Generic(client), "shop")
	for _, value := range []string{"cut-1", ""} {
		testkit.Must(t, c.SetCut(t.Context(), "web-1", "p1", value))
		p, ok, err := c.Pod(t.Context(), "web-1", "")
		if err != nil || !ok || p.Labels[CutLabel] != value || p.Labels["app"] != "w" {
			t.Errorf("labelled %q: %+v, %v", value, p.Labels, err)
		}
	}
	if err := c.SetCut(t.Context(), "web-2", "p2", "cut-1"); !errors.Is(err, ErrGone) {
		t.Errorf("a pod that is gone: %v", err)
	}
	rules := RulesFor(Needs{Namespace: "shop", Cut: true})
	if text := RuleYAML(rules); !strings.Contains(text, "networkpolicies") || !strings.Contains(text, "patch") {
		t.Errorf("rules:\n%s", text)
	}
	if text := RuleYAML(RulesFor(Needs{Namespace: "shop"})); strings.Contains(text, "networkpolicies") || strings.Contains(text, "patch") {
		t.Errorf("rules of a drill that cuts nobody off:\n%s", text)
	}
}

// The label is for the pod with that UID, and nothing else of it changes; the policy means pods with that label, and is the run's.
func (s *stand) testCut(t *testing.T) {
	ctx := t.Context()
	testkit.Must(t, s.Apply(ctx, manifest(t, deployment, 1)))
	s.awaitPods(t, 1)
	pods, err := s.Pods(ctx, map[string]string{"app": "w"}, "")
	testkit.Must(t, err)
	pod := pods[0]
	policy, err := CutPolicy("cut-1", "cut-1", "mine")
	testkit.Must(t, err)
	testkit.Must(t, s.Apply(ctx, policy))
	made, err := s.Env.Client.NetworkingV1().NetworkPolicies(namespace).Get(ctx, "cut-1", metav1.GetOptions{})
	if err != nil || made.Labels[RunLabel] != "mine" || made.Spec.PodSelector.MatchLabels[CutLabel] != "cut-1" || len(made.Spec.PolicyTypes) != 2 || len(made.Spec.Ingress)+len(made.Spec.Egress) > 0 {
		t.Errorf("policy %+v, %v", made, err)
	}
	if err := s.SetCut(ctx, pod.Name, "11111111-2222-3333-4444-555555555555", "cut-1"); !errors.Is(err, ErrAnother) {
		t.Errorf("a pod that is another: %v", err)
	}
	if err := s.SetCut(ctx, "nobody", pod.UID, "cut-1"); !errors.Is(err, ErrGone) {
		t.Errorf("a pod that is gone: %v", err)
	}
	for _, value := range []string{"cut-1", ""} {
		testkit.Must(t, s.SetCut(ctx, pod.Name, pod.UID, value))
		now, ok, err := s.Pod(ctx, pod.Name, "")
		if err != nil || !ok || now.UID != pod.UID || now.Labels[CutLabel] != value || now.Labels["app"] != "w" {
			t.Errorf("labelled %q: %+v, %v", value, now.Labels, err)
		}
	}
	f, ok, err := s.Find(ctx, PolicyVersion, PolicyKind, "cut-1")
	if err != nil || !ok || f.Run != "mine" {
		t.Errorf("found %+v, %v", f, err)
	}
	if err := s.Remove(ctx, PolicyVersion, PolicyKind, "cut-1", f.UID); err != nil {
		t.Error(err)
	}
	d, _, err := s.Find(ctx, "apps/v1", "Deployment", "w")
	if err == nil {
		err = s.Remove(ctx, "apps/v1", "Deployment", "w", d.UID)
	}
	if err != nil {
		t.Error(err)
	}
	s.awaitPods(t, 0)
}
