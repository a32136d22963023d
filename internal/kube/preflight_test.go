package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lockdrill/lockdrill/internal/kubefake"
)

// permitting is a cluster that permits what allowed says.
func permitting(allowed func(a *authv1.ResourceAttributes) bool) *Cluster {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview)
		review.Status.Allowed = allowed(review.Spec.ResourceAttributes)
		return true, review, nil
	})
	return New(kubefake.Generic(client), "locks")
}

func TestMissing(t *testing.T) {
	rules := []Rule{
		{Resource: "pods", Verbs: []string{"get", "list", "delete"}},
		{Resource: "pods", Subresource: "log", Verbs: []string{"get"}},
		{APIGroup: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "update"}, Names: []string{"a", "b"}},
	}
	wide := permitting(func(a *authv1.ResourceAttributes) bool { return a.Namespace == "" })
	if missing, err := wide.Missing(t.Context(), []Rule{{Resource: "nodes", Verbs: []string{"patch"}, Wide: true}}); err != nil || len(missing) > 0 {
		t.Errorf("what is in no namespace is asked for in one: %+v, %v", missing, err)
	}
	c := permitting(func(a *authv1.ResourceAttributes) bool {
		return a.Namespace == "locks" && a.Verb != "delete" && a.Subresource == "" && !(a.Name == "b" && a.Verb == "update")
	})
	missing, err := c.Missing(t.Context(), rules)
	want := "- apiGroups: [\"\"]\n  resources: [\"pods\"]\n  verbs: [\"delete\"]\n" +
		"- apiGroups: [\"\"]\n  resources: [\"pods/log\"]\n  verbs: [\"get\"]\n" +
		"- apiGroups: [\"coordination.k8s.io\"]\n  resources: [\"leases\"]\n  resourceNames: [\"b\"]\n  verbs: [\"update\"]\n"
	if got := RuleYAML(missing); err != nil || got != want {
		t.Errorf("missing %v:\n%swant\n%s", err, got, want)
	}
	if missing, err := permitting(func(*authv1.ResourceAttributes) bool { return true }).Missing(t.Context(), rules); err != nil || len(missing) > 0 {
		t.Errorf("all is permitted: %+v, %v", missing, err)
	}
}

// What a drill does not do, it does not ask for.
func TestRulesAreTheNeeds(t *testing.T) {
	has := func(n Needs, resource, verb string) bool {
		return slices.ContainsFunc(RulesFor(n), func(r Rule) bool {
			return strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/") == resource && slices.Contains(r.Verbs, verb)
		})
	}
	for _, c := range []struct {
		resource, verb string
		with           Needs
	}{
		{"pods", "delete", Needs{Kill: true}},
		{"pods", "delete", Needs{Apply: true}}, // of what it made
		{"pods/eviction", "create", Needs{Evict: true}},
		{"poddisruptionbudgets", "list", Needs{Kill: true}},
		{"poddisruptionbudgets", "list", Needs{Evict: true}},
		{"pods/exec", "create", Needs{Exec: true}},
		{"pods/log", "get", Needs{Logs: true}},
		{"nodes", "patch", Needs{Nodes: true}},
		{"nodes", "get", Needs{Zones: true}},
		{"deployments", "patch", Needs{Apply: true}},
		{"serviceaccounts", "patch", Needs{Apply: true}},
	} {
		if has(Needs{}, c.resource, c.verb) || !has(c.with, c.resource, c.verb) {
			t.Errorf("%s of %s: %v without the need, %v with it", c.verb, c.resource, has(Needs{}, c.resource, c.verb), has(c.with, c.resource, c.verb))
		}
	}
	for _, r := range RulesFor(Needs{Namespace: "locks", Apply: true, Kill: true, Exec: true, Logs: true, Leases: []string{"web"}}) {
		if r.Resource == "secrets" || slices.Contains(r.Verbs, "*") {
			t.Errorf("rule %+v", r)
		}
		if r.Resource == "namespaces" && !slices.Equal(r.Names, []string{"locks"}) || r.Resource == "leases" && len(r.Names) == 0 && !slices.Equal(r.Verbs, []string{"create"}) {
			t.Errorf("rule %+v is for objects of any name", r)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		name        string
		said        bool
	}{{nil, "", false}, {map[string]string{EnvironmentAnnotation: ""}, "", false}, {map[string]string{EnvironmentAnnotation: "staging"}, "staging", true}} {
		cluster := New(kubefake.Generic(fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "locks", Annotations: c.annotations}})), "locks")
		if name, said, err := cluster.Environment(t.Context()); name != c.name || said != c.said || err != nil {
			t.Errorf("%v: %q, %v, %v", c.annotations, name, said, err)
		}
	}
	if _, _, err := New(kubefake.Generic(fake.NewClientset()), "locks").Environment(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("without the namespace: %v", err)
	}
	client := fake.NewClientset()
	client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("namespaces"), "locks", errors.New("no"))
	})
	if _, _, err := New(kubefake.Generic(client), "locks").Environment(context.Background()); !errors.Is(err, ErrForbidden) {
		t.Errorf("without the permission: %v", err)
	}
}
