package forecast

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// renewedDrill kills the holder of a renewed loop with the published timings at random.
func renewedDrill(t *testing.T, limit time.Duration) *experiments.Experiment {
	t.Helper()
	e := loopDrill(t, "cordum/scheduler-reconciler", fault.RandomPhase, *experiments.Within(limit))
	e.System.Locks[0].Policy.Loop.Mode = lockcore.LoopRenewed
	return e
}

// The mean of a renewed loop is the closed form; somebody who is started for the victim shortens it, and then there is no closed form.
func TestMeanTakeover(t *testing.T) {
	e := renewedDrill(t, 70*time.Second)
	s := LockSumsOf(e)[0]
	if math.Abs(*s.Takeover.Mean-60) > 0.01 || s.Takeover.Form != "ttl 60s - renewal 20s / 2 + poll 30s / 3" || s.Takeover.Lo != 38 || s.Takeover.Hi != 94 {
		t.Errorf("%+v, mean %g", s.Takeover, *s.Takeover.Mean)
	}
	e.System.Restart = time.Second
	if s := LockSumsOf(e)[0]; math.Abs(*s.Takeover.Mean-57.5) > 0.01 || s.Takeover.Form != "" {
		t.Errorf("replaced at once: %+v, mean %g, want ttl - renewal / 2 + poll / 4", s.Takeover, *s.Takeover.Mean)
	}
	e.System.Replicas, e.System.Restart = 1, 100*time.Second
	if s := LockSumsOf(e)[0]; math.Abs(*s.Takeover.Mean-115) > 0.1 {
		t.Errorf("nobody but the replacement: mean %g, want 100s + poll / 2", *s.Takeover.Mean)
	}
}

// What the file says against the sum is told, and only then.
func TestUnless(t *testing.T) {
	jittered := func(e *experiments.Experiment) { e.System.Locks[0].Policy.Loop.Jitter = 0.5 }
	for name, c := range map[string]struct {
		change func(e *experiments.Experiment)
		want   string
	}{
		"no jitter": {func(*experiments.Experiment) {}, "jitter too little"},
		"too early": {func(e *experiments.Experiment) { jittered(e) }, "jitter too little"},
		"in time":   {func(e *experiments.Experiment) { jittered(e); e.Faults[0].At = 5 * time.Minute }, ""},
		"another fault": {func(e *experiments.Experiment) {
			jittered(e)
			e.Faults[0].At = 5 * time.Minute
			e.Faults = append(e.Faults, experiments.Fault{ID: "p", For: time.Second, Spec: &fault.Pause{Aim: fault.Aim{HolderOf: "loop"}}})
		}, "other than kills"},
		"graceful kills": {func(e *experiments.Experiment) {
			jittered(e)
			e.Faults[0].At = 5 * time.Minute
			e.Faults[0].Spec.(*fault.Kill).How = fault.Graceful
		}, "asked to end"},
		"ttl_hold": {func(e *experiments.Experiment) { e.System.Locks[0].Policy.Loop.Mode = lockcore.LoopTTLHold }, "granted at a poll"},
	} {
		e := renewedDrill(t, 70*time.Second)
		c.change(e)
		got := strings.Join(LockSumsOf(e)[0].Takeover.Unless, "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Failure budget, wait and cadence, at the published numbers.
func TestSumsOfPublishedPolicies(t *testing.T) {
	at := func(profile string, work *experiments.Work) LockSums {
		e := loopDrill(t, profile, fault.RandomPhase, experiments.DurationLimits{})
		if work != nil {
			work.Lock = "loop"
			e.System.Work = []experiments.Work{*work}
		}
		return LockSumsOf(e)[0]
	}
	if f := at("cordum/scheduler-job", &experiments.Work{Hold: experiments.Hold{P50: time.Minute, P99: time.Minute}, Redeliver: 7 * time.Second}).Failures; f.Safe != 2 || f.Count != 3 {
		t.Errorf("failures %+v", f)
	}
	w := at("cordum/approval", &experiments.Work{Hold: experiments.Hold{P50: 10 * time.Second, P99: 10 * time.Second}, Redeliver: 7 * time.Second}).Wait
	if w == nil || w.Busy != 8 || math.Abs(w.GiveUp-0.8) > 0.01 {
		t.Errorf("wait %+v: 2s of a lease of 10s, killed at random", w)
	}
	if c := at("cordum/pending-replayer", nil).Cadence; c == nil || c.Alone != 60 || !c.Races {
		t.Errorf("cadence %+v", c)
	}
}

// What the seeds gave of a lock, whoever gathered it.
func TestRehearsedLocks(t *testing.T) {
	e := renewedDrill(t, 70*time.Second)
	seed := func(v float64, class string) *verdict.Judgement {
		j := seedJudgement(v)
		j.SLOs[0].Lock, j.SLOs[0].Limit = "loop", 70
		j.Takeovers = []verdict.Takeover{{Lock: "loop", Class: class, Lo: v - 1, Hi: j.SLOs[0].Hi}}
		j.Abandonments = []verdict.Abandonment{{Lock: "loop", Reason: "count", Timing: "late"}, {Lock: "loop", Timing: "missed"}, {Lock: "loop", Reason: "count", Timing: "timely"}}
		return j
	}
	tick := func(at int64) history.Event {
		return history.Event{Kind: history.LedgerEntry, Lock: "loop", Span: history.At(at * 1e9), Entry: &history.Entry{Loop: true, Accepted: true, State: history.StateTick}}
	}
	h := &history.History{Events: []history.Event{
		{Kind: history.WaitEnd, Lock: "loop", Outcome: history.Fail}, // before any fault
		tick(10), tick(70), tick(160), {Kind: history.FaultApplied}, tick(300), tick(360),
		{Kind: history.WaitEnd, Lock: "loop", Outcome: history.Fail}, {Kind: history.WaitEnd, Lock: "loop", Outcome: history.OK},
	}}
	var a, b, whole Rehearsed
	for i, v := range []float64{50.5, 60.5, 70.5, 70.6} {
		part := []*Rehearsed{&a, &b}[i%2]
		for _, r := range []*Rehearsed{part, &whole} {
			r.Add(int64(i+1), seed(v, verdict.ClassCrash))
			r.Watch(h)
		}
	}
	b.Add(5, seed(5, verdict.ClassHandOver)) // another class: it is not what the lock is judged on
	whole.Add(5, seed(5, verdict.ClassHandOver))
	a.Merge(&b)
	got := a.Locks(e)
	if want := whole.Locks(e); !reflect.DeepEqual(got, want) {
		t.Errorf("merged %+v\nwhole %+v", got, want)
	}
	s := got[0].Seeds
	if s.Takeovers != 4 || *s.Min != 50 || *s.Max != 70.1 || math.Abs(*s.Mean-62.525) > 1e-6 || math.Abs(*s.Error-4.15) > 0.1 || *s.Met[0].Share != 0.75 {
		t.Errorf("takeovers: %+v, mean %g, error %g, met %g", s, *s.Mean, *s.Error, *s.Met[0].Share)
	}
	if s.GivenUp != 10 || s.Late != 10 || s.Waits != 8 || s.Refused != 4 || math.Abs(*s.TickEvery-70) > 1e-9 {
		t.Errorf("%+v, a tick every %g", s, *s.TickEvery)
	}
}
