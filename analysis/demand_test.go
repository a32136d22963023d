package analysis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// recorded is a tape as the history of an experiment.
func recorded(t *testing.T, experiment string, tp *tape) (*experiments.Experiment, *history.History) {
	t.Helper()
	e, err := experiments.Parse("taped.yaml", []byte(experiment))
	if err != nil {
		t.Fatal(err)
	}
	h := tp.history(t)
	return e, h
}

const fourKills = `
apiVersion: lockdrill/v1
kind: Experiment
name: four-kills
system:
  mode: embedded
  replicas: 2
  locks:
    - name: leader
      key: "drill:leader"
      policy:
        ttl: 6s
        renew_every: 2s
        class: standard
        op_timeout: 500ms
        drift: 60ms
        stop_budget: 200ms
        release: {mode: single, timeout: 500ms, after_abandon: skip}
        acquire: {mode: try, timeout: 500ms}
        loop: {poll: 2s, mode: renewed, tick: 50ms}
faults:
  - {id: kill-leader, at: 5s, repeat: {count: 4, every: settled}, kill: {holder_of: leader, phase: random}}
slos:
  - {lock: leader, takeover: {max: 12s, p90: 12s}}
`

// killedFourTimes is an election in which each leader is killed. After so many kills the followers live on and never ask again: they
// have deadlocked.
func killedFourTimes(deadlockAfter int) *tape {
	t := newTape("a loop whose followers stop asking for it")
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	names := []string{"r1.1", "r2.1", "r1.2", "r2.2", "r1.3", "r2.3"}
	t.hold(1, 11, names[0], "l0", 1)
	t.phase(5, history.PhaseFaults)
	at := 11.5
	for i := range 4 {
		shot, holder := fmt.Sprintf("kill-leader#%d", i+1), fmt.Sprintf("l%d", i)
		t.kill(at, shot, "random", holder)
		t.start(at+0.5, names[i+2])
		if i >= deadlockAfter {
			for j := i + 1; j < 8; j++ { // nobody holds it any more
				at += 20
				shot = fmt.Sprintf("kill-leader#%d", j+1)
				t.shot(shot, "kill", "random", "")
				f := t.shots[shot]
				f.Why = history.NoTarget
				t.shots[shot] = f
				t.fault(at, at, history.FaultResolve, shot, "")
				t.fault(at, at, history.FaultVoid, shot, "")
			}
			t.finale(at, at+60, "r1.2", "r2.2")
			return t
		}
		t.refuse(at+1, names[i+1], leader, holder)
		t.refuse(at+3, names[i+1], leader, holder)
		next := at + 22.5
		t.hold(at+6, next, names[i+1], fmt.Sprintf("l%d", i+1), int64(i+2))
		at = next + 0.5
	}
	t.finale(at, at+60, "r1.3", "r2.3")
	return t
}

// Whether somebody wanted a lock is known when its holder is killed. Followers that are alive then and never ask again do not make the
// kill void: it is a takeover that never came.
func TestALoopWhoseFollowersDeadlockIsNotVoid(t *testing.T) {
	e, h := recorded(t, fourKills, killedFourTimes(4))
	j := Judge(e, h)
	if r := row(t, j, "leader", "takeover.max"); r.Verdict != verdict.Pass || r.N != 4 {
		t.Errorf("followers that take over: %+v", r)
	}
	e, h = recorded(t, fourKills, killedFourTimes(2))
	j = Judge(e, h)
	r := row(t, j, "leader", "takeover.max")
	if r.Verdict != verdict.Fail || r.N != 3 || r.Hi != nil || r.Lo < 100 {
		t.Errorf("followers that deadlock after half of the kills: %+v", r)
	}
	if q := row(t, j, "leader", "takeover.p90"); q.Verdict == verdict.Pass || !strings.Contains(q.Why, "1 of 3 kills") {
		t.Errorf("the kill without a successor is one that missed: %+v", q)
	}
	if f := j.Faults[2]; f.Void || f.Why != "" {
		t.Errorf("the kill without a successor: %+v", f)
	}
}

// No demand at the shot is void, as ever: nobody else lived who could have taken the loop over.
func TestALoopWithoutACandidateIsVoid(t *testing.T) {
	e, h := recorded(t, fourKills, killedFourTimes(0))
	without(h, func(ev *history.Event) bool { // the follower was never there, and the successor of the victim is not yet
		return ev.Kind == history.ReplicaReady && ev.Source == "r2.1"
	})
	if f := Judge(e, h).Faults[0]; !f.Void || !strings.Contains(f.Why, "no demand") {
		t.Errorf("%+v", f)
	}
}

// An offered job is demand until it is finished, whether it is offered again or not. What another writes after the kill does not make it
// a job of which nothing was owed, but from then on nobody has to take it over.
func TestAnOfferedJobIsDemand(t *testing.T) {
	for name, c := range map[string]struct {
		wrote float64 // by a superseded holder; 0 = never
		n     int
		lo    float64
		want  verdict.Verdict
	}{
		"never finished":                       {0, 1, 144, verdict.Fail},
		"finished by another after the kill":   {50, 1, 34.9, verdict.Inconclusive},
		"finished by another before the kill":  {14, 0, 0, verdict.Inconclusive},
		"finished by another with the kill":    {15, 0, 0, verdict.Inconclusive},
		"finished by another much later on":    {140, 1, 124.9, verdict.Fail},
		"finished by another at the very last": {159, 1, 143.9, verdict.Fail},
	} {
		tp := nobodyWants()
		if c.wrote > 0 {
			tp.epochs["a0"] = &taped{lock: "job", key: jobs(1).key, id: "a0", rep: "r2.1", fence: 10, ttl: 60}
			tp.write(c.wrote, "a0", "j1", "succeeded", "")
		}
		e, _ := load(t, "nobody-wants-it")
		h := tp.history(t)
		r := row(t, Judge(e, h), "job", "takeover.max")
		if r.Verdict != c.want || r.N != c.n || r.Hi != nil || r.Lo < c.lo || r.Lo > c.lo+1 {
			t.Errorf("%s: %s n=%d [%v, %v]", name, r.Verdict, r.N, r.Lo, r.Hi)
		}
	}
}

// A fault that finds nobody because the jobs have ended says that, and when; one that finds nobody while jobs are to be done does not.
func TestAFaultAfterTheLastJobSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		finished         bool
		void, says, next string
	}{
		"after the last job":   {true, "all jobs had ended, so nobody held the lock", "all jobs had ended", "before T+11.0s"},
		"with jobs to be done": {false, "no_target", "no_target", "Aim the fault at a lock that is held"},
	} {
		tp := begun("a kill that finds nobody")
		tp.job(9, 2, "r1.1", jobs(1), "a1", "j1", 11)
		if !c.finished {
			tp.offer(12, jobs(2), "j2", "r1.1")
		}
		tp.shot("kill-holder#1", "kill", "random", "")
		f := tp.shots["kill-holder#1"]
		f.Why = history.NoTarget
		tp.shots["kill-holder#1"] = f
		tp.fault(15, 15, history.FaultResolve, "kill-holder#1", "")
		tp.fault(15, 15, history.FaultVoid, "kill-holder#1", "")
		tp.finale(20, 160, "r1.1", "r2.1")
		e, _ := load(t, "nobody-wants-it")
		h := tp.history(t)
		j := Judge(e, h)
		if r := row(t, j, "job", "takeover.max"); r.Verdict != verdict.Inconclusive || !strings.Contains(r.Why, c.says) || !strings.Contains(r.Next, c.next) {
			t.Errorf("%s: %s\nwhy  %s\nnext %s", name, r.Verdict, r.Why, r.Next)
		}
		if f := j.Faults[0]; !f.Void || !strings.HasPrefix(f.Why, c.void) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
