package analysis

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Recorded histories of faults that the holder outlives: pauses, the network, bursts on the way, the store itself, a key taken away.

// struck is a run of jobs in which the first one, j0, goes well before the faults; body plays from 10 s on, and the run ends at end.
func struck(says string, over, end float64, body func(*tape)) *tape {
	t := begun(says)
	body(t)
	t.finale(over, end, "r1.1", "r2.1")
	return t
}

// strike is a whole fault: applied at from, confirmed, and over at to. It is aimed at the epoch, or at nobody's ("").
func (t *tape) strike(from, to float64, name, id string, f history.Fault) {
	t.inject(from, name, id, f)
	t.fault(from+ms, from+2*ms, history.FaultConfirmed, name, id)
	t.lift(to, name, id)
}

// inject applies a fault.
func (t *tape) inject(at float64, name, id string, f history.Fault) {
	f.ID, _, _ = strings.Cut(name, "#")
	f.Shot = 1
	if f.Victim == "" && f.Victims == nil && id != "" {
		f.Victim = t.epochs[id].rep
	}
	t.shots[name] = f
	t.fault(at-ms, at-ms, history.FaultResolve, name, id)
	t.fault(at-0.5*ms, at-0.5*ms, history.FaultIntent, name, id)
	t.fault(at, at+ms, history.FaultApplied, name, id)
}

// lift ends a fault and reads that back.
func (t *tape) lift(at float64, name, id string) {
	t.fault(at, at+ms, history.FaultReverted, name, id)
	t.fault(at+ms, at+3*ms, history.FaultVerified, name, id)
}

// miss says that a fault was not felt.
func (t *tape) miss(at float64, name, id, detail string) {
	f := t.shots[name]
	f.Why, f.Detail = "unconfirmed", detail
	t.shots[name] = f
	t.fault(at, at, history.FaultVoid, name, id)
	f.Why, f.Detail = "", ""
	t.shots[name] = f
}

// take is a job up to its work.
func (t *tape) take(at float64, rep string, n int, id string, fence int64) {
	job := fmt.Sprintf("j%d", n)
	t.offer(at-5*ms, jobs(n), job, rep)
	t.grant(at, rep, jobs(n), id, fence)
	t.look(at+3*ms, jobs(n), id, 60)
	t.begin(at+2*ms, id, job)
}

// renewTimeout is a renewal that is not answered within its 2 s, and says nothing of a fault: a client does not know.
func (t *tape) renewTimeout(at float64, id string) {
	t.call(at, 2, t.epochs[id], "renew", history.Unknown, history.Call{Result: history.ResultError, Err: "timeout"})
}

// hitOnTheWay is an operation of the epoch that the proxy made fail.
func (t *tape) hitOnTheWay(at float64, shot, id string) {
	e := t.epochs[id]
	f := t.shots[shot]
	t.add(at, at+ms, history.Event{Kind: history.FaultHit, Lock: e.lock, Key: e.key, Epoch: e.id, Op: shot, Fault: &f})
}

// lookAgain is the first look after a gap that had begun at last: the key is gone.
func (t *tape) lookAgain(last, at float64, w want) {
	t.look(at, w, "", 0)
	t.events[len(t.events)-1].Look.Prev = &history.Span{From: ns(last), To: ns(last + ms)}
}

// blind makes the key probe look away between the two seconds.
func (t *tape) blind(from, to float64) {
	var kept []history.Event
	for _, ev := range t.events {
		c := ev.Coverage
		if c == nil || c.Probe != experiments.ProbeKeys || ev.To <= ns(from) || ev.From >= ns(to) {
			kept = append(kept, ev)
			continue
		}
		for _, part := range []history.Span{{From: ev.From, To: ns(from)}, {From: ns(to), To: ev.To}} {
			if part.From < part.To {
				piece := ev
				piece.Span = part
				kept = append(kept, piece)
			}
		}
	}
	t.events = kept
	t.add(from, to, history.Event{Kind: history.GapKind, Source: "probe:" + experiments.ProbeKeys, Coverage: &history.Coverage{Probe: experiments.ProbeKeys, Why: "connection refused"}})
}

// newLife is the store's, noticed by its run id or by the marker.
func (t *tape) newLife(from, to float64, why string) {
	t.add(from, to, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", RunID: "b", Life: 2, Why: why}})
}

// pauseLong: the holder stands still from 20 s to 110 s, past its lease; another finishes the job; then it writes before its timers
// get to run.
func pauseLong(refused string) *tape {
	return struck("the holder of a job is stopped for 90 s, and writes when it goes on", 115, 260, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(20, 110, "stop#1", "a1", history.Fault{Kind: "pause", Declared: 90e9, Expected: 90e9, Observed: 90_001e6})
		t.refuse(40, "r2.1", jobs(1), "a1")
		t.look(70.004, jobs(1), "", 0)
		t.job(72, 3, "r2.1", jobs(1), "b1", "j1", 12)
		t.write(110.01, "a1", "j1", "succeeded", refused)
		t.fence(110.02, "a1", "deadline", true)
		t.exit(110.03, "a1", "j1", "fenced")
		t.skipRelease(110.031, "a1", "after_abandon")
	})
}

// pauseShort: the holder stands still for 5 s and goes on renewing.
func pauseShort() *tape {
	return struck("the holder of a job is stopped for 5 s, well within its lease", 50, 200, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(20, 25, "stop#1", "a1", history.Fault{Kind: "pause", Declared: 5e9, Expected: 5e9, Observed: 5_001e6})
		t.refuse(22, "r2.1", jobs(1), "a1")
		t.renew(30, "a1")
		t.finish(45, "a1", "j1")
		t.look(45.004, jobs(1), "", 0)
	})
}

// slowWay: everybody's way to the store is slow for a minute, or was meant to be. Renewals take longer, and that is all.
func slowWay(felt bool) *tape {
	return struck("latency of 400 ms on all ways for a minute", 80, 230, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		f := history.Fault{Kind: "latency", Form: "downstream", Victims: []string{"r1.1", "r2.1"}, Configured: "+400ms ± 50ms downstream",
			Declared: 60e9, Baseline: 200e3, Expected: 350e6, Observed: 412e6}
		took := 0.412
		if !felt {
			f.Observed, took = 210e3, ms
		}
		if felt {
			t.strike(20, 80, "slow#1", "", f)
		} else {
			t.inject(20, "slow#1", "", f)
			t.miss(20.3, "slow#1", "", "the round trip of r1 through the proxy took 210us, at least 350ms were expected")
			t.lift(20.4, "slow#1", "")
		}
		e := t.epochs["a1"]
		for _, at := range []float64{30, 50} {
			t.call(at, took, e, "renew", history.OK, history.Call{Result: history.ResultRenewed})
		}
		try := &taped{lock: e.lock, key: e.key, id: t.op("try"), rep: "r2.1", ttl: 60}
		t.call(40, took, try, "acquire", history.Fail, history.Call{Result: history.ResultHeld, Holder: "a1", PTTL: 1e9})
		t.finish(60, "a1", "j1")
		t.look(60.004, jobs(1), "", 0)
	})
}

// wayBurst: three renewals of the holder are to time out on the way; so many do. A client that gives up by its deadline stops in time.
func wayBurst(hits int) *tape {
	return struck(fmt.Sprintf("three renewals are to fail on the way to the store, %d do", hits), 85, 230, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.inject(20, "burst#1", "a1", history.Fault{Kind: "renew_failures", Form: "timeout", Via: "proxy", Want: 3, Declared: 88e9})
		t.refuse(40, "r2.1", jobs(1), "a1")
		for i := range hits {
			t.hitOnTheWay(30.001+18*float64(i), "burst#1", "a1")
			t.renewTimeout(30+18*float64(i), "a1")
		}
		if hits < 3 {
			t.renew(67, "a1")
			t.finish(75, "a1", "j1")
			t.look(75.004, jobs(1), "", 0)
			t.miss(80, "burst#1", "a1", fmt.Sprintf("the burst hit %d of 3 renewals", hits))
			t.lift(80.1, "burst#1", "a1")
			return
		}
		f := t.shots["burst#1"]
		f.Hits = 3
		t.shots["burst#1"] = f
		t.fault(30.001, 66.002, history.FaultConfirmed, "burst#1", "a1")
		t.lift(66.1, "burst#1", "a1")
		t.fence(68.2, "a1", "deadline", true)
		t.exit(68.21, "a1", "j1", "fenced")
		t.skipRelease(68.211, "a1", "after_abandon")
		t.look(70.004, jobs(1), "", 0)
		t.job(75, 3, "r2.1", jobs(1), "b1", "j1", 12)
	})
}

// blackHole: nothing of the holder's gets through for 80 s. A deadline stops its work before the lease ends; a count of three, each
// of which waits for its timeout, after it.
func blackHole(standard bool) *tape {
	return struck("nothing of the holder's gets through to the store", 105, 260, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(20, 100, "hole#1", "a1", history.Fault{Kind: "black_hole", Declared: 80e9, Baseline: 200e3})
		t.refuse(40, "r2.1", jobs(1), "a1")
		stop, reason := 74.1, "count"
		if standard {
			stop, reason = 68.2, "deadline"
		}
		for _, at := range []float64{30, 50, 72} {
			if at < stop {
				t.renewTimeout(at, "a1")
			}
		}
		t.fence(stop, "a1", reason, true)
		t.exit(stop+10*ms, "a1", "j1", "fenced")
		t.skipRelease(stop+11*ms, "a1", "after_abandon")
		t.look(70.004, jobs(1), "", 0)
		t.job(71, 3, "r2.1", jobs(1), "b1", "j1", 12)
	})
}

// storeRestart: the locks' store is killed and comes back empty; another gets the key while its holder works on, until its next
// renewal.
func storeRestart() *tape {
	t := struck("the locks' store is restarted and has lost its data", 60, 210, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(20, 20.3, "restart#1", "", history.Fault{Kind: "store", Form: "restart", Victim: history.VictimStore})
		t.newLife(19.95, 20.32, "run_id_changed")
		t.lookAgain(19.98, 20.404, jobs(1))
		t.job(21, 6, "r2.1", jobs(1), "b1", "j1", 1_700_000)
		t.renewGone(30, "a1", history.ResultAbsent)
		t.fence(30.002, "a1", "not_owned", true)
		t.exit(30.01, "a1", "j1", "fenced")
		t.skipRelease(30.011, "a1", "after_abandon")
	})
	t.blind(19.99, 20.4)
	return t
}

// failover: the primary dies before its last grant was replicated. Another replica is granted the same key, with a fence that the
// resource has seen: it refuses the rightful owner.
func failover() *tape {
	t := struck("a fail-over to a replica that lags: the key is granted twice", 60, 210, func(t *tape) {
		t.take(19.8, "r1.1", 1, "a1", 51)
		t.strike(20, 20.3, "failover#1", "", history.Fault{Kind: "store", Form: "failover", Victim: history.VictimStore, Configured: "lag 500ms"})
		t.newLife(19.95, 20.32, "run_id_changed")
		t.lookAgain(19.98, 20.404, jobs(1))
		t.offer(20.9, jobs(1), "j1", "r2.1")
		t.grant(21, "r2.1", jobs(1), "b1", 40)
		t.look(21.004, jobs(1), "b1", 60)
		t.enter(21.002, "b1", "j1")
		t.write(21.003, "b1", "j1", history.StateBegin, history.ReasonFenced)
		t.exit(21.01, "b1", "j1", "refused")
		t.release(21.02, "b1")
		t.look(21.024, jobs(1), "", 0)
		t.write(28.995, "a1", "j1", "succeeded", "")
		t.exit(28.999, "a1", "j1", "done")
		t.releaseGone(29, "a1", history.ResultAbsent)
	})
	t.blind(19.99, 20.4)
	return t
}

// keyVanishes: the key is deleted under its holder, which learns of it at its next renewal. By then another works, or not.
func keyVanishes(taken bool) *tape {
	return struck("a lock key vanishes under its holder", 60, 210, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(25, 25.002, "vanish#1", "a1", history.Fault{Kind: "delete_key", Form: "vanish"})
		t.look(25.004, jobs(1), "", 0)
		back := 42.0
		if taken {
			back = 26
		} else {
			t.refuse(24.9, "r2.1", jobs(1), "a1")
		}
		t.renewGone(30, "a1", history.ResultAbsent)
		t.fence(30.002, "a1", "not_owned", true)
		t.exit(30.01, "a1", "j1", "fenced")
		t.skipRelease(30.011, "a1", "after_abandon")
		t.job(back, 10, "r2.1", jobs(1), "b1", "j1", 12)
	})
}

// keyStranger: the key carries a stranger's token for 10 s.
func keyStranger() *tape {
	return struck("a lock key is given to a stranger under its holder", 60, 210, func(t *tape) {
		t.take(10, "r1.1", 1, "a1", 11)
		t.strike(25, 35, "stranger#1", "a1", history.Fault{Kind: "delete_key", Form: "stranger", Declared: 10e9})
		t.look(25.004, jobs(1), "stranger", 60)
		t.refuse(28, "r2.1", jobs(1), "stranger")
		t.renewGone(30, "a1", history.ResultOther)
		t.fence(30.002, "a1", "not_owned", true)
		t.exit(30.01, "a1", "j1", "fenced")
		t.skipRelease(30.011, "a1", "after_abandon")
		t.look(35.004, jobs(1), "", 0)
		t.job(50, 5, "r2.1", jobs(1), "b1", "j1", 12)
	})
}

// releasesFail: the releases of 6 keys fail for half a minute, each of them wanted by another job's worth of work. Left to their TTL
// they are owed for a minute; tried again, until the burst is over.
func releasesFail(again bool) *tape {
	return struck("the releases of 6 keys fail at once", 45, 260, func(t *tape) {
		t.inject(15, "burst#1", "", history.Fault{Kind: "release_failures", Form: "error", Via: "worker", Victims: []string{"r1.1", "r2.1"}, Declared: 15e9})
		for i := 1; i <= 6; i++ {
			id, at := fmt.Sprintf("a%d", i), 10+float64(i)*0.02
			t.work(at, 8, "r1.1", i, id, int64(100+i))
			t.releaseHit(at+8.001, id, "burst#1")
			free := at + 60
			if again {
				t.release(at+21, id)
				free = at + 21
			}
			t.refuse(at+11, "r2.1", jobs(i), id)
			t.look(free+4*ms, jobs(i), "", 0)
			next, job := fmt.Sprintf("b%d", i), fmt.Sprintf("j%d", i)
			t.grant(free+1, "r2.1", jobs(i), next, int64(200+i))
			t.begin(free+1+2*ms, next, job)
			t.exit(free+1+5*ms, next, job, "skipped")
			t.release(free+1+6*ms, next)
		}
		f := t.shots["burst#1"]
		f.Hits = 6
		t.shots["burst#1"] = f
		t.fault(18.021, 30, history.FaultConfirmed, "burst#1", "")
		for _, r := range []string{"r1.1", "r2.1"} { // each says when it is over in itself
			own := t.shots["burst#1"]
			own.Hits = map[string]int64{"r1.1": 6}[r]
			t.add(30, 30, history.Event{Kind: history.FaultReverted, Source: r, Op: "burst#1", Fault: &own})
		}
		t.fault(30, 30.002, history.FaultVerified, "burst#1", "")
	})
}

// releaseHit is a release that a burst in the replica made fail.
func (t *tape) releaseHit(at float64, id, shot string) {
	e := t.epochs[id]
	t.call(at, 0, e, "release", history.Fail, history.Call{Result: history.ResultError, Err: "injected", Fault: shot})
	hit := e.event(history.FaultHit, shot)
	f := t.shots[shot]
	hit.Fault = &f
	t.add(at, at, hit)
}

// repliesLost: the replies of acquires are dropped on the way. The key that nobody knows to hold is given back at once, or left.
func repliesLost(undone bool) *tape {
	return struck("the replies of acquires are lost on the way", 60, 230, func(t *tape) {
		t.take(10, "r2.1", 2, "a2", 21)
		t.inject(15, "lost#1", "", history.Fault{Kind: "acquire_failures", Form: "lost_reply", Via: "proxy", Want: 1, Declared: 20e9, Victims: []string{"r1.1", "r2.1"}})
		t.offer(15.9, jobs(1), "j1", "r1.1")
		t.lostGrant(16, "r1.1", jobs(1), "lost")
		t.hitOnTheWay(16, "lost#1", "lost")
		f := t.shots["lost#1"]
		f.Hits = 1
		t.shots["lost#1"] = f
		t.fault(16, 16.002, history.FaultConfirmed, "lost#1", "")
		t.lift(16.1, "lost#1", "")
		t.look(16.004, jobs(1), "lost", 60)
		free := 76.004
		if undone {
			t.undo(18.001, "lost")
			free = 18.004
		} else {
			t.refuse(46, "r2.1", jobs(1), "lost")
		}
		t.look(free, jobs(1), "", 0)
		t.finish(20, "a2", "j2")
		t.look(20.004, jobs(2), "", 0)
		t.job(free+1, 3, "r1.1", jobs(1), "a1", "j1", 12)
	})
}
