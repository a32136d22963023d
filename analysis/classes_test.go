package analysis

import (
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// judged is what the good drill's experiment makes of a tape.
func judged(t *testing.T, tp *tape) *verdict.Judgement {
	t.Helper()
	e, _ := load(t, "good-drill")
	return Judge(e, tp.history(t))
}

// hold is a leader that renews until the second.
func (t *tape) hold(from, until float64, rep, id string, fence int64) {
	t.grant(from, rep, leader, id, fence)
	t.enter(from+2*ms, id, "leader")
	t.write(from+3*ms, id, "leader", history.StateBegin, "")
	t.exit(from+50*ms, id, "leader", "done")
	for at := from + 2; at < until; at += 2 {
		t.renew(at, id)
		t.tick(at+5*ms, 50*ms, id, "leader")
	}
}

func (t *tape) arm(at float64, shot, id string) {
	t.shot(shot, "renew_failures", "", t.epochs[id].rep)
	t.fault(at, at+ms, history.FaultApplied, shot, id)
	t.fault(at+ms, at+2*ms, history.FaultConfirmed, shot, id)
}

// What is no plain takeover is told apart, and its range is what the brackets give.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		name   string
		play   func(*tape)
		class  string
		end    string
		lo, hi float64 // hi < 0: open
	}{
		{"crash", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.kill(10, "kill-leader#1", "random", "a")
			tp.hold(15.5, 20, "r2.1", "b", 2)
		}, verdict.ClassCrash, "effect", 5.5029, 5.504},
		{"the victim goes on after a burst", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.arm(10, "burst#1", "a")
			tp.renewHit(11, "a", "burst#1")
			tp.renew(12, "a")
		}, verdict.ClassRecovery, "renewal", 1.999, 2.001},
		{"given up and released", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.arm(10, "burst#1", "a")
			tp.renewHit(11, "a", "burst#1")
			tp.fence(13, "a", "count", false)
			tp.release(13.1, "a")
			tp.hold(14, 20, "r2.1", "b", 2)
		}, verdict.ClassHandOver, "effect", 4.002, 4.004},
		{"the victim itself again", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.arm(10, "burst#1", "a")
			tp.renewHit(11, "a", "burst#1")
			tp.fence(14, "a", "deadline", false)
			tp.hold(16, 20, "r1.1", "b", 2)
		}, verdict.ClassRecovery, "effect", 6.002, 6.004},
		{"granted while the store owed the victim its lease", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.look(1.002, leader, "a", 6)
			tp.kill(10, "kill-leader#1", "random", "a")
			tp.look(11.01, leader, "", 0)
			tp.hold(12, 20, "r2.1", "b", 2)
		}, verdict.ClassFalse, "effect", 2.0029, 2.004},
		{"taken without a fault", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.hold(10, 20, "r2.1", "b", 2)
		}, verdict.ClassTheft, "grant", 4.999, 5.003},
		{"killed twice before anybody worked", func(tp *tape) {
			tp.hold(1, 10, "r1.1", "a", 1)
			tp.kill(10, "kill-leader#1", "random", "a")
			tp.grant(15.5, "r2.1", leader, "b", 2)
			tp.kill(15.6, "kill-leader#2", "random", "b")
			tp.hold(22, 30, "r3.1", "c", 3)
		}, verdict.ClassCrash, "censored", 5.5999, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tp := newTape(c.name)
			tp.phase(0.2, history.PhaseFaults)
			c.play(tp)
			tp.refuse(9.9, "r2.1", leader, "a")
			tp.finale(40, 60)
			j := judged(t, tp)
			if len(j.Takeovers) == 0 {
				t.Fatalf("no takeover; faults %+v", j.Faults)
			}
			got := j.Takeovers[0]
			if got.Class != c.class || got.End != c.end || apart(got.Lo, c.lo) > 1e-9 || (got.Hi == nil) != (c.hi < 0) || got.Hi != nil && apart(*got.Hi, c.hi) > 1e-9 {
				t.Errorf("got %+v, want %s [%g, %g] ended by %s", got, c.class, c.lo, c.hi, c.end)
			}
			if c.class == verdict.ClassFalse && (j.Counts.FalseTakeovers != 1 || !strings.Contains(j.SLOs[0].Why, "1 false takeover") || j.SLOs[0].Verdict != verdict.Fail) {
				t.Errorf("a false takeover is a safety event: %+v", j.SLOs[0])
			}
		})
	}
}

// Claims and evidence that contradict one another are findings.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(*tape)
		says string
	}{
		{"fence fetched at write time", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.epochs["a"].fence = 9
			tp.write(3, "a", "leader", history.StateTick, "")
		}, "carries fence 9, but its epoch was granted 1"},
		{"a write that the ledger does not have", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.write(3, "a", "leader", history.StateTick, "")
			tp.events = tp.events[:len(tp.events)-1]
		}, "the ledger accepted write"},
		{"the writer says the opposite", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.write(3, "a", "leader", history.StateTick, history.ReasonFenced)
			e := tp.events[len(tp.events)-1].Entry
			e.Accepted, e.Reason = true, ""
		}, "its writer says the opposite"},
		{"renewed while the key was another's", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.look(1.003, leader, "a", 6)
			tp.look(8.003, leader, "b", 6)
			tp.renew(9, "a")
			tp.look(14.003, leader, "", 0)
		}, "the probe saw the key carry b meanwhile"},
		{"released while the key was another's", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.look(1.003, leader, "a", 6)
			tp.look(8.003, leader, "b", 6)
			tp.release(9, "a")
			tp.look(14.003, leader, "", 0)
		}, "released it with success while the probe saw it carry"},
		{"released when its lease was long over", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.release(20, "a")
		}, "was released with success after it had lost the key"},
		{"an entry under another epoch than its writer says", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.hold(9, 10, "r2.1", "b", 2)
			tp.write(11, "b", "leader", history.StateTick, "")
			last := &tp.events[len(tp.events)-1]
			last.Epoch = tp.epochs["a"].id
		}, "but its writer names"},
		{"one token for two replicas", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.hold(9, 10, "r2.1", "a", 2)
		}, "is claimed by r1.1 and by r2.1"},
		{"seen before it was written", func(tp *tape) {
			tp.hold(1, 2, "r1.1", "a", 1)
			tp.write(3, "a", "leader", history.StateTick, "")
			e := &tp.events[len(tp.events)-1]
			e.Span = history.At(ns(2.5))
		}, "r1.1: 1 claim lies at least 500ms away from what the ledger and the probe saw"},
	} {
		tp := newTape(c.name)
		tp.phase(0.2, history.PhaseFaults)
		c.play(tp)
		tp.finale(40, 60)
		j := judged(t, tp)
		found := false
		for _, f := range j.Findings {
			found = found || strings.Contains(f.What, c.says) && len(f.Evidence) > 0
		}
		if !found {
			t.Errorf("%s: no finding says %q: %+v", c.name, c.says, j.Findings)
		}
	}
}

func apart(a, b float64) float64 { return max(a-b, b-a) }

// A holder with two jobs under one hold has recovered only if it ends both: what another has to end is a takeover of the lock.
func TestAHolderOfTwoJobsRecoversWithBoth(t *testing.T) {
	for _, both := range []bool{false, true} {
		tp := newTape("two jobs under one hold")
		tp.phase(0.2, history.PhaseFaults)
		w := jobKey("j1")
		tp.offer(0.9, w, "j1", "r1.1")
		tp.offer(0.9, w, "j2", "r1.1")
		tp.grant(1, "r1.1", w, "a", 1)
		tp.begin(1.1, "a", "j1")
		tp.begin(1.2, "a", "j2")
		tp.arm(3, "burst#1", "a")
		tp.renewHit(3.5, "a", "burst#1")
		tp.write(4, "a", "j1", "succeeded", "")
		tp.refuse(4.5, "r2.1", w, "a")
		want, lo, hi := verdict.ClassPause, 9.0, 9.2
		if both {
			tp.write(4.2, "a", "j2", "succeeded", "")
			want, lo, hi = verdict.ClassRecovery, 0.5, 1.1
		}
		tp.fence(4.8, "a", "deadline", true)
		tp.grant(12, "r2.1", w, "b", 2)
		tp.begin(12.1, "b", "j2")
		tp.finish(12.5, "b", "j2")
		tp.finale(40, 60)
		j := judged(t, tp)
		if len(j.Takeovers) != 1 {
			t.Fatalf("%d trials; faults %+v", len(j.Takeovers), j.Faults)
		}
		if got := j.Takeovers[0]; got.Class != want || got.Lo < lo || got.Hi == nil || *got.Hi > hi {
			t.Errorf("both %v: %s %s by %s", both, got.Class, figures.Seconds(got.Lo, got.Hi), got.End)
		}
	}
}
