package metrics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
)

// Every series carries whose it is, and nothing that grows with keys or jobs.
func TestLabels(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	k := m.For(metrics.Labels{Namespace: "job", Profile: "cordum/scheduler-job", Policy: "legacy_count"})
	k.Sought(client.Seeking{Key: "secret-key", Class: "small", Mode: lockcore.AcquireTry, Result: lockcore.OK, Fence: 1})
	k.Stopped(client.Stopping{Class: "small"})
	k.StaleWrite(true)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 17 {
		t.Errorf("%d instruments, want the 17 of the design", len(families))
	}
	allowed := []string{"namespace", "profile", "policy", "class", "mode", "result", "reason", "op", "kind", "cause", "outcome"}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lockcore_") {
			t.Errorf("%s has not the prefix", f.GetName())
		}
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
				if !slices.Contains(allowed, l.GetName()) || strings.Contains(l.GetValue(), "secret") {
					t.Errorf("%s carries %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
			if has["namespace"] != "job" || has["profile"] != "cordum/scheduler-job" || has["policy"] != "legacy_count" {
				t.Errorf("%s carries %v", f.GetName(), has)
			}
		}
	}
}

// A grant whose fence is not above the last one of its key is a fence that went back.
func TestAFenceThatGoesBackIsCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	k := m.For(metrics.Labels{})
	for i, grant := range []struct {
		key   string
		fence int64
		want  float64
	}{{"k", 7, 0}, {"other", 7, 0}, {"k", 7, 1}, {"k", 8, 1}} {
		k.Sought(client.Seeking{Key: grant.key, Mode: lockcore.AcquireTry, Result: lockcore.OK, Fence: grant.fence})
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "lockcore_fence_regression_total" })
		if got := families[at].GetMetric()[0].GetCounter().GetValue(); got != grant.want {
			t.Errorf("grant %d: %g fences went back, want %g", i, got, grant.want)
		}
	}
}

func TestNamesAreTaken(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := metrics.New(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := metrics.New(reg); err == nil {
		t.Error("registered twice")
	}
}
