package forecast

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
)

// loopDrill is a drill of one shipped loop with a promised takeover.
func loopDrill(t *testing.T, profile string, phase fault.Phase, d experiments.DurationLimits) *experiments.Experiment {
	t.Helper()
	l, err := experiments.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	l.Name = "loop"
	return &experiments.Experiment{
		TimeScale: 1, System: experiments.System{Replicas: 3, Restart: time.Hour, Locks: []experiments.Lock{*l}},
		Faults: []experiments.Fault{{ID: "k", Repeat: experiments.Repeat{Count: 10}, Spec: &fault.Kill{HolderOf: "loop", Phase: phase}}},
		SLOs:   []experiments.SLO{{Lock: "loop", Takeover: &d}},
	}
}

func lint(t *testing.T, e *experiments.Experiment, rule string) Lint {
	t.Helper()
	for _, l := range Lints(e, 0) {
		if l.Rule == rule {
			return l
		}
	}
	t.Fatalf("no %s in %+v", rule, Lints(e, 0))
	return Lint{}
}

func TestLintTakeoverBand(t *testing.T) {
	for _, c := range []struct {
		phase fault.Phase
		max   time.Duration
		ok    bool
		means string
	}{
		{fault.RandomPhase, 94 * time.Second, true, ""},
		{fault.RandomPhase, 90 * time.Second, false, "Met as long as the store answers without delay."},
		{fault.RandomPhase, 89 * time.Second, false, "Your timings do not guarantee it. In the file, keep"},
		{fault.AfterGrant, 30 * time.Second, false, "No fault can meet it."},
	} {
		l := lint(t, loopDrill(t, "cordum/pending-replayer", c.phase, *experiments.Within(c.max)), "L3")
		if l.OK != c.ok || !strings.HasPrefix(l.Means, c.means) || !strings.Contains(l.Text, "94s (ttl 60s + in flight 2s + poll 30s + acquire 2s)") {
			t.Errorf("%s, max %s: %+v", c.phase, c.max, l)
		}
	}
}

// A quantile that the timings rule out is told as a max is; one that some faults meet is no mistake.
func TestLintQuantileBelowTheBand(t *testing.T) {
	for p90, ruledOut := range map[time.Duration]bool{30 * time.Second: true, 70 * time.Second: false} {
		e := loopDrill(t, "cordum/pending-replayer", fault.AfterGrant, experiments.DurationLimits{P90: &p90})
		l := lint(t, e, "L3")
		if l.OK == ruledOut || ruledOut != strings.HasPrefix(l.Means, "No fault can meet it.") || ruledOut != (l.SLO == &e.SLOs[0]) {
			t.Errorf("p90 %s: %+v", p90, l)
		}
	}
}

// Nobody takes over from a replica that is alone.
func TestLintAlone(t *testing.T) {
	e := loopDrill(t, "cordum/pending-replayer", fault.RandomPhase, *experiments.Within(95 * time.Second))
	if slices.ContainsFunc(Lints(e, 0), func(l Lint) bool { return l.Rule == "L12" }) {
		t.Error("three replicas are told to be alone")
	}
	e.System.Replicas = 1
	if l := lint(t, e, "L12"); l.OK || l.SLO != &e.SLOs[0] || l.Lock != "loop" {
		t.Errorf("%+v", l)
	}
}

func TestLintEvidence(t *testing.T) {
	p95 := 95 * time.Second
	l := lint(t, loopDrill(t, "cordum/pending-replayer", fault.RandomPhase, experiments.DurationLimits{P95: &p95}), "L8")
	if l.OK || l.Text != "takeover p95: 10 kills are declared, and an answer needs at least 59" {
		t.Errorf("%+v", l)
	}
}

// A prefix that runs into the job's id is told; one that ends with a separator, and one that is left out, have no sum.
func TestLintKeyPrefix(t *testing.T) {
	for prefix, told := range map[string]bool{"sched:job": true, "sched:job:": false, "jobs/": false, "j_": false, "job1": true, "jé": true, "": false} {
		e := &experiments.Experiment{System: experiments.System{Locks: []experiments.Lock{{Name: "job", KeyPrefix: prefix}}}}
		got := slices.ContainsFunc(Lints(e, 0), func(l Lint) bool {
			return l.Rule == "L9" && !l.OK && strings.Contains(l.Text, " = "+prefix+"job-00001") && strings.Contains(l.Means, prefix+":")
		})
		if got != told {
			t.Errorf("%q: told %t, want %t: %+v", prefix, got, told, Lints(e, 0))
		}
	}
}
