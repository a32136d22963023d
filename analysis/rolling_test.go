package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// rolledDrill promises what a rolling restart with the leader last may cost.
var rolledDrill = strings.NewReplacer("name: four-kills", "name: rolled", "id: kill-leader", "id: roll", "replicas: 2", "replicas: 3",
	"repeat: {count: 4, every: settled}, kill: {holder_of: leader, phase: random}", "rolling_restart: {order: leader_last, lock: leader}",
	"takeover: {max: 12s, p90: 12s}", "rolling: {handovers: 1, without_leader: {min: 100ms, max: 2s}, longest: 2s}").Replace(fourKills)

// restart is one shot of a rolling restart: TERM at at, the end of the process, and the next life. id is what the victim holds.
func (t *tape) restart(at, end float64, shot, inc, next, id string) {
	t.shot(shot, "rolling_restart", "", inc)
	f := t.shots[shot]
	f.Form = "graceful"
	t.shots[shot] = f
	t.fault(at-1*ms, at-1*ms, history.FaultIntent, shot, id)
	t.fault(at, at+ms, history.FaultApplied, shot, id)
	name, _, _ := strings.Cut(inc, ".")
	t.add(end-ms, end, history.Event{Kind: history.ReplicaExit, Replica: &history.Replica{Name: name, Incarnation: inc, Wanted: true, Exit: "exit status 0"}})
	f.Hits, f.Death = 1, &history.Death{Call: history.Span{From: ns(at), To: ns(at + ms)}, Sign: ns(end - ms), End: &history.Span{From: ns(end - ms), To: ns(end)}, Means: history.MeansSignal}
	t.shots[shot] = f
	t.fault(at, end, history.FaultConfirmed, shot, id)
	f.Hits, f.Death = 0, nil
	t.shots[shot] = f
	t.fault(end+ms, end+ms, history.FaultVerified, shot, id)
	t.start(end+0.2, next)
}

// rolledOver is a rolling restart whose last victim leads: it gives its lock back, or keeps it and costs the others a TTL. skips leaves
// one replica out.
func rolledOver(gives, skips bool) *tape {
	t := newTape("a rolling restart, the leader last")
	t.start(0.1, "r1.1", "r2.1", "r3.1")
	t.phase(0.2, history.PhaseSteady)
	t.lead(1, 12, "r3.1", "l1", 101)
	t.phase(5, history.PhaseFaults)
	t.restart(6, 6.1, "roll#1", "r1.1", "r1.2", "")
	if !skips {
		t.restart(8, 8.1, "roll#2", "r2.1", "r2.2", "")
	}
	t.poll(7, 12, "r1.2", "l1")
	again := 17.3 // its last renewal was at 11, and the lease lasts 6 s
	if gives {
		t.fence(12.01, "l1", "context", false)
		t.release(12.02, "l1")
		again = 12.6
	}
	t.restart(12, 12.1, "roll#3", "r3.1", "r3.2", "l1")
	t.lead(again, 30, "r1.2", "l2", 102)
	t.finale(14, 30, "r1.2", "r2.2", "r3.2")
	return t
}

func TestWhatARollingRestartCosts(t *testing.T) {
	for name, c := range map[string]struct {
		gives, skips bool
		want         map[string]verdict.Verdict
		lo, hi       float64 // without a leader
		left         string
	}{
		"the lock is given back": {true, false, map[string]verdict.Verdict{"handovers": verdict.Pass, "without_leader": verdict.Pass, "longest": verdict.Pass}, 0.55, 0.6, ""},
		"the lock is kept":       {false, false, map[string]verdict.Verdict{"handovers": verdict.Pass, "without_leader": verdict.Fail, "longest": verdict.Fail}, 5.1, 5.3, ""},
		"a replica is left out":  {true, true, map[string]verdict.Verdict{"handovers": verdict.Inconclusive, "without_leader": verdict.Inconclusive, "longest": verdict.Inconclusive}, 0.55, 0.6, "r2.1"},
	} {
		e, h := recorded(t, rolledDrill, rolledOver(c.gives, c.skips))
		j := Judge(e, h)
		for _, r := range j.SLOs {
			if _, figure, _ := strings.Cut(r.Measure, "."); r.Verdict != c.want[figure] && r.Ask != verdict.AtLeast {
				t.Errorf("%s: %s is %s: %s", name, r.Measure, r.Verdict, r.Why)
			}
		}
		if len(j.Rolling) != 1 || len(j.Rolling[0].Locks) != 1 || strings.Join(j.Rolling[0].Left, " ") != c.left {
			t.Fatalf("%s: %+v", name, j.Rolling)
		}
		l := j.Rolling[0].Locks[0]
		if l.Handovers.Lo != 1 || *l.Handovers.Hi != 1 || l.Without.Lo < c.lo || *l.Without.Hi > c.hi || *l.Overlap.Hi != 0 {
			t.Errorf("%s: %+v, up to %g hand-overs and %gs", name, l, *l.Handovers.Hi, *l.Without.Hi)
		}
	}
}

// A second pass through the replicas, which are new lives by then, is a rolling restart of its own.
func TestTwoRollingRestartsAreJudgedByTheWorse(t *testing.T) {
	tp := newTape("two rolling restarts")
	tp.start(0.1, "r1.1", "r2.1")
	tp.phase(0.2, history.PhaseSteady)
	tp.lead(1, 8, "r2.1", "l1", 101)
	tp.phase(5, history.PhaseFaults)
	tp.restart(6, 6.1, "roll#1", "r1.1", "r1.2", "")
	tp.release(8.02, "l1")
	tp.restart(8, 8.1, "roll#2", "r2.1", "r2.2", "l1")
	tp.lead(9, 20, "r1.2", "l2", 102)
	tp.restart(15, 15.1, "roll#3", "r2.2", "r2.3", "")
	tp.restart(20, 20.1, "roll#4", "r1.2", "r1.3", "l2")
	tp.lead(25.3, 40, "r2.3", "l3", 103)
	tp.finale(22, 40, "r1.3", "r2.3")
	e, h := recorded(t, strings.ReplaceAll(rolledDrill, "replicas: 3", "replicas: 2"), tp)
	e.Faults[0].Repeat.Count = 4
	j := Judge(e, h)
	if len(j.Rolling) != 2 || *j.Rolling[0].Locks[0].Without.Hi > 1.1 || j.Rolling[1].Locks[0].Without.Lo < 5 {
		t.Fatalf("%+v", j.Rolling)
	}
	for _, r := range j.SLOs {
		if r.Measure == "rolling.longest" && (r.N != 2 || r.Verdict != verdict.Fail || r.Lo < 5) {
			t.Errorf("%+v", r)
		}
	}
}

// Nobody who is only watched says that he gives a lock back. Its key goes away between the SIGTERM to its holder and the holder's end, and
// before its lease ends: that is a hand-over. A key that goes away once its holder is dead is none.
func TestAWatchedHolderHandsOverWhenItIsAskedToEnd(t *testing.T) {
	file := strings.NewReplacer("id: kill-job, kill: {holder_of: job}", "id: roll, rolling_restart: {}").Replace(somebodys)
	for name, c := range map[string]struct {
		gone    float64
		class   string
		verdict verdict.Verdict
	}{
		"given back on SIGTERM": {10.05, verdict.ClassHandOver, verdict.Pass},
		"gone after its death":  {10.5, verdict.ClassFalse, verdict.Fail},
	} {
		r, j := struckAsWatched(t, file, experiments.SLO{Takeover: atMostSeconds(3)}, func(tp foreignTape) {
			tp.holds(8, c.gone, jobKey("1"), "a1", "r1.1")
			tp.effect(8.05, jobKey("1"), said{job: "1", state: "RUNNING", op: "o1", token: "a1", who: "r1.1"})
			tp.restart(10, 10.1, "roll#1", "r1.1", "r1.2", "a1")
			tp.restart(10.6, 10.7, "roll#2", "r2.1", "r2.2", "")
			tp.holds(12, 17, jobKey("1"), "a2", "r1.2")
			tp.effect(12.05, jobKey("1"), said{job: "1", state: "RUNNING", op: "o2", token: "a2", who: "r1.2"})
			tp.effect(16, jobKey("1"), said{job: "1", state: "DONE", op: "o3", token: "a2", who: "r1.2"})
		})
		class := ""
		for _, x := range j.Takeovers {
			class = x.Class
		}
		if r.Verdict != c.verdict || class != c.class {
			t.Errorf("%s: %s, class %q, %s: %+v", name, r.Verdict, class, r.Why, j.Takeovers)
		}
		if l := j.Rolling[0].Locks[0]; l.N != 1 || l.Stranded != 0 {
			t.Errorf("%s: %d jobs cut short, %d not taken again", name, l.N, l.Stranded)
		}
	}
}

// Whoever is offered a job again that another has finished meanwhile lets go of it at once: nothing was cut short.
func TestAJobThatAnotherHasFinishedIsNotCutShort(t *testing.T) {
	file := strings.NewReplacer("id: kill-job, kill: {holder_of: job}", "id: roll, rolling_restart: {}").Replace(somebodys)
	_, j := struckAsWatched(t, file, experiments.SLO{Takeover: atMostSeconds(3)}, func(tp foreignTape) {
		tp.holds(8, 10.3, jobKey("1"), "a1", "r2.1")
		tp.restart(10, 10.1, "roll#1", "r1.1", "r1.2", "")
		tp.effect(10.2, jobKey("1"), said{job: "1", state: "DONE", op: "o1", token: "a1", who: "r2.1"})
		tp.holds(10.4, 10.45, jobKey("1"), "a2", "r2.1")
		tp.restart(10.6, 10.7, "roll#2", "r2.1", "r2.2", "")
	})
	for _, l := range j.Rolling[0].Locks {
		if !l.Loop {
			t.Errorf("%d jobs cut short", l.N)
		}
	}
}

// A leader may let go sooner after it was told to end than the next look comes. One that keeps its lock for no tick alone did so since it was
// told to; one that lets go after each tick may have done it before, and so may whoever lets go long before.
func TestALeaderHandsOverBetweenTwoLooks(t *testing.T) {
	for _, c := range []struct {
		mode, release string
		until         float64
		want          string
	}{
		{"ttl_hold", "{mode: none}", 10.003, verdict.ClassHandOver},
		{"ttl_hold", "{mode: none}", 9.99, ""},
		{"explicit", "{mode: single, timeout: 1s}", 10.003, ""},
	} {
		file := strings.NewReplacer("id: kill-job, kill: {holder_of: job}", "id: roll, rolling_restart: {}", "mode: ttl_hold", "mode: "+c.mode, "release: {mode: none}", "release: "+c.release).Replace(somebodys)
		_, j := struckAsWatched(t, file, experiments.SLO{Lock: "loop", Takeover: atMostSeconds(30)}, func(tp foreignTape) {
			tp.holds(8, c.until, pollerKey, "a1", "r1.1")
			tp.restart(10, 10.1, "roll#1", "r1.1", "r1.2", "")
			tp.restart(10.6, 10.7, "roll#2", "r2.1", "r2.2", "")
			tp.holds(11, 119, pollerKey, "a2", "r1.2")
		})
		class := ""
		for _, x := range j.Takeovers {
			if class = x.Class; x.Lo > 1 || *x.Hi < 1 || *x.Hi > 1.1 {
				t.Errorf("%s at %g: [%g, %g]", c.mode, c.until, x.Lo, *x.Hi)
			}
		}
		if class != c.want {
			t.Errorf("%s, which let go at %g: class %q, want %q", c.mode, c.until, class, c.want)
		}
	}
}

// All were restarted, and the last one did not come back: no pass.
func TestTheLastReplicaHasToComeBack(t *testing.T) {
	tp := rolledOver(true, false)
	why := "r3.1 was restarted, and no replica took its place within 1m0s"
	tp.shot("roll#4", "rolling_restart", "", "")
	f := tp.shots["roll#4"]
	f.Form, f.Why, f.Detail = "graceful", history.NotReturned, why
	tp.shots["roll#4"] = f
	tp.fault(13, 13, history.FaultVoid, "roll#4", "")
	e, h := recorded(t, rolledDrill, tp)
	j := Judge(e, h)
	if j.ExitCode != verdict.ExitInconclusive || !strings.Contains(j.Missing[0].Why, "did not come back: "+why) || !strings.Contains(j.Missing[0].Next, "supervisor") {
		t.Errorf("%s: %+v", j.Verdict, j.Missing)
	}
}

// Looks at the lock come 5 ms apart, and the leader lets go between two of them, of which the first was before it was told to end: whether
// it would have kept the lock is not to be seen, and what the restart cost is.
func TestARestartIsAboutALockThatSomebodyLetGoOfMeanwhile(t *testing.T) {
	file := strings.NewReplacer("id: kill-job, kill: {holder_of: job}", "id: roll, rolling_restart: {}").Replace(somebodys)
	limit := 3 * time.Second
	for name, c := range map[string]struct {
		until float64
		want  verdict.Verdict
	}{
		"let go between two looks": {10.003, verdict.Pass},
		"long before":              {9, verdict.Inconclusive},
	} {
		slo := experiments.SLO{Lock: "loop", Rolling: &experiments.RollingLimits{WithoutLeader: &experiments.Bound[time.Duration]{Max: &limit}}}
		r, _ := struckAsWatched(t, file, slo, func(tp foreignTape) {
			tp.holds(8, c.until, pollerKey, "a1", "r1.1")
			tp.restart(10, 10.1, "roll#1", "r1.1", "r1.2", "")
			tp.restart(10.6, 10.7, "roll#2", "r2.1", "r2.2", "")
			tp.holds(11, 119, pollerKey, "a2", "r1.2")
		})
		if r.Verdict != c.want || c.want != verdict.Pass && !slices.ContainsFunc(r.Missing, func(m verdict.Missing) bool { return m.Code == verdict.MissingHits }) {
			t.Errorf("%s: %s, [%g, %v]: %s %+v", name, r.Verdict, r.Lo, *r.Hi, r.Why, r.Missing)
		}
	}
}
