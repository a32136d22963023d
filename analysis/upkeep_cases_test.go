package analysis

import (
	"fmt"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Recorded histories of what a lock costs those who want it: debt, "not yours", orphans, holds and waits.

// drilled is a drill whose fault, a kill, comes at 100 s and hits job j9; body plays between 10 s and 95 s.
func drilled(says string, body func(*tape)) *tape {
	t := newTape(says)
	t.start(0.1, "r1.1", "r2.1", "r3.1")
	t.phase(0.2, history.PhaseSteady)
	t.job(1, 2, "r2.1", jobs(0), "s0", "j0", 1)
	t.phase(5, history.PhaseFaults)
	body(t)
	t.offer(99.9, jobs(9), "j9", "r1.1")
	t.grant(99.95, "r1.1", jobs(9), "a9", 90)
	t.begin(99.952, "a9", "j9")
	t.killAndReturn(100, "kill-holder#1", "random", "a9", "r1.2")
	t.refuse(130, "r2.1", jobs(9), "a9")
	t.job(165, 3, "r2.1", jobs(9), "b9", "j9", 91)
	t.finale(170, 260, "r1.2", "r2.1", "r3.1")
	return t
}

// releaseLost is a release whose answer did not come within its 2 s.
func (t *tape) releaseLost(at float64, id string) {
	t.call(at, 2, t.epochs[id], "release", history.Unknown, history.Call{Result: history.ResultError, Err: "timeout"})
}

// releaseGone is a release that is told: not yours.
func (t *tape) releaseGone(at float64, id, result string) {
	t.call(at, ms, t.epochs[id], "release", history.Fail, history.Call{Result: result})
}

func (t *tape) renewLost(at float64, id string) {
	t.call(at, 2, t.epochs[id], "renew", history.Unknown, history.Call{Result: history.ResultError, Err: "timeout"})
}

// work is a job up to the end of its work; the lock is still held.
func (t *tape) work(at, took float64, rep string, n int, id string, fence int64) {
	job := fmt.Sprintf("j%d", n)
	t.offer(at-5*ms, jobs(n), job, rep)
	t.grant(at, rep, jobs(n), id, fence)
	t.look(at+3*ms, jobs(n), id, 60)
	t.begin(at+2*ms, id, job)
	t.write(at+took-5*ms, id, job, "succeeded", "")
	t.exit(at+took, id, job, "done")
}

// releaseInTime: a release is answered at once, and another loses its answer, but the probe sees the key go.
func releaseInTime() *tape {
	return drilled("keys are given back in time, one of them without an answer", func(t *tape) {
		t.work(10, 3, "r1.1", 1, "a1", 11)
		t.release(13+ms, "a1")
		t.look(13.004, jobs(1), "", 0)
		t.work(20, 3, "r1.1", 2, "a2", 12)
		t.releaseLost(23+ms, "a2")
		t.look(23.004, jobs(2), "", 0)
		t.releaseGone(25.01, "a2", history.ResultAbsent)
	})
}

// releaseFails: neither of two tries reaches the store, so the key stays until its TTL, and two jobs' worth of waiting is lost.
func releaseFails() *tape {
	return drilled("a release fails twice, and the key is left to its ttl", func(t *tape) {
		t.work(10, 3, "r1.1", 1, "a1", 11)
		t.releaseLost(13+ms, "a1")
		t.releaseLost(15.01, "a1")
		t.refuse(30, "r2.1", jobs(1), "a1")
		t.refuse(60, "r3.1", jobs(1), "a1")
		t.look(70.004, jobs(1), "", 0)
		t.job(90, 1, "r2.1", jobs(1), "b1", "j1", 12)
	})
}

// releaseReplyLost: the answer to a release is lost, and nobody saw the key go or stay.
func releaseReplyLost() *tape {
	return drilled("the answer to a release is lost, and nothing shows whether it was applied", func(t *tape) {
		t.offer(9.9, jobs(1), "j1", "r1.1")
		t.grant(10, "r1.1", jobs(1), "a1", 11)
		t.begin(10.002, "a1", "j1")
		t.write(12.9, "a1", "j1", "succeeded", "")
		t.exit(13, "a1", "j1", "done")
		t.releaseLost(13+ms, "a1")
	})
}

// notOwnedOwnRelease: the retry of a release that was applied unseen is told "absent": that is nobody's loss.
func notOwnedOwnRelease() *tape {
	return drilled("a release is told \"absent\" because the one before it had been applied", func(t *tape) {
		t.work(10, 50, "r1.1", 1, "a1", 11)
		t.renew(30, "a1")
		t.renew(50, "a1")
		t.releaseLost(60+ms, "a1")
		t.look(60.004, jobs(1), "", 0)
		t.releaseGone(62.01, "a1", history.ResultAbsent)
	})
}

// notOwnedRenewals: one holder finds its key deleted, another finds a successor in its place, both too late.
func notOwnedRenewals() *tape {
	return drilled("holders are told that their keys are gone, or another's", func(t *tape) {
		t.work(10, 15, "r1.1", 1, "a1", 11)
		t.renewGone(24.9, "a1", history.ResultAbsent)
		t.look(24.8, jobs(1), "", 0)
		t.releaseGone(25.01, "a1", history.ResultAbsent)
		t.work(30, 50, "r1.1", 2, "a2", 12)
		t.renew(50, "a2")
		t.look(69, jobs(2), "", 0)
		t.offer(68, jobs(2), "j2", "r2.1")
		t.grant(69.1, "r2.1", jobs(2), "b2", 13)
		t.look(69.104, jobs(2), "b2", 60)
		t.renewGone(70, "a2", history.ResultOther)
		t.enter(69.11, "b2", "j2")
		t.exit(69.2, "b2", "j2", "skipped")
		t.releaseGone(80.01, "a2", history.ResultOther)
		t.release(90, "b2")
		t.look(90.004, jobs(2), "", 0)
	})
}

// notOwnedUnanswered: no renewal is ever answered.
func notOwnedUnanswered() *tape {
	return drilled("no renewal is answered at all", func(t *tape) {
		t.work(10, 25, "r1.1", 1, "a1", 11)
		t.renewLost(30, "a1")
		t.release(35+ms, "a1")
	})
}

// lostReplyLate: the acquire whose reply was lost is undone before it has arrived; then it arrives.
func lostReplyLate() *tape {
	return drilled("an acquire arrives after it was undone", func(t *tape) {
		w := jobs(1)
		t.offer(9.9, w, "j1", "r1.1")
		t.lostGrant(10, "r1.1", w, "lost")
		t.call(12.001, ms, t.epochs["lost"], "undo", history.Fail, history.Call{Result: history.ResultAbsent})
		t.look(12.504, w, "lost", 60)
		t.refuse(12.6, "r1.1", w, "lost")
		t.refuse(42.6, "r2.1", w, "lost")
		t.look(72.504, w, "", 0)
		t.job(72.6, 3, "r1.1", w, "a1", "j1", 12)
	})
}

// lostReplyUnseen: the reply of an acquire is lost while the key probe looks away.
func lostReplyUnseen() *tape {
	t := drilled("the reply of an acquire is lost, and nobody looks", func(t *tape) {
		t.offer(9.9, jobs(1), "j1", "r1.1")
		t.lostGrant(10, "r1.1", jobs(1), "lost")
		t.job(75, 3, "r1.1", jobs(1), "a1", "j1", 12)
	})
	for i := range t.events {
		if c := t.events[i].Coverage; c != nil && c.Probe == experiments.ProbeKeys && t.events[i].From < ns(75) {
			t.events[i].Kind = history.GapKind
		}
	}
	return t
}

// classesShort: 30 small jobs and 2 big ones, none of which waits.
func classesShort() *tape {
	return drilled("jobs of two classes, none of which waits", func(t *tape) {
		for i := range 32 {
			t.class = "small"
			took := 0.5
			if i%16 == 15 {
				t.class, took = "big", 5
			}
			n := 100 + i
			t.job(10+float64(i), took, []string{"r1.1", "r2.1"}[i%2], jobs(n), fmt.Sprintf("a%d", n), fmt.Sprintf("j%d", n), int64(n))
		}
	})
}

// classesLongWaits: 9 small jobs that are offered to a second replica while the first still works, and again when it has failed.
func classesLongWaits() *tape {
	return drilled("jobs that wait for their locks", func(t *tape) {
		t.class = "small"
		for i := range 9 {
			n, at := 100+i, 10+float64(i)*0.5
			job := fmt.Sprintf("j%d", n)
			t.offer(at-5*ms, jobs(n), job, "r1.1")
			t.grant(at, "r1.1", jobs(n), fmt.Sprintf("a%d", n), int64(n))
			t.begin(at+2*ms, fmt.Sprintf("a%d", n), job)
			t.refuse(at+5, "r2.1", jobs(n), fmt.Sprintf("a%d", n))
			t.exit(at+20, fmt.Sprintf("a%d", n), job, "error")
			t.release(at+20+ms, fmt.Sprintf("a%d", n))
			t.job(at+35, 1, "r3.1", jobs(n), fmt.Sprintf("b%d", n), job, int64(n+100))
		}
	})
}

// classesTooFew: 7 jobs, none of which waits: too few for a p95.
func classesTooFew() *tape {
	return drilled("too few jobs for a quantile", func(t *tape) {
		t.class = "small"
		for i := range 7 {
			n := 100 + i
			t.job(10+float64(i), 0.5, "r1.1", jobs(n), fmt.Sprintf("a%d", n), fmt.Sprintf("j%d", n), int64(n))
		}
	})
}
