package sweep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// find sweeps a system that ends with outcome above the value.
func find(t *testing.T, text string, of func(v float64) sweep.Outcome) (*sweep.Document, []float64) {
	t.Helper()
	r, err := sweep.Parse(sweep.Rate, text)
	testkit.Must(t, err)
	var tried []float64
	s, err := r.Find(t.Context(), 5, 4, func(_ context.Context, v float64) (sweep.Step, error) {
		tried = append(tried, v)
		return sweep.Step{Outcome: of(v)}, nil
	})
	testkit.Must(t, err)
	return s, tried
}

func above(limit float64, o sweep.Outcome) func(float64) sweep.Outcome {
	return func(v float64) sweep.Outcome {
		if v > limit {
			return o
		}
		return sweep.Held
	}
}

func TestTheCeilingLiesBetweenTheLastThatHeldAndTheFirstThatDidNot(t *testing.T) {
	for _, o := range []sweep.Outcome{sweep.Broken, sweep.Machine} {
		s, tried := find(t, "1/s..10000/s", above(70, o))
		if s.Holds == nil || s.Breaks == nil || *s.Holds > 70 || *s.Breaks <= 70 || s.By != o {
			t.Fatalf("%s: %+v", o, s)
		}
		if *s.Breaks / *s.Holds > 1.4 { // a decade, halved four times
			t.Errorf("%s: [%v, %v] after %v", o, *s.Holds, *s.Breaks, tried)
		}
		for _, v := range tried {
			if text := sweep.Value(sweep.Rate, v); len(text) > len("1000.5/s") {
				t.Errorf("tried %s: want what a reader can remember", text)
			}
		}
		if tried[0] != 1 || slices.Contains(tried, 10000) {
			t.Errorf("%s: tried %v: want a climb from the lowest that stops where it broke", o, tried)
		}
		if !slices.IsSortedFunc(s.Steps, func(a, b sweep.Step) int { return int(a.Value - b.Value) }) {
			t.Errorf("the steps are not in order: %+v", s.Steps)
		}
	}
}

func TestNothingBreaks(t *testing.T) {
	s, tried := find(t, "1/s..16/s", above(100, sweep.Broken))
	if s.Breaks != nil || s.Holds == nil || *s.Holds != 16 || s.By != "" || len(tried) != 5 {
		t.Errorf("%+v after %v", s, tried)
	}
}

func TestTheLowestBreaksAlready(t *testing.T) {
	s, tried := find(t, "1/s..16/s", above(0, sweep.Broken))
	if s.Holds != nil || s.Breaks == nil || *s.Breaks != 1 || s.By != sweep.Broken || len(tried) != 1 {
		t.Errorf("%+v after %v", s, tried)
	}
}

// What is not known is neither held nor broken: the climb goes on, and a ceiling never rests on it.
func TestUndecidedStepsAreNoCeiling(t *testing.T) {
	s, _ := find(t, "1/s..10000/s", func(v float64) sweep.Outcome {
		switch {
		case v > 500:
			return sweep.Broken
		case v > 5:
			return sweep.Undecided
		}
		return sweep.Held
	})
	if *s.Holds > 5 || *s.Breaks <= 500 || s.By != sweep.Broken {
		t.Errorf("[%v, %v] by %s", *s.Holds, *s.Breaks, s.By)
	}
	s, _ = find(t, "1/s..10000/s", above(50, sweep.Undecided))
	if *s.Holds > 50 || *s.Breaks <= 50 || s.By != sweep.Undecided {
		t.Errorf("[%v, %v] by %s: want what is not known where knowledge ends", *s.Holds, *s.Breaks, s.By)
	}
}

func TestADialThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ dial, text, says string }{
		{sweep.Rate, "10/s", "want FROM..TO, such as 10/s..200/s"},
		{sweep.Rate, "10..20", "a rate needs a unit"},
		{sweep.Rate, "20/s..10/s", "the second value must be above the first"},
		{sweep.Replicas, "0..3", "no number of replicas"},
		{sweep.Replicas, "3..3", "the second value must be above"},
		{sweep.Hold, "1..2s", "no duration above 0"},
	} {
		if _, err := sweep.Parse(c.dial, c.text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.dial, c.text, err, c.says)
		}
	}
}

const file = `
apiVersion: lockdrill/v1
kind: Experiment
name: swept
system:
  mode: embedded
  replicas: 3
  locks:
    - {name: job, key_prefix: "swept:", profile: lockdrill/standard}
    - {name: other, key_prefix: "other:", profile: lockdrill/standard}
  work:
    - {lock: job, jobs: 100, rate: 10/s, hold: {p50: 1s, p99: 3s}, redeliver: 5s}
    - {lock: other, jobs: 10, rate: 1/s, hold: {p50: 1s, p99: 1s}, redeliver: 5s}
faults:
  - {id: kill, at: 1s, kill: {holder_of: job}}
limits: {max_run: 10m}
slos:
  - {lock: job, takeover: {max: 100s}}
`

func load(t *testing.T) *experiments.Experiment {
	t.Helper()
	e, err := experiments.Parse("swept.yaml", []byte(file))
	testkit.Must(t, err)
	return e
}

func TestAStreamLastsAsLongAtAHigherRate(t *testing.T) {
	e := load(t)
	r, _ := sweep.Parse(sweep.Rate, "10/s..100/s")
	r, err := r.For(e, "job")
	testkit.Must(t, err)
	at, err := r.At(e, 55)
	testkit.Must(t, err)
	if w := at.WorkUnder("job"); w.Rate != 55 || w.Jobs != 550 {
		t.Errorf("%d jobs at %v/s, want 550 at 55/s", w.Jobs, w.Rate)
	}
	if w := at.WorkUnder("other"); w.Rate != 1 || w.Jobs != 10 {
		t.Errorf("the other stream has changed: %+v", w)
	}
	if w := e.WorkUnder("job"); w.Rate != 10 || w.Jobs != 100 {
		t.Errorf("the experiment itself has changed: %+v", w)
	}
}

func TestLongerHoldsKeepTheirShape(t *testing.T) {
	e := load(t)
	r, _ := sweep.Parse(sweep.Hold, "1s..20s")
	r, _ = r.For(e, "job")
	at, err := r.At(e, 10)
	testkit.Must(t, err)
	w := at.WorkUnder("job")
	if w.Hold.P50 != 10*time.Second || w.Hold.P99 != 30*time.Second {
		t.Errorf("%+v", w.Hold)
	}
	if at.Limits.MaxRun <= e.Limits.MaxRun {
		t.Errorf("max_run is still %s", at.Limits.MaxRun)
	}
}

func TestWhoseDialIsMeant(t *testing.T) {
	e := load(t)
	rate, _ := sweep.Parse(sweep.Rate, "1/s..2/s")
	replicas, _ := sweep.Parse(sweep.Replicas, "2..4")
	for _, c := range []struct {
		r          sweep.Range
		lock, says string
	}{
		{rate, "", "name one that has a stream of jobs: job, other"},
		{rate, "leader", "name one that has a stream of jobs: job, other"},
		{replicas, "job", "takes no lock"},
	} {
		if _, err := c.r.For(e, c.lock); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %q: %v, want %q", c.r.Dial, c.lock, err, c.says)
		}
	}
	if at, err := replicas.At(e, 4); err != nil || at.System.Replicas != 4 {
		t.Errorf("%v, %v", at, err)
	}
	if _, err := replicas.At(e, 5000); err == nil || !strings.Contains(err.Error(), "with replicas at 5000") {
		t.Errorf("%v: want the check of any file, with the dial's value", err)
	}
}

func TestALiveStepTellsTheLockFromTheMachine(t *testing.T) {
	hi := 2.0
	row := func(v verdict.Verdict, missing ...verdict.Missing) verdict.SLOResult {
		return verdict.SLOResult{Lock: "job", Measure: "takeover.max", Unit: verdict.UnitSeconds, Limit: 3, Lo: 1, Hi: &hi, N: 1, Verdict: v, Why: "why", Missing: missing}
	}
	blind := verdict.Lacking(verdict.MissingLooks, "ledger", "1s", "T+1s", "200ms", "next")
	few := verdict.Lacking(verdict.MissingHolders, "job", "")
	for _, c := range []struct {
		name string
		rows []verdict.SLOResult
		run  []verdict.Missing
		want sweep.Outcome
	}{
		{"all kept", []verdict.SLOResult{row(verdict.Pass)}, nil, sweep.Held},
		{"broken", []verdict.SLOResult{row(verdict.Pass), row(verdict.Fail)}, nil, sweep.Broken},
		{"the machine blinded a probe", []verdict.SLOResult{row(verdict.Inconclusive, few, blind)}, nil, sweep.Machine},
		{"something else was missing", []verdict.SLOResult{row(verdict.Inconclusive, few)}, nil, sweep.Undecided},
		{"broken on a slow machine", []verdict.SLOResult{row(verdict.Inconclusive, blind), row(verdict.Fail)}, nil, sweep.Broken},
		{"the run itself", []verdict.SLOResult{row(verdict.Pass)}, []verdict.Missing{few}, sweep.Undecided},
	} {
		j := &verdict.Judgement{Missing: c.run, SLOs: c.rows, Run: verdict.RunInfo{Status: verdict.StatusCompleted}}
		step := sweep.Judged(j)
		if step.Outcome != c.want || (step.Why == "") != (c.want == sweep.Held) || len(step.Rows) != len(c.rows) {
			t.Errorf("%s: %+v, want %s", c.name, step, c.want)
		}
	}
	if step := sweep.Judged(&verdict.Judgement{Run: verdict.RunInfo{Status: verdict.StatusAborted}}); step.Outcome != sweep.Undecided {
		t.Errorf("an aborted run: %+v", step)
	}
}

func ExampleValue() {
	fmt.Println(sweep.Value(sweep.Rate, 12.5), sweep.Value(sweep.Replicas, 3), sweep.Value(sweep.Hold, 0.05))
	// Output: 12.5/s 3 50ms
}
