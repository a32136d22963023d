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

// behind records that who waited for a processor all the time from one second to the other.
func (t *tape) behind(from, to float64, who string) {
	body := history.Late{Stall: 1e6, Busy: 400e6, Waits: map[string]int64{who: ns(to - from)}}
	t.add(from, to, history.Event{Kind: history.MachineLate, Late: &body})
}

// What a late machine may have made of giving back and giving up is not held against the lock: nobody is accused, and nobody acquitted. If it
// was somebody else who waited, or at another time, the row fails as ever.
func TestALateMachineMakesNoBreachOfUpkeep(t *testing.T) {
	none := &experiments.CountLimit{Bound: *experiments.AtMost(0)}
	needless := experiments.SLO{Abandonment: &experiments.AbandonmentLimits{Needless: experiments.AtMost(0)}}
	debt := func(l experiments.DebtLimits) experiments.SLO { return experiments.SLO{LockDebt: &l} }
	released := func(tp *tape) {
		tp.work(10, 3, "r1.1", 1, "a1", 11)
		tp.call(13.001, 3, tp.epochs["a1"], "release", history.OK, history.Call{Result: history.ResultReleased})
		tp.look(16.004, jobs(1), "", 0)
	}
	gaveUp := func(at float64, lost ...float64) func(*tape) {
		return func(tp *tape) {
			tp.offer(9.9, jobs(1), "j1", "r1.1")
			tp.grant(10, "r1.1", jobs(1), "a1", 11)
			tp.look(10.004, jobs(1), "a1", 60)
			tp.begin(10.002, "a1", "j1")
			for _, sent := range lost {
				tp.renewLost(sent, "a1")
			}
			tp.fence(at, "a1", "count", true)
			tp.exit(at+ms, "a1", "j1", "fenced")
			tp.release(at+1, "a1")
			tp.look(at+1+4*ms, jobs(1), "", 0)
		}
	}
	taken := func(tp *tape) {
		tp.offer(9.9, jobs(1), "j1", "r1.1")
		tp.grant(10, "r1.1", jobs(1), "a1", 11)
		tp.begin(10.002, "a1", "j1")
		tp.look(10.004, jobs(1), "a1", 60)
		tp.look(20, jobs(1), "", 0)
		tp.renewGone(25, "a1", history.ResultAbsent)
		tp.fence(25.002, "a1", "not_owned", true)
		tp.exit(25.003, "a1", "j1", "fenced")
	}
	orphaned := func(undone float64) func(*tape) {
		return func(tp *tape) {
			tp.lostGrant(10, "r1.1", jobs(1), "a1")
			tp.look(10.01, jobs(1), "a1", 60)
			tp.undo(undone, "a1")
			tp.look(undone+4*ms, jobs(1), "", 0)
		}
	}
	refused := func(tp *tape) { // by the key of a dead holder
		e := &taped{lock: "job", key: jobs(9).key, id: "late-try", rep: "r3.1", ttl: 60}
		tp.call(131, 3, e, "acquire", history.Fail, history.Call{Result: history.ResultHeld, Holder: "a9", PTTL: 1e9})
	}
	for _, c := range []struct {
		says     string
		slo      experiments.SLO
		play     func(*tape)
		from, to float64 // when it was late
		who      string  // on the way
	}{
		{"a release took 3 s, of 1 s", experiments.SLO{Blocked: experiments.AtMost(time.Second)}, released, 13.2, 15.7, "r1.1"},
		{"what is no debt on a machine in time", debt(experiments.DebtLimits{Max: experiments.AtMost(time.Duration(0))}), released, 13.2, 15.7, "r1.1"},
		{"a loss was noticed after 5 s, of 3 s", experiments.SLO{LossToFence: experiments.AtMost(3 * time.Second)}, taken, 20.1, 24.9, "r1.1"},
		{"the first renewal timed out", needless, gaveUp(40, 30, 36), 29.9, 32.1, "r1.1"},
		{"the first renewal was not sent yet", needless, gaveUp(34), 28, 33, "r1.1"},
		{"a renewal timed out", experiments.SLO{Abandonments: none}, gaveUp(40, 30, 36), 29.9, 32.1, "r1.1"},
		{"a refusal took 3 s, of 1 s", experiments.SLO{Busy: &experiments.BusyLimit{Each: experiments.AtMost(time.Second)}}, refused, 131.2, 133.7, "r3.1"},
		{"an undo came late", experiments.SLO{OrphanAcquires: none}, orphaned(16), 12.2, 15.7, "r1.1"},
		{"an acquire timed out", experiments.SLO{OrphanAcquires: none}, orphaned(30), 9.9, 12.1, "r1.1"},
	} {
		for _, m := range []struct {
			who  string
			by   float64
			want verdict.Verdict
		}{{c.who, 0, verdict.Inconclusive}, {"r2.1", 0, verdict.Fail}, {c.who, 50, verdict.Fail}} {
			r, _ := of(t, c.slo, func(tp *tape) { c.play(tp); tp.behind(c.from+m.by, c.to+m.by, m.who) })
			late := slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingLateMachine }) && strings.Contains(r.Why, "this machine was late")
			if r.Verdict != m.want || late != (m.want == verdict.Inconclusive) {
				t.Errorf("%s, %s %gs later: %s of [%g, %v], lateness %g, %+v; want %s", c.says, m.who, m.by, r.Verdict, r.Lo, r.Hi, r.Lateness, r.Missing, m.want)
			}
		}
	}
}

// Likewise of somebody's own system, where it runs on the late machine.
func TestALateMachineMakesDebtsOfObservedReplicas(t *testing.T) {
	for fleet, want := range map[string]verdict.Verdict{history.FleetObservedProcesses: verdict.Inconclusive, history.FleetObservedPods: verdict.Fail} {
		e, h := load(t, "kept-after-end")
		e.SLOs = []experiments.SLO{{Lock: "job", LockDebt: &experiments.DebtLimits{Max: experiments.AtMost(3 * time.Second)}}}
		h.Events[0].Environment.Fleet = fleet
		late := history.Late{Stall: 1e6, Busy: 400e6, Waits: map[string]int64{"r2.1": ns(3)}}
		h.Events = append(h.Events, history.Event{Kind: history.MachineLate, Span: history.Span{From: ns(11), To: ns(15)}, Source: "runner", Late: &late})
		if r := Judge(e, h).SLOs[0]; r.Verdict != want || r.Lo < 3 {
			t.Errorf("%s: %s of %g, lateness %g: %s", fleet, r.Verdict, r.Lo, r.Lateness, r.Why)
		}
	}
}
