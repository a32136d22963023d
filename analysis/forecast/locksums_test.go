package forecast

import (
	"math"
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

// A limit above the band is guaranteed; one that only the time of calls is missing from is met wherever they are answered at once; below
// the band none is met.
func TestPromisesBesideTheBand(t *testing.T) {
	for limit, want := range map[time.Duration]PromiseSum{
		95 * time.Second: {Luck: false, Prompt: true},
		94 * time.Second: {Luck: true, Prompt: true}, // nothing is left for the warm-up
		90 * time.Second: {Luck: true, Prompt: true}, // ttl 60s + poll 30s
		89 * time.Second: {Luck: true, Prompt: false},
		30 * time.Second: {Luck: true, Prompt: false},
	} {
		s := LockSumsOf(renewedDrill(t, limit))[0]
		want.Limit, want.Value = "max", limit.Seconds()
		if s.Promises[0] != want || s.Takeover.Lo != 38 || s.Takeover.Hi != 94 {
			t.Errorf("%s: %+v, want %+v", limit, s, want)
		}
		if advised := strings.HasPrefix(s.Advice, "In the file, keep ttl + poll at most "); advised != want.Luck {
			t.Errorf("%s: advice %q", limit, s.Advice)
		}
		e := renewedDrill(t, limit)
		of := experiments.Limit{Measure: takeover, At: int64(limit)}
		for _, warmup := range []time.Duration{100 * time.Microsecond, 999 * time.Millisecond, 1001 * time.Millisecond} {
			run := PromiseOf(e, &e.System.Locks[0], &of, verdict.ClassCrash, warmup)
			if luck := limit < run.Hi; luck != (want.Luck || warmup.Seconds() > want.Value-s.Takeover.Hi) {
				t.Errorf("%s: a run with a warm-up of %s says luck %v", limit, warmup, luck)
			}
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
	if w == nil || w.Busy != 8 {
		t.Errorf("wait %+v: 2s of a lease of 10s, killed at random", w)
	}
	if c := at("cordum/pending-replayer", nil).Cadence; c == nil || c.Alone != 60 || !c.Races {
		t.Errorf("cadence %+v", c)
	}
}

// What the seeds gave of a lock.
func TestRehearsedLocks(t *testing.T) {
	e := renewedDrill(t, 70*time.Second)
	seed := func(v float64, class string) *verdict.Judgement {
		j := seedJudgement(v)
		j.SLOs[0].Lock, j.SLOs[0].Limit = "loop", 70
		j.Takeovers = []verdict.Takeover{{Lock: "loop", Class: class, Fault: "k#1", Lo: v - 1, Hi: j.SLOs[0].Hi}, {Lock: "loop", Class: class, Lo: 1, Hi: j.SLOs[0].Hi}}
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
	whole := NewRehearsed(e)
	for i, v := range []float64{50.5, 60.5, 70.5, 70.6} {
		whole.Add(int64(i+1), seed(v, verdict.ClassCrash), h)
	}
	whole.Add(5, seed(5, verdict.ClassHandOver), &history.History{}) // another class: it is not what the lock is judged on
	s := whole.Locks()[0].Seeds
	if s.Takeovers != 4 || *s.Min != 50 || *s.Max != 70.1 || math.Abs(*s.Mean-62.525) > 1e-6 || math.Abs(*s.Error-4.15) > 0.1 || *s.Met[0].Share != 0.75 {
		t.Errorf("takeovers: %+v, mean %g, error %g, met %g", s, *s.Mean, *s.Error, *s.Met[0].Share)
	}
	if s.GivenUp != 10 || s.Late != 10 || s.Waits != 8 || s.Refused != 4 || math.Abs(*s.TickEvery-70) > 1e-9 {
		t.Errorf("%+v, a tick every %g", s, *s.TickEvery)
	}
}
