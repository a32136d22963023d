package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/advicetest"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// row finds the row of a measure.
func rowOf(t *testing.T, j *verdict.Judgement, measure string) verdict.SLOResult {
	t.Helper()
	return row(t, j, "", measure)
}

// A burst lives in its replica: where that died, the burst is over, and nothing else in the run has to wait for its end.
func TestBurstEndsWithItsReplica(t *testing.T) {
	for _, c := range []struct {
		name string
		died float64 // s; 0 = never
		want string
	}{
		{"died during the burst", 17, "pass"},
		{"died as the run was taken down", 231, "inconclusive"},
		{"never seen to end", 0, "inconclusive"},
	} {
		e, h := load(t, "burst-standard")
		add := func(sec float64, ev history.Event) {
			ev.Span, ev.Source = history.At(ns(sec)), "runner"
			with(h, ev)
		}
		f := history.Fault{ID: "burst", Shot: 2, Kind: "renew_failures", Victim: "r3.1"}
		add(16, history.Event{Kind: history.FaultApplied, Op: "burst#2", Fault: &f})
		void := f
		void.Why, void.Detail = "moved", "r3.1 died during the burst"
		add(18, history.Event{Kind: history.FaultVoid, Op: "burst#2", Fault: &void})
		if c.died > 0 {
			add(c.died, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: "r3", Incarnation: "r3.1", Exit: "exit status 1"}})
		}
		j := Judge(e, h)
		missing := fmt.Sprint(j.Missing)
		said := strings.Contains(missing, "The end of fault burst#2 was not seen") && strings.Contains(missing, "lockdrill recover DIR")
		if j.Verdict != c.want || said != (c.want != "pass") {
			t.Errorf("%s: verdict %s, missing %v", c.name, j.Verdict, j.Missing)
		}
		if s := j.Faults[0]; !s.Void || s.Why != "moved: r3.1 died during the burst" || s.Shots != 1 {
			t.Errorf("%s: shot %+v", c.name, s)
		}
	}
}

// What may have been done again is counted beside what surely was.
func TestCountsAreNeverNarrowerThanMeasured(t *testing.T) {
	e, h := load(t, "replica-dies-no-look")
	j := Judge(e, h)
	again, _ := FactsOf(e, h).ReExecuted("job")
	if c := j.Counts; again.Hi <= again.Lo || c.ReExecuted != again.Lo || c.ReExecutedAtMost != again.Hi {
		t.Errorf("re-executed %d to %d, measured %+v", c.ReExecuted, c.ReExecutedAtMost, again)
	}
	never := func(ev *history.Event) bool { return ev.Epoch == "b9" } // written, so the ledger has lost nothing
	for _, hold := range []int64{0, 600e9} {                          // a job that cannot have been done yet is not surely stranded
		e, h := load(t, "replica-dies-no-look")
		without(h, never)
		pos := int64(0)
		for i := range h.Events {
			switch ev := &h.Events[i]; {
			case ev.Kind == history.JobOffer:
				ev.Job.Hold = hold
			case ev.Entry != nil:
				pos++
				ev.Entry.Pos = pos
			}
		}
		if c := Judge(e, h).Counts; c.Stranded > 0 != (hold == 0) || c.StrandedAtMost == 0 {
			t.Errorf("with work of %ds stranded is %d to %d", hold/1e9, c.Stranded, c.StrandedAtMost)
		}
	}
	without(h, func(ev *history.Event) bool { return ev.Coverage != nil && ev.Coverage.Final || ev.Epoch == "b9" })
	if c := Judge(e, h).Counts; c.Stranded != 0 || c.StrandedAtMost == 0 {
		t.Errorf("without the final reads stranded is %d to %d", c.Stranded, c.StrandedAtMost)
	}
}

// What a row says is missing can be followed.
func TestNextForVoid(t *testing.T) {
	burst, kill := &experiments.Fault{ID: "burst", Spec: &fault.Failures{Of: lockcore.OpRenew}}, &experiments.Fault{Spec: &fault.Kill{}}
	alone, beside := advice{&experiments.Experiment{}}, advice{&experiments.Experiment{AllowOverlap: [][2]string{{"kill", "burst"}}}}
	moved := []verdict.Void{{Code: verdict.VoidMoved, Detail: "r1.1 died"}}
	pause := &experiments.Fault{ID: "burst", Spec: &fault.Pause{}}
	for _, c := range []struct {
		a     advice
		fault *experiments.Fault
		want  string
	}{
		{beside, burst, "Find out why its replica died. Keep other faults apart: give another `at`, or no allow_overlap."},
		{alone, burst, "Find out why its replica died."}, // the file lets no other fault be in effect beside it
		{beside, pause, "Aim the fault at a lock that is held most of the time. Keep other faults apart: give another `at`, or no allow_overlap."},
		{alone, pause, "Aim the fault at a lock that is held most of the time."},
	} {
		if got := c.a.forVoid(c.fault, moved, 0); got != c.want {
			t.Errorf("%+v: %q", c.fault.Spec, got)
		}
	}
	for _, c := range []struct {
		kill *fault.Kill
		says string
	}{{&fault.Kill{HolderOf: "job"}, "phase: after_grant, or on: acquired"}, {&fault.Kill{HolderOf: "job", Phase: fault.AfterGrant}, "held: on: acquired"}, {&fault.Kill{HolderOf: "job", On: fault.Acquired}, "held for longer"}} {
		if kill.Spec = c.kill; !strings.Contains(alone.forVoid(kill, moved, 0), c.says) {
			t.Errorf("%+v: %q", c.kill, alone.forVoid(kill, moved, 0))
		}
	}
	if got := abortText(&history.Note{What: "limit", Why: "limits.max_run of 1m0s is over"}); got != "limits.max_run of 1m0s is over" {
		t.Error(got)
	}
	if got := abortText(&history.Note{What: "signal", Why: "interrupted by the operator"}); got != "signal: interrupted by the operator" {
		t.Error(got)
	}
}

// A run that ran into its limit wants more time; one that the operator ended wants to be run again.
func TestAnInterruptIsNoWantOfTime(t *testing.T) {
	for _, what := range []string{"limit", "signal"} {
		e, h := load(t, "good-drill")
		long := 10 * time.Hour
		e.Faults[0].Repeat.Count = 99
		for i := range e.SLOs {
			if tk := e.SLOs[i].Takeover; tk != nil {
				tk.Max = &long // the horizon is far
			}
		}
		end := &h.Events[len(h.Events)-1]
		end.Note.What = "aborted"
		abort := history.Event{Kind: history.RunAbort, Source: "runner", Span: end.Span, Note: &history.Note{What: what, Why: "it was ended"}}
		h.Events = slices.Insert(h.Events, len(h.Events)-1, abort)
		renumber(h)
		j := Judge(e, h)
		longer, again := 0, 0
		for _, next := range append(nexts(j.Missing), rowOf(t, j, "takeover.max").Next) {
			longer += strings.Count(next, "max_run")
			again += strings.Count(next, "Run the drill again, to its end")
		}
		if (longer > 0) != (what == "limit") || (again > 0) != (what == "signal") {
			t.Errorf("%s: %d times more time, %d times again: %+v", what, longer, again, j.Missing)
		}
	}
}

func nexts(missing []verdict.Missing) []string {
	var all []string
	for _, l := range missing {
		all = append(all, l.Next)
	}
	return all
}

// The lint and the row give one advice, in the numbers of the file.
func TestLintAndRowAdviseTheSame(t *testing.T) {
	for _, dir := range []string{"ttl-hold-killed-at-45s", "ttl-hold-killed-at-45s-too-tight"} {
		{
			e, h := load(t, dir)
			for i := range h.Events {
				if c := h.Events[i].Calibration; c != nil {
					c.RTT99, c.Timer99 = 1e6, 2e6
				}
			}
			j := Judge(e, h)
			next := rowOf(t, j, "takeover.max").Next
			if !strings.HasPrefix(next, "In the file, ") || !slices.ContainsFunc(j.Warnings, func(w string) bool { return strings.HasPrefix(w, "L3 ") && strings.HasSuffix(w, next) }) {
				t.Errorf("%s: the row says %q, the warnings %q", dir, next, j.Warnings)
			}
		}
	}
}

// A replica that never became ready is named with where it said why.
func TestReplicasThatCannotStart(t *testing.T) {
	tp := newTape("nobody is ready")
	tp.start(0.1, "r1.1")
	tp.add(0.2, 0.21, history.Event{Kind: history.ReplicaStart, Replica: &history.Replica{Name: "r2", Incarnation: "r2.3", PID: 7}})
	tp.add(9, 9, history.Event{Kind: history.RunAbort, Note: &history.Note{What: "replicas_lost", Why: "replica r2 cannot start: 3 starts in a row failed"}})
	tp.finale(10, 11)
	tp.events[len(tp.events)-1].Note.What = "aborted"
	j := judged(t, tp)
	if l := j.Missing[0]; j.Missing[1].Next != l.Next || !strings.Contains(l.Why, "(replicas lost: replica r2 cannot start") || l.Next != "See r2.3.stderr in the run's folder. A worker must say replica.ready within 20 s." {
		t.Errorf("%+v", l)
	}
}

// A row has its limit as the file has it, beside the one that it was held against.
func TestDeclaredLimit(t *testing.T) {
	e, h := load(t, "good-drill")
	e.TimeScale = 0.05
	if r := rowOf(t, Judge(e, h), "takeover.max"); r.Declared != 12 || r.Limit != 0.6 {
		t.Errorf("declared %g, held against %g", r.Declared, r.Limit)
	}
}

// No advice names what the file has: over all recorded runs, as they are and with each shot void for each reason, as long as fewer shots,
// longer faults and other moments could be advised.
func TestNoAdviceNamesWhatTheFileHas(t *testing.T) {
	check := func(of string, e *experiments.Experiment, j *verdict.Judgement) int {
		idle, told := advicetest.Idle(e, j)
		for _, says := range idle {
			t.Errorf("%s: %s", of, says)
		}
		return told
	}
	told := 0
	for name := range cases {
		e, h := load(t, name)
		told += check(name, e, Judge(e, h))
		for _, why := range []history.VoidReason{history.Moved, history.NoTarget, history.Unconfirmed, history.FaultFailed, history.HolderUnknown} {
			e, h := load(t, name)
			for _, ev := range h.Events {
				if ev.Kind == history.FaultConfirmed {
					voided(h, ev.Op, why)
				}
			}
			told += check(name+", "+string(why), e, Judge(e, h))
		}
	}
	if told < 1000 {
		t.Errorf("%d pieces of advice: this test looks in the wrong place", told)
	}
}

// A pause that outlasted the lease, after which every holder went on, is not advised to do so.
func TestAdviceOnAFaultThatOutlasts(t *testing.T) {
	e, h := load(t, "pause-recovery")
	tk := experiments.Within(time.Hour)
	lock := e.Faults[0].Lock()
	e.SLOs = []experiments.SLO{{Lock: lock, Takeover: tk}, {Lock: lock, Abandonment: &experiments.AbandonmentLimits{Missed: experiments.AtMost(0)}}}
	ttl := e.Lock(lock).Policy.TTL
	for _, c := range []struct {
		lasts time.Duration
		says  string
	}{{ttl / 2, "Let the fault outlast the lease (`for` above the ttl of "}, {ttl, "Let the fault outlast"}, {2 * ttl, "Let at least two replicas want the lock"}} {
		e.Faults[0].For = c.lasts
		if r := rowOf(t, Judge(e, h), "takeover.max"); !strings.HasPrefix(r.Next, c.says) {
			t.Errorf("a fault of %s: %s: %q (%s)", c.lasts, r.Verdict, r.Next, r.Why)
		}
	}
	e.Faults[0].Repeat.Count = 29
	for need, says := range map[int][2]string{29: {"Let each of the 29 shots", "Run again"}, 30: {"Set repeat: {count: 30}", "Set at_most to 30"}} {
		if a := (advice{e}); !strings.HasPrefix(a.trials(lock, need), says[0]) || !strings.HasPrefix(a.repeats(lock, need), says[1]) {
			t.Errorf("of %d: %q, %q", need, a.trials(lock, need), a.repeats(lock, need))
		}
	}
	burst := experiments.Fault{ID: "burst", For: 2 * ttl, Spec: &fault.Failures{Of: lockcore.OpRenew}}
	if got := (advice{e}).jeopardy(lock); !strings.HasPrefix(got, "Add a fault") {
		t.Error(got)
	}
	e.Faults = append(e.Faults, burst)
	if got := (advice{e}).jeopardy(lock); !strings.HasPrefix(got, "Let the work outlast the lease") {
		t.Error(got)
	}
}
