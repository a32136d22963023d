package compare

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func (o *Observed) row(t *testing.T, lock, measure string) verdict.Sample {
	t.Helper()
	i := slices.IndexFunc(o.Rows, func(s Row) bool { return s.Question.Lock == lock && s.Name() == measure })
	if i < 0 {
		t.Fatalf("no row %s/%s", lock, measure)
	}
	return o.Rows[i].Sample
}

// recorded reads a case as `lockdrill judge` would.
func recorded(t *testing.T, name string) (*experiments.Experiment, *history.History) {
	t.Helper()
	return testkit.Run(t, filepath.Join("..", "..", "scenarios", "testdata", name))
}

func observedCase(t *testing.T, name string) *Observed {
	t.Helper()
	e, h := recorded(t, name)
	return Observe(analysis.FactsOf(e, h), name)
}

// A value of takeover is a kill, of everything else a run.
func TestObserveCountsIndependentKills(t *testing.T) {
	o := observedCase(t, "good-drill")
	if !o.Run.Answered || !o.Run.Used || o.Run.Verdict != "pass" {
		t.Fatalf("%+v", o.Run)
	}
	for _, c := range []struct {
		lock, measure, of string
		n                 int
	}{{"leader", "takeover", "kill", 2}, {"leader", "tick_gap", "kill", 2}, {"job", "takeover", "kill", 2}, {"leader", "busy.count", "run", 1}, {"job", "fence_lag", "run", 1}} {
		if s := o.row(t, c.lock, c.measure); s.Of != c.of || len(s.Values) != c.n {
			t.Errorf("%s/%s: %d values of a %s, want %d of a %s", c.lock, c.measure, len(s.Values), s.Of, c.n, c.of)
		}
	}
	// All jobs that die with one replica are one kill.
	dies := observedCase(t, "replica-dies")
	for _, s := range dies.Rows {
		if n := len(dies.row(t, s.Question.Lock, s.Name()).Values); s.Name() == "takeover" && n != 1 {
			t.Errorf("%s: %d values, want 1: one kill", s.Question.Lock, n)
		}
	}
}

// What a run cannot judge is no value of 0: belief under a pause, a question that was not reached, a run that was cut off.
func TestObserveLeavesOutWhatWasNotReached(t *testing.T) {
	o := observedCase(t, "pause-belief")
	for _, s := range o.Rows {
		if s.Name() == "overlap.belief" && len(s.Values) > 0 {
			t.Errorf("belief under a pause has values: %v", s.Values)
		}
	}
	for _, f := range o.Failures {
		if f.What == "locks with two believers" && f.N > 0 {
			t.Errorf("belief under a pause is a failure")
		}
	}
	e, h := recorded(t, "good-drill")
	cut := *h
	cut.Events = h.Events[:len(h.Events)*2/3]
	o = Observe(analysis.FactsOf(e, &cut), "cut")
	if o.Run.Used || o.Run.Answered || o.Run.Why == "" {
		t.Errorf("a history without an end: %+v", o.Run)
	}
	for _, s := range o.Rows {
		if len(s.Values) > 0 {
			t.Errorf("%s/%s of a run that was cut off has values", s.Question.Lock, s.Name())
		}
	}
}

// Beside another rehearsal, that it is one is no reason to set its figures aside; its verdict stays what verdict.json says.
func TestObserveJudgesRehearsalsByTheirFigures(t *testing.T) {
	e, h := recorded(t, "good-drill")
	rehearsed := *h
	rehearsed.Header.Mode = history.Rehearsal
	o := Observe(analysis.FactsOf(e, &rehearsed), "")
	if !o.Rehearsal || o.Run.Verdict != "inconclusive" || !o.Run.Answered || !o.Run.Used {
		t.Errorf("%+v", o.Run)
	}
	if h.Header.Mode != history.Live || rehearsed.Header.Mode != history.Rehearsal {
		t.Error("the history was changed")
	}
	live := Observe(analysis.FactsOf(e, h), "")
	if ds := differ(live.Environment, o.Environment); len(ds) != 1 || ds[0].Field != "mode" {
		t.Errorf("a live run and its own rehearsal differ in %v", ds)
	}
}

// Every field of the file changes what is measured, but for those that are known not to.
func TestEnvironmentHasWhatChangesTheMeasurement(t *testing.T) {
	e, h := recorded(t, "good-drill")
	base := environmentOf(analysis.FactsOf(e, h), false)
	changed := func(change func(*experiments.Experiment, *history.History)) []string {
		e, h := recorded(t, "good-drill")
		change(e, h)
		var fields []string
		for _, d := range differ(base, environmentOf(analysis.FactsOf(e, h), false)) {
			fields = append(fields, d.Field)
		}
		return fields
	}
	for want, change := range map[string]func(*experiments.Experiment, *history.History){
		"system.locks.job.policy.ttl":          func(e *experiments.Experiment, _ *history.History) { e.System.Locks[1].Policy.TTL++ },
		"system.locks.leader.policy.loop.poll": func(e *experiments.Experiment, _ *history.History) { e.System.Locks[0].Policy.Loop.Poll++ },
		"system.work.job.jobs":                 func(e *experiments.Experiment, _ *history.History) { e.System.Work[0].Jobs++ },
		"system.replicas":                      func(e *experiments.Experiment, _ *history.History) { e.System.Replicas++ },
		"time_scale":                           func(e *experiments.Experiment, _ *history.History) { e.TimeScale = 0.5 },
		"faults.kill-worker.at":                func(e *experiments.Experiment, _ *history.History) { e.Faults[1].At++ },
		"tool":                                 func(_ *experiments.Experiment, h *history.History) { h.Header.Tool = "other" },
		"store.version":                        func(_ *experiments.Experiment, h *history.History) { h.Events[0].Environment.Store.Version = "8" },
		"cpus":                                 func(_ *experiments.Experiment, h *history.History) { h.Events[0].Environment.CPUs++ },
	} {
		if got := changed(change); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v", want, got)
		}
	}
	if got := changed(func(e *experiments.Experiment, h *history.History) {
		e.Description, e.Seed, e.SLOs, e.Limits.MaxRun, e.System.Locks[0].Profile, h.Header.Run = "other", 7, e.SLOs[1:], 1, "other", "other"
	}); len(got) > 0 {
		t.Errorf("words, seeds, promises and guards change the environment: %v", got)
	}
}
