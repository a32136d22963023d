package kube

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

// testAnyKind makes objects of kinds that are found by discovery.
func (s *stand) testAnyKind(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		version, kind string
		want          Kind
		ok            bool
	}{
		{"v1", "LimitRange", Kind{"v1", "LimitRange", "limitranges", false}, true},
		{"v1", "Namespace", Kind{"v1", "Namespace", "namespaces", true}, true},
		{"scheduling.k8s.io/v1", "PriorityClass", Kind{"scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", true}, true},
		{"autoscaling/v9", "HorizontalPodAutoscaler", Kind{"autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", false}, true},
		{"v1", "Binding", Kind{"v1", "Binding", "bindings", false}, true}, // pods/binding is of that kind as well
		{"v1", "NetworkChaos", Kind{}, false},
		{"chaos-mesh.org/v1alpha1", "NetworkChaos", Kind{}, false},
	} {
		if got, ok, err := s.Served(ctx, c.version, c.kind); err != nil || ok != c.ok || got != c.want {
			t.Errorf("%s %s: %+v, %t, %v", c.version, c.kind, got, ok, err)
		}
	}
	k, _, _ := s.Served(ctx, "v1", "LimitRange")
	o, err := ObjectOf(`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"other","namespace":"other"},"spec":{"limits":[{"type":"Pod"},{"type":"Container"}]}}`)
	testkit.Must(t, err)
	if Name(&o, k, "small", namespace); Mark(&o, "mine") != nil {
		t.Fatal("not marked")
	}
	made, err := s.Create(ctx, k, o)
	if err != nil || made.GetUID() == "" || made.GetNamespace() != namespace || MarkOf(made) != "mine" {
		t.Fatalf("made %v, %v", made.Object, err)
	}
	if _, err := s.Create(ctx, k, o); !errors.Is(err, ErrAnother) {
		t.Errorf("made twice: %v", err)
	}
	for path, want := range map[string]string{"{.spec.limits[*].type}": "Pod Container", `{.spec.limits[?(@.type=="Pod")].type}`: "Pod", "{.status.phase}": "", `{.status.conditions[?(@.type=="A")].status}`: "",
		"{.metadata.name}": "small", "{.metadata.generation}{.metadata.name}": "small"} {
		if got, err := Shown(made, path); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s shows %q, %v", path, got, err)
		}
	}
	if _, err := Shown(made, "{.a"); err == nil {
		t.Error("no path was read")
	}
	if err := s.Delete(ctx, k, "small", "another"); !errors.Is(err, ErrAnother) {
		t.Errorf("another's was deleted: %v", err)
	}
	if err := s.Delete(ctx, k, "small", string(made.GetUID())); err != nil {
		t.Error(err)
	}
	if _, there, err := s.Read(ctx, k, "small"); there || err != nil {
		t.Errorf("it is there still (%v)", err)
	}
	k, _, _ = s.Served(ctx, "scheduling.k8s.io/v1", "PriorityClass")
	o, _ = ObjectOf(`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","value":7}`)
	Name(&o, k, "wide", namespace)
	if made, err = s.Create(ctx, k, o); err != nil || made.GetNamespace() != "" {
		t.Errorf("made %v, %v", made.Object, err)
	}
	if got, err := Shown(made, "{.value}"); err != nil || !slices.Equal(got, []string{"7"}) {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Delete(ctx, k, "wide", string(made.GetUID())); err != nil {
		t.Error(err)
	}
}
