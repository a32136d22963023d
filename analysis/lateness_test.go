package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// late is a machine that is late for a trial: in each stretch of 200ms by the same.
type late struct {
	of   int64 // so many stretches
	body func(t *facts.Trial) history.Late
}

// waiting is a stretch in which somebody waited for 150ms, and of the processors' time so much in 100 was the run's own.
func waiting(who func(t *facts.Trial) string, ours int64) func(t *facts.Trial) history.Late {
	return func(t *facts.Trial) history.Late {
		return history.Late{Stall: 20e6, Busy: 400e6, Ours: ours * 4e6, Waits: map[string]int64{who(t): 150e6}}
	}
}

func successor(t *facts.Trial) string { return t.After.Replica }

func victim(t *facts.Trial) string { return t.E.Replica }

func store(*facts.Trial) string { return history.WaitsStore }

// lated is the drill "good-drill" with a machine that was late for each takeover of its leader.
func lated(t *testing.T, l late) (*experiments.Experiment, *history.History) {
	t.Helper()
	e, h := load(t, "good-drill")
	for _, s := range FactsOf(e, h).Shots {
		for _, trial := range s.Trials {
			if trial.E.Lock != "leader" {
				continue
			}
			for i := range l.of {
				body, from := l.body(trial), trial.Start.From+i*200e6
				h.Events = append(h.Events, history.Event{Kind: history.MachineLate, Span: history.Span{From: from, To: from + 200e6}, Source: "runner", Late: &body})
			}
		}
	}
	with(h)
	return e, h
}

func takeoverOf(e *experiments.Experiment, b *experiments.Bound[time.Duration]) {
	e.SLOs = []experiments.SLO{{Lock: "leader", Takeover: &experiments.DurationLimits{Bound: *b}}}
}

// The leader's takeovers took 4.3s and 6.2s. What a late machine may have made of that is not held against the lock, and never for it.
func TestALateMachineIsTakenOffBeforeABreachIsCalled(t *testing.T) {
	const none, p, f, i = "", verdict.Pass, verdict.Fail, verdict.Inconclusive
	atMost := experiments.AtMost[time.Duration]
	for _, c := range []struct {
		says  string
		late  late
		bound *experiments.Bound[time.Duration]
		want  verdict.Verdict
		off   float64
	}{
		{"a machine in time", late{}, atMost(5 * time.Second), f, 0},
		{"the successor waited for 1.5s", late{10, waiting(successor, 0)}, atMost(5 * time.Second), i, 1.5},
		{"it waited for 0.75s: too little", late{5, waiting(successor, 0)}, atMost(5 * time.Second), f, 0.75},
		{"1.5s are not all of 6.2s: over 1.2s on any machine", late{10, waiting(successor, 0)}, atMost(1200 * time.Millisecond), f, 1.5},
		{"the store waited for 1.5s", late{10, waiting(store, 0)}, atMost(5 * time.Second), i, 1.5},
		{"it was the victim that waited", late{10, waiting(victim, 0)}, atMost(5 * time.Second), f, 0},
		{"the drill itself filled the processors", late{10, waiting(successor, 100)}, atMost(5 * time.Second), f, 0},
		{"it filled half of them", late{10, waiting(successor, 50)}, atMost(5500 * time.Millisecond), i, 0.75},
		{"half of them is not enough", late{10, waiting(successor, 50)}, atMost(5 * time.Second), f, 0.75},
		{"the whole machine stood still", late{10, func(*facts.Trial) history.Late { return history.Late{Stall: 150e6, Still: 150e6} }}, atMost(5 * time.Second), i, 1.5},
		{"more than a stretch is not waited in it", late{10, func(t *facts.Trial) history.Late {
			return history.Late{Stall: 20e6, Waits: map[string]int64{successor(t): 9e9}}
		}}, atMost(1200 * time.Millisecond), f, 2},
		{"what kept its limit keeps it", late{10, waiting(successor, 0)}, atMost(30 * time.Second), p, 1.5},
		{"at least 4s, on a machine in time", late{}, atLeast(4 * time.Second), p, 0},
		{"at least 4s, of which the machine may have made one", late{10, waiting(successor, 0)}, atLeast(4 * time.Second), i, 1.5},
		{"at least 2s, whatever the machine made", late{10, waiting(successor, 0)}, atLeast(2 * time.Second), p, 1.5},
		{"less than 5s, however late", late{10, waiting(successor, 0)}, atLeast(5 * time.Second), f, 1.5},
	} {
		e, h := lated(t, c.late)
		takeoverOf(e, c.bound)
		j := Judge(e, h)
		r := j.SLOs[0]
		if r.Verdict != c.want || r.Lateness < c.off-0.001 || r.Lateness > c.off+0.001 {
			t.Errorf("%s: %s of [%g, %g], lateness %g (%s); want %s, %g", c.says, r.Verdict, r.Lo, *r.Hi, r.Lateness, r.Why, c.want, c.off)
		}
		if c.want != i {
			continue
		}
		if len(r.Missing) != 1 || r.Missing[0].Code != verdict.MissingLateMachine || !strings.Contains(r.Why, "this machine was late") || !strings.Contains(r.Next, "quieter machine") {
			t.Errorf("%s: %+v, %q, %q: want a late machine, and a quieter one", c.says, r.Missing, r.Why, r.Next)
		}
		for _, word := range []string{"limit", "promise", "ttl"} {
			if strings.Contains(r.Next, word) {
				t.Errorf("%s: the advice is %q: what was the machine's is no reason to change the file", c.says, r.Next)
			}
		}
	}
}

// A quantile counts only kills that surely missed it, and does not advise to give in to a late machine.
func TestALateMachineMissesNoQuantile(t *testing.T) {
	for _, c := range []struct {
		late late
		code verdict.MissingCode
	}{{late{}, verdict.MissingMoreTrials}, {late{10, waiting(successor, 0)}, verdict.MissingLateMachine}} {
		e, h := lated(t, c.late)
		limit := 3 * time.Second
		e.SLOs = []experiments.SLO{{Lock: "leader", Takeover: &experiments.DurationLimits{P50: &limit}}}
		r := Judge(e, h).SLOs[0]
		if r.Verdict != verdict.Inconclusive || len(r.Missing) != 1 || r.Missing[0].Code != c.code {
			t.Errorf("%d late stretches: %s, %+v; want %s", c.late.of, r.Verdict, r.Missing, c.code)
		}
		if c.late.of > 0 && strings.Contains(r.Next, "limit") {
			t.Errorf("the advice is %q", r.Next)
		}
	}
}

// Where the replicas are not on the runner's machine, how late that one was is shown and judges nothing.
func TestLatenessOfAnotherMachineJudgesNothing(t *testing.T) {
	for _, fleet := range []string{"pods", "observed"} {
		e, h := lated(t, late{10, waiting(successor, 0)})
		for i := range h.Events {
			if env := h.Events[i].Environment; env != nil {
				env.Fleet = fleet
			}
		}
		takeoverOf(e, experiments.AtMost(5*time.Second))
		j := Judge(e, h)
		if r := j.SLOs[0]; r.Verdict != verdict.Fail || r.Lateness < 0.199 || j.Machine == nil || j.Machine.Judges {
			t.Errorf("%s: %s, lateness %g, %+v; want a fail, with the timer's 0.2s beside it", fleet, r.Verdict, r.Lateness, j.Machine)
		}
	}
}

// Longer than the sum allows, and than the machine was late: a finding. With a machine that explains it, none.
func TestWhatIsLongerThanPossibleIsAFinding(t *testing.T) {
	for _, c := range []struct {
		late late
		want bool
	}{{late{}, true}, {late{5, waiting(successor, 0)}, true}, {late{20, waiting(successor, 0)}, false}} {
		e, h := lated(t, c.late)
		e.Lock("leader").Policy.TTL, e.Lock("leader").Policy.RenewEvery = 500*time.Millisecond, 150*time.Millisecond
		takeoverOf(e, experiments.AtMost(3*time.Second))
		found := slices.ContainsFunc(Judge(e, h).Findings, func(f verdict.Finding) bool {
			return strings.Contains(f.What, "lock leader: the takeover") && strings.Contains(f.What, "longer than the lock's timings allow")
		})
		if found != c.want {
			t.Errorf("%d late stretches: found %v, want %v", c.late.of, found, c.want)
		}
	}
}

// How long a holder takes that is asked to stop is its own affair, where it is somebody's own program: it may end its work first.
func TestAHandOverOfSomebodysOwnHasNoLongestTime(t *testing.T) {
	for worker, want := range map[string]bool{"": true, "./theirs": false} {
		e, h := load(t, "pods-graceful")
		if worker != "" {
			e.System.Worker = []string{worker}
		}
		p := &e.Lock("leader").Policy
		p.Loop.Poll, p.Acquire.Timeout = 5*time.Millisecond, 5*time.Millisecond
		takeoverOf(e, experiments.AtMost(50*time.Millisecond))
		j := Judge(e, h)
		found := slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return strings.Contains(f.What, "longer than the lock's timings allow") })
		if r := j.SLOs[0]; found != want || r.Verdict != verdict.Fail || strings.Contains(r.Why, "plus the time until its holder has ended its work") == want {
			t.Errorf("worker %q: found %v: %s: %s %s", worker, found, r.Verdict, r.Why, r.Next)
		}
	}
}

// Debts, effective ones and waiter-seconds likewise: it is the holder who is to give the key back.
func TestALateMachineMakesDebts(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits bool
		want  verdict.Verdict
	}{{"release-fails", false, verdict.Fail}, {"release-fails", true, verdict.Inconclusive}} {
		e, h := load(t, c.name)
		ix := FactsOf(e, h)
		ds := ix.DebtsOf("job")
		d := ds.List[0]
		if d.Time.Lo < 1e9 || d.Effective.Lo < 1e9 || d.Waiting.Lo < 1e9 {
			t.Fatalf("the recorded debt is %v, %v, %v: too short to test with", d.Time, d.Effective, d.Waiting)
		}
		limit := func(lo int64) *experiments.Bound[time.Duration] {
			return experiments.AtMost(time.Duration(lo) - 300*time.Millisecond)
		}
		e.SLOs = []experiments.SLO{{Lock: "job", LockDebt: &experiments.DebtLimits{Max: limit(d.Time.Lo), Effective: limit(d.Effective.Lo), Waiting: limit(d.Waiting.Lo)}}}
		for at := d.Start.From; c.waits && at < d.Start.From+60e9; at += 200e6 {
			body := history.Late{Stall: 20e6, Waits: map[string]int64{d.E.Replica: 100e6}}
			h.Events = append(h.Events, history.Event{Kind: history.MachineLate, Span: history.Span{From: at, To: at + 200e6}, Source: "runner", Late: &body})
		}
		for _, r := range Judge(e, h).SLOs {
			if r.Verdict != c.want || (r.Lateness > 0) != c.waits {
				t.Errorf("%s, waits %v: %s %s of %g, lateness %g (%s); want %s", c.name, c.waits, r.Measure, r.Verdict, r.Lo, r.Lateness, r.Why, c.want)
			}
		}
	}
}

// What is taken off a trial is never more than the run says that its machine was late: waits of processes count there as well, which a timer
// alone does not show.
func TestTheMachineWasLateByNoLessThanWhatIsTakenOff(t *testing.T) {
	for name, who := range map[string]func(*facts.Trial) string{"successor": successor, "store": store} {
		e, h := lated(t, late{4, waiting(who, 10)})
		j := Judge(e, h)
		shown := 0
		for _, x := range j.Takeovers {
			if x.Lateness > 0 {
				shown++
			}
			if x.Lateness > j.Machine.Late {
				t.Errorf("%s: %vs are taken off %s, of a machine that was late by %vs in all", name, x.Lateness, x.Fault, j.Machine.Late)
			}
		}
		if shown == 0 || j.Machine.Worst > j.Machine.Late {
			t.Errorf("%s: %d takeovers of a late machine, %+v", name, shown, j.Machine)
		}
	}
}
