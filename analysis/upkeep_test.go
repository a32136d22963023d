package analysis

import (
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// played are the facts of a tape under one lock, which contradicts itself nowhere.
func played(t *testing.T, l experiments.Lock, play func(*tape)) *Facts {
	t.Helper()
	ix := told(t, l, play)
	for _, f := range ix.Findings {
		if f.Code != verdict.FindingRenewedAfterWork { // which is what some tapes are about
			t.Fatal(f)
		}
	}
	return ix
}

func (t *tape) wait(from, to float64, rep string, w want, out history.Outcome) {
	op := t.op("wait")
	ev := history.Event{Source: rep, Lock: w.lock, Key: w.key, Op: op, Call: &history.Call{}}
	ev.Kind = history.WaitBegin
	t.add(from, from, ev)
	ev.Kind, ev.Outcome = history.WaitEnd, out
	t.add(to, to, ev)
}

// A bounded wait is what its replica says: from the first refusal to the grant, to giving up, or to its death.
func TestBoundedWaits(t *testing.T) {
	w := want{"l", "k", 10}
	ix := played(t, experiments.Lock{Name: "l", KeyPrefix: "k", Policy: lockcore.Policy{TTL: 10 * time.Second, OpTimeout: time.Second, Acquire: lockcore.Acquire{Mode: lockcore.AcquireWait}}}, func(t *tape) {
		t.offer(0.9, w, "j1", "r1.1")
		t.grant(1, "r1.1", w, "a", 1)
		t.begin(1.1, "a", "j1")
		t.wait(1.5, 3.5, "r2.1", w, history.Fail)
		t.exit(4, "a", "j1", "done")
		t.call(4.1, 1, t.epochs["a"], "release", history.Fail, history.Call{Result: history.ResultError, Err: "refused"})
		t.wait(5, 11.2, "r2.1", w, history.OK)
		t.refuse(10.9, "r2.1", w, "a")
		t.grant(11.199, "r2.1", w, "b", 2)
	})
	wait := joined(ix.DistributionsOf("l"), facts.MeasureWait, "")
	if got := quantile(wait.Values, 0); len(wait.Values) != 3 || got.Dur != (facts.Dur{Lo: ns(6.2), Hi: ns(6.2)}) {
		t.Errorf("waits are %v, want 0, 2 s and 6.2 s", wait.Values)
	}
	ds := ix.DebtsOf("l")
	if len(ds.List) != 1 || ds.List[0].Cause != "release_failed" {
		t.Fatalf("debts are %+v", ds.List)
	}
	if d := ds.List[0]; d.Effective.Lo != ns(5.9) || d.Effective.Hi != ns(6.003) || d.Effective != d.Waiting {
		t.Errorf("the debt is %+v, want 5.9 s to 6.003 s of it waited for", d)
	}
}

// A renewal that the holder's own release overtook on the way is nobody's loss; where the release found the key gone as well, it is.
func TestRenewalMeetsItsOwnRelease(t *testing.T) {
	for _, c := range []struct {
		name        string
		release     func(*tape)
		own, absent int
	}{
		{"overtaken", func(tp *tape) { tp.release(30+2*ms, "a") }, 1, 0},
		{"gone before", func(tp *tape) { tp.releaseGone(30+2*ms, "a", history.ResultAbsent) }, 0, 1},
	} {
		ix := played(t, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: 60 * time.Second, OpTimeout: time.Second}}, func(tp *tape) {
			tp.grant(10, "r1.1", jobs(1), "a", 1)
			tp.call(30, 5*ms, tp.epochs["a"], "renew", history.Fail, history.Call{Result: history.ResultAbsent})
			c.release(tp)
		})
		if o := ix.NotOwnedOf("job", facts.OpRenew); o.Own != c.own || o.Absent != c.absent {
			t.Errorf("%s: own %d and absent %d, want %d and %d", c.name, o.Own, o.Absent, c.own, c.absent)
		}
	}
}

// A job that is open when a run is broken off before any fault may yet have been finished; one that had its time is stranded.
func TestStrandedBeforeAnyFault(t *testing.T) {
	l := experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: 6 * time.Second, OpTimeout: time.Second}}
	for end, want := range map[float64]facts.Tally{12: {Lo: 0, Hi: 1}, 100: {Lo: 1, Hi: 1}} {
		ix := played(t, l, func(tp *tape) {
			tp.offer(10, jobs(1), "j1", "r1.1")
			tp.finale(end-1, end)
		})
		if got, _, known := ix.StrandedOf("job"); got != want || !known {
			t.Errorf("final reads at T+%gs: %+v, known %t, want %+v", end, got, known, want)
		}
	}
}

// What is planned, a crash, and a loop that holds between its ticks are no debt; a renewal after a planned hold's work is.
func TestWhatIsNoDebt(t *testing.T) {
	policy := func(mode lockcore.LoopMode) experiments.Lock {
		return experiments.Lock{Name: "leader", Key: "drill:leader", Policy: lockcore.Policy{TTL: 6 * time.Second, OpTimeout: time.Second, Loop: &lockcore.Loop{Mode: mode, Poll: 2 * time.Second}}}
	}
	ticked := func(tp *tape) {
		tp.grant(1, "r1.1", leader, "a", 1)
		tp.tick(1.1, 0.5, "a", "leader")
	}
	for _, c := range []struct {
		name  string
		mode  lockcore.LoopMode
		play  func(*tape)
		cause string
	}{
		{"ttl_hold runs out", lockcore.LoopTTLHold, func(tp *tape) { tp.skipRelease(1.7, "a", "ttl_hold"); tp.fence(6.9, "a", "expired", false) }, ""},
		{"ttl_hold renewed after its work", lockcore.LoopTTLHold, func(tp *tape) { tp.renew(3, "a"); tp.renew(6, "a"); tp.fence(20, "a", "expired", false) }, "renew_after_exit"},
		{"renewed between ticks, released", lockcore.LoopRenewed, func(tp *tape) { tp.renew(3, "a"); tp.renew(5, "a"); tp.release(7, "a") }, ""},
		{"renewed after its release failed", lockcore.LoopRenewed, func(tp *tape) {
			tp.releaseLost(7, "a")
			tp.renew(9.5, "a")
			tp.fence(20, "a", "context", false)
		}, "renew_after_exit"},
		{"killed between ticks", lockcore.LoopRenewed, func(tp *tape) { tp.renew(3, "a"); tp.kill(4, "kill#1", "random", "a") }, ""},
		{"explicit, released", lockcore.LoopExplicit, func(tp *tape) { tp.release(1.7, "a") }, ""},
		{"explicit, killed before the release", lockcore.LoopExplicit, func(tp *tape) { tp.kill(1.65, "kill#1", "random", "a") }, ""},
		{"explicit, killed long after a release that never came", lockcore.LoopExplicit, func(tp *tape) { tp.kill(5, "kill#1", "random", "a") }, "release_failed"},
	} {
		ix := played(t, policy(c.mode), func(tp *tape) {
			ticked(tp)
			c.play(tp)
			tp.grant(30, "r2.1", leader, "b", 2)
		})
		ds := ix.DebtsOf("leader")
		ds.List = slices.DeleteFunc(ds.List, func(d facts.Debt) bool { return d.E.ID != "a" })
		switch {
		case c.cause == "" && len(ds.List) > 0:
			t.Errorf("%s: %+v, want no debt", c.name, ds.List[0])
		case c.cause != "" && (len(ds.List) != 1 || ds.List[0].Cause != c.cause || ds.List[0].Time.Lo <= 0):
			t.Errorf("%s: %+v, want a debt of cause %s", c.name, ds.List, c.cause)
		}
	}
}
