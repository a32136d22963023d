package experiments

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// TestHolderNames: how a holder's name leads to a pod, and where it does not.
func TestHolderNames(t *testing.T) {
	labels, annotations := map[string]string{"who": "me"}, map[string]string{"x/id": "me-too"}
	for _, c := range []struct {
		names  *HolderNames
		holder string
		is     bool
	}{
		{nil, "web-1", true},
		{nil, "web-1_0b1c-4e", true}, // client-go: host name, underscore, UUID
		{nil, "web-1/0b1c", true},
		{nil, "web-10", false}, // another pod
		{nil, "web-1-0b1c", false},
		{nil, "web-1.svc", false},
		{nil, "web", false},
		{nil, "", false},
		{&HolderNames{Name: "{pod}"}, "web-1", true},
		{&HolderNames{Name: "{pod}"}, "web-1_x", false},
		{&HolderNames{Name: "{pod}_*"}, "web-1_0b1c", true},
		{&HolderNames{Name: "{pod}_*"}, "web-1", false},
		{&HolderNames{Name: "*:{pod}:*"}, "shop:web-1:17", true},
		{&HolderNames{Name: "*:{pod}:*"}, "shop:web-2:17", false},
		{&HolderNames{Name: "a*b{pod}"}, "aweb-1", false},
		{&HolderNames{Name: "a*b*{pod}"}, "axbweb-1", true},
		{&HolderNames{Name: "web-1*{pod}"}, "web-1", false}, // no part is used twice
		{&HolderNames{Label: "who"}, "me", true},
		{&HolderNames{Label: "who"}, "me-too", false},
		{&HolderNames{Label: "nobody"}, "", false},
		{&HolderNames{Annotation: "x/id"}, "me-too", true},
		{&HolderNames{Annotation: "x/id"}, "web-1", false},
	} {
		if got := c.names.Is(c.holder, "web-1", labels, annotations); got != c.is {
			t.Errorf("%+v says %t of %q", c.names, got, c.holder)
		}
	}
}

// TestPodsDefaults: what is not said where replicas are pods, and where effects are read.
func TestPodsDefaults(t *testing.T) {
	e, err := Load("testdata/observed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if l := e.System.Locks[0]; l.Key != "billing-leader" || e.System.Restart != 0 || e.Kubernetes.Grace != 0 || !e.Observed() {
		t.Errorf("key %q, restart %s, grace %s", l.Key, e.System.Restart, e.Kubernetes.Grace)
	}
	if logs := e.Probes.Logs.Named(); len(logs) != 8 || logs[3].Name != "lock_not_owned" {
		t.Errorf("logs: %v", logs)
	}
	if e, err = Load("testdata/effects.yaml"); err != nil {
		t.Fatal(err)
	}
	if x := e.EffectsOf("list"); x.ProbeSettings != (ProbeSettings{Every: 20 * time.Millisecond, MaxGap: 500 * time.Millisecond}) || x.Probe() != "effects:listed" {
		t.Errorf("effects: %+v", x)
	}
	if e, err = Load("testdata/pods.yaml"); err != nil {
		t.Fatal(err)
	}
	if k := e.Faults[2].Aim(); e.Faults[2].Moment() != "" || k != (fault.Aim{Pods: "app.kubernetes.io/name=lockdrill", Pick: fault.PickOldest}) || k.InWords() != "the oldest of the pods with app.kubernetes.io/name=lockdrill" {
		t.Errorf("a kill by labels: %+v, %s", k, k.InWords())
	}
	if (e.Probes.Leases != ProbeSettings{}) || !e.Limits.NamespaceAllowed("drills-2") || e.Limits.NamespaceAllowed("shop") {
		t.Errorf("leases %+v, namespaces %v", e.Probes.Leases, e.Limits.Namespaces)
	}
}
