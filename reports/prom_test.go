package reports

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

// The metrics are what Prometheus' own rules ask for, are consistent, and name no run.
func TestMetricsKeepTheRules(t *testing.T) {
	runs := everyRun(t)
	for _, attack := range attacks {
		runs["attack "+attack] = hostile(attack)
	}
	for name, r := range runs {
		text := written(t, metricsOf, r)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %+v", name, err, problems)
		}
		if _, err := (prometheus.Gatherers{MetricsOf(r)}).Gather(); err != nil { // as a push does: no sample twice
			t.Errorf("%s: %v", name, err)
		}
		if id := r.Judgement.Run.ID; r.Judgement.Verdict == "pass" && strings.Contains(text, id) {
			t.Errorf("%s: the run %s is a label", name, id)
		}
		if _, real := recordedRuns[name]; real || name == "attack "+attacks[0] { // each costs a process
			promtool(t, name, text)
		}
	}
}

// promtool is Prometheus' own checker of an exposition.
func promtool(t *testing.T, name, text string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool not found: make deps installs it")
		}
		t.Log("NOT CHECKED by promtool: it is not installed")
		return
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: promtool: %v: %s\n%s", name, err, out, text)
	}
}

func find(m Metrics, name string, labels ...string) *dto.Metric {
	for _, f := range m {
		if f.GetName() != name {
			continue
		}
	samples:
		for _, s := range f.Metric {
			for i := 0; i < len(labels); i += 2 {
				if label(s, labels[i]) != labels[i+1] {
					continue samples
				}
			}
			return s
		}
	}
	return nil
}

func TestMetricsSayWhatTheRunWas(t *testing.T) {
	for name, verdict := range recordedRuns {
		m := MetricsOf(recorded(t, name))
		for _, v := range verdicts() {
			if got := find(m, "lockdrill_run_verdict", "verdict", v).GetGauge().GetValue(); got != truth(v == verdict) {
				t.Errorf("%s: verdict %s is %v", name, v, got)
			}
		}
		if got := find(m, lastPass) != nil; got != (verdict == "pass") {
			t.Errorf("%s: last pass is said: %v", name, got)
		}
	}
	m := MetricsOf(recorded(t, "fail"))
	for slo, want := range map[string][2]float64{"takeover.max": {0, 1}, "takeover.p95": {0, 0}, "overlap.effect": {1, 0}} {
		met, violated := find(m, "lockdrill_slo_met", "slo", slo).GetGauge().GetValue(), find(m, "lockdrill_slo_violated", "slo", slo).GetGauge().GetValue()
		if met != want[0] || violated != want[1] {
			t.Errorf("%s: met %v, violated %v, want %v", slo, met, violated, want)
		}
	}
}

// A rehearsal that went well is no pass that an alert may rest on.
func TestARehearsalIsNoLastPass(t *testing.T) {
	r := recorded(t, "pass-1")
	j := *r.Judgement
	j.Run.Live = false
	r.Judgement = &j
	if find(MetricsOf(r), lastPass) != nil {
		t.Error("a rehearsal counts as a pass")
	}
}

// A fault whose end was not verified may be at work.
func TestAFaultThatWasNotVerifiedIsActive(t *testing.T) {
	e, h := testkit.Run(t, filepath.Join("testdata", "recorded", "fail"))
	r := runOf(e, h)
	value := func() float64 {
		return find(MetricsOf(r), "lockdrill_fault_active", "injector", "pause").GetGauge().GetValue()
	}
	if value() != 0 {
		t.Error("the pause is over, and counts as active")
	}
	r.Record = NewRecord(e, h.Header, nil)
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind != "fault.verified" || e.Fault.Kind != "pause" {
			r.Record.See(e)
		}
	}
	if value() != 1 {
		t.Error("nothing verified the end of the pause, and it does not count as active")
	}
}

// A textfile collector shows what its file holds: a failed run must not take the last pass out of it, nor another experiment.
func TestTheLastPassOutlivesAFailedRun(t *testing.T) {
	text := ""
	after := func(m Metrics, experiment string) Metrics {
		t.Helper()
		all, err := m.After(strings.NewReader(text), experiment)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := all.Write(&b); err != nil {
			t.Fatal(err)
		}
		text = b.String()
		promtool(t, experiment, text)
		return all
	}
	pass := MetricsOf(recorded(t, "pass-1"))
	at := find(pass, lastPass).GetGauge().GetValue()
	after(pass, "one-kill")
	after(MetricsOf(recorded(t, "fail")), "too-late-and-twice")
	all := after(MetricsUnjudged("one-kill", "refused", time.Unix(1e9, 0)), "one-kill")
	if got := find(all, lastPass, "experiment", "one-kill").GetGauge().GetValue(); got != at {
		t.Errorf("after a refused run the last pass is %v, was %v", got, at)
	}
	if find(all, "lockdrill_slo_met", "experiment", "one-kill") != nil {
		t.Error("a refused run shows the SLOs of an earlier one")
	}
	if find(all, "lockdrill_slo_met", "experiment", "too-late-and-twice") == nil {
		t.Error("the other experiment is gone")
	}
	if find(pass, "lockdrill_slo_met", "experiment", "too-late-and-twice") != nil {
		t.Error("what was merged changed what it was made from")
	}
	twice := after(pass, "one-kill")
	if _, err := (prometheus.Gatherers{twice}).Gather(); err != nil {
		t.Error(err)
	}
	for _, foreign := range []string{"node_load1 1\n", "lockdrill_x 1\n", "no metrics\n"} {
		if _, err := pass.After(strings.NewReader(foreign), "one-kill"); err == nil {
			t.Errorf("%q was taken for a file of lockdrill's", foreign)
		}
	}
}
