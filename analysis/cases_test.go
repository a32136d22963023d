package analysis

import (
	"fmt"

	"github.com/lockdrill/lockdrill/history"
)

// cases are the recorded histories of scenarios/testdata, each written by its tape. The experiment beside a history says what
// was promised; the golden verdict is reviewed by hand.
var cases = map[string]func() *tape{
	"good-drill": goodDrill,

	"replica-dies":                     func() *tape { return replicaDies(20, true) },
	"replica-dies-no-look":             func() *tape { return replicaDies(12, false) },
	"ttl-hold-killed-after-grant":      func() *tape { return ttlHold(0.010) },
	"ttl-hold-killed-at-45s":           func() *tape { return ttlHold(45) },
	"ttl-hold-killed-at-45s-too-tight": func() *tape { return ttlHold(45) },
	"pause-90s-fenced":                 func() *tape { return pause90(true) },
	"pause-90s-unfenced":               func() *tape { return pause90(false) },
	"flush-in-holds":                   func() *tape { return flush(true) },
	"flush-in-holds-fence-lost":        func() *tape { return flush(false) },
	"lost-acquire-reply-undone":        func() *tape { return lostReply(true) },
	"lost-acquire-reply-left":          func() *tape { return lostReply(false) },
	"nobody-wants-it":                  nobodyWants,
	"burst-standard":                   func() *tape { return burst(true) },
	"burst-legacy-count":               func() *tape { return burst(false) },
	"metrics-agree":                    func() *tape { return metrics(1) },
	"metrics-disagree":                 func() *tape { return metrics(0) },
	"readings":                         func() *tape { return readings(false) },
	"readings-odd":                     func() *tape { return readings(true) },
	"effects-read":                     func() *tape { return finished(false, 0) },
	"effects-unread":                   func() *tape { return finished(false, 1) },
	"effects-twice":                    func() *tape { return finished(true, 0) },
	"effects-twice-unread":             func() *tape { return finished(true, 2) },

	"release-in-time":           releaseInTime,
	"release-fails":             releaseFails,
	"release-reply-lost":        releaseReplyLost,
	"not-owned-own-release":     notOwnedOwnRelease,
	"not-owned-renewals":        notOwnedRenewals,
	"not-owned-unanswered":      notOwnedUnanswered,
	"lost-acquire-reply-late":   lostReplyLate,
	"lost-acquire-reply-unseen": lostReplyUnseen,
	"classes-short":             classesShort,
	"classes-long-waits":        classesLongWaits,
	"classes-too-few":           classesTooFew,

	"pause-takeover":         func() *tape { return pauseLong(history.ReasonFenced) },
	"pause-takeover-slow":    func() *tape { return pauseLong(history.ReasonFenced) },
	"pause-unfenced":         func() *tape { return pauseLong("") },
	"pause-belief":           func() *tape { return pauseLong(history.ReasonFenced) },
	"pause-recovery":         pauseShort,
	"latency-felt":           func() *tape { return slowWay(true) },
	"latency-unfelt":         func() *tape { return slowWay(false) },
	"proxy-burst":            func() *tape { return wayBurst(3) },
	"proxy-burst-short":      func() *tape { return wayBurst(2) },
	"black-hole-standard":    func() *tape { return blackHole(true) },
	"black-hole-count":       func() *tape { return blackHole(false) },
	"store-restart-lost":     storeRestart,
	"failover-granted-twice": failover,
	"key-vanishes":           func() *tape { return keyVanishes(false) },
	"key-vanishes-late":      func() *tape { return keyVanishes(true) },
	"key-stranger":           keyStranger,
	"release-failures-ttl":   func() *tape { return releasesFail(false) },
	"release-failures-retry": func() *tape { return releasesFail(true) },
	"acquire-replies-undone": func() *tape { return repliesLost(true) },
	"acquire-replies-left":   func() *tape { return repliesLost(false) },

	"pods-force-delete-overlap": podsForceDelete,
	"pods-crash":                func() *tape { return podsCrash(19.2) },
	"pods-crash-slow":           func() *tape { return podsCrash(24.5) },
	"pods-graceful":             podsGraceful,
	"pods-graceful-ignored":     podsGracefulIgnored,
	"pods-end-not-seen":         podsEndNotSeen,
	"pods-observed-lease":       func() *tape { return podsObserved(1) },
	"pods-observed-lease-late":  func() *tape { return podsObserved(16) },

	"names-come-back":      func() *tape { return namesComeBack(3.2) },
	"names-come-back-late": func() *tape { return namesComeBack(14.7) },
	"token-rolled-back":    func() *tape { return comesBack(true, false) },
	"token-comes-back":     func() *tape { return comesBack(false, false) },
	"rolled-back-twice":    func() *tape { return comesBack(true, true) },
	"gone-early-released":  func() *tape { return goneEarly(false) },
	"gone-early-vanished":  func() *tape { return goneEarly(true) },
	"kept-after-end":       func() *tape { return kept(15.9) },
	"given-back":           func() *tape { return kept(11.1) },
	"written-late":         func() *tape { return written(14, "c1", 15.998) },
	"written-in-time":      func() *tape { return written(10.5, "c1", 15.998) },
	"written-by-nobody":    func() *tape { return written(14, "", 15.998) },
	"written-given-back":   func() *tape { return written(10.5, "c1", 16.05) },
	"believes-on":          func() *tape { return saysSo(16) },
	"believes-no-longer":   func() *tape { return saysSo(12.4) },
	"leader-robbed":        func() *tape { return replaced(14) },
	"leader-resigned":      func() *tape { return replaced(10.9) },
	"leaderless-long":      func() *tape { return vacant(45) },
	"leaderless-short":     func() *tape { return vacant(28.5) },
	"leader-unasked":       func() *tape { return untold(true) },
	"leader-never-said":    func() *tape { return untold(false) },
	"delayed-not-due":      func() *tape { return delayed(100) },
	"delayed-left":         func() *tape { return delayed(8) },
}

var (
	leader = want{"leader", "drill:leader", 6}
	jobs   = func(n int) want { return want{"job", fmt.Sprintf("cordum:scheduler:job:j%d", n), 60} }
)

// goodDrill: a renewed loop and a stream of jobs; the leader is killed twice, the holder of a job once; all goes well.
func goodDrill() *tape {
	t := newTape("a drill in which everything goes as it should")
	t.windows = 20
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	w := want{"job", "", 6}
	key := func(n int) want { w.key = fmt.Sprintf("drill:job:j%d", n); return w }
	t.lead(1, 11.5, "r1.1", "l1", 101)
	t.job(2, 1, "r2.1", key(1), "a1", "j1", 201)
	t.phase(3.5, history.PhaseFaults)
	t.job(4, 1, "r2.1", key(2), "a2", "j2", 202)
	t.offer(10.9, key(3), "j3", "r1.1")
	t.grant(10.91, "r1.1", key(3), "a3", 203)
	t.begin(10.92, "a3", "j3")

	t.kill(11.010, "kill-leader#1", "after_renew", "l1") // the leader holds job j3, too
	t.fault(11.6, 11.6, history.FaultVerified, "kill-leader#1", "l1")
	t.start(11.5, "r1.2")
	for at := 11.2; at < 17; at += 2 {
		t.refuse(at, "r2.1", leader, "l1")
	}
	t.refuse(13, "r2.1", key(3), "a3")
	t.lead(17.2, 32, "r2.1", "l2", 102)
	t.job(18, 0.5, "r2.1", key(3), "a4", "j3", 204)

	t.kill(33.000, "kill-leader#2", "after_renew", "l2")
	t.fault(33.6, 33.6, history.FaultVerified, "kill-leader#2", "l2")
	t.start(33.5, "r2.2")
	for at := 33.2; at < 37; at += 2 {
		t.refuse(at, "r1.2", leader, "l2")
	}
	t.lead(37.3, 80, "r1.2", "l3", 103)

	t.offer(49.9, key(4), "j4", "r2.2")
	t.grant(50, "r2.2", key(4), "a5", 205)
	t.begin(50.002, "a5", "j4")
	t.kill(50.02, "kill-worker#1", "acquired", "a5")
	t.fault(50.6, 50.6, history.FaultVerified, "kill-worker#1", "a5")
	t.start(50.5, "r2.3")
	t.refuse(53, "r1.2", key(4), "a5")
	t.job(57, 1, "r1.2", key(4), "a6", "j4", 206)
	t.finale(60, 80, "r1.2", "r2.3")
	return t
}

// begun is a drill of jobs up to its faults: two replicas, and a job that is done.
func begun(says string) *tape {
	t := newTape(says)
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	t.job(1, 2, "r2.1", jobs(0), "s0", "j0", 1)
	t.phase(5, history.PhaseFaults)
	return t
}

// replicaDies: one replica holds n job locks and is killed: 3 jobs are finished, 5 were worked and not written, the others are
// being worked on, with few events for a lock. With look, whoever takes a finished job over skips it; without, it is finished again.
func replicaDies(n int, look bool) *tape {
	t := begun(fmt.Sprintf("a replica dies with %d job locks", n))
	for i := 1; i <= n; i++ {
		at := 10 + float64(i)*0.02
		id, job := fmt.Sprintf("a%d", i), fmt.Sprintf("j%d", i)
		t.offer(at-5*ms, jobs(i), job, "r1.1")
		t.grant(at, "r1.1", jobs(i), id, int64(1000+i))
		switch {
		case i <= 3: // finished, and killed before the release
			t.begin(at+2*ms, id, job)
			t.write(19.5, id, job, "succeeded", "")
		case i <= 8:
			t.begin(at+2*ms, id, job)
			t.exit(19.9, id, job, "done")
		default:
			t.enter(at+2*ms, id, job)
		}
	}
	t.killAndReturn(20, "kill-holder#1", "random", "a10", "r1.2")
	for i := 1; i <= n; i++ {
		id, job := fmt.Sprintf("b%d", i), fmt.Sprintf("j%d", i)
		if i%10 == 0 {
			t.refuse(40+float64(i)*0.02, "r2.1", jobs(i), fmt.Sprintf("a%d", i))
		}
		at := 75 + float64(i)*0.02
		t.grant(at, "r2.1", jobs(i), id, int64(2000+i))
		switch {
		case i <= 3 && look:
			t.begin(at+2*ms, id, job)
			t.exit(at+5*ms, id, job, "skipped")
			t.release(at+6*ms, id)
		default:
			t.begin(at+2*ms, id, job)
			t.finish(at+2, id, job)
		}
	}
	t.finale(90, 160, "r1.2", "r2.1")
	return t
}

// ttlHold: the published loop, ttl 60 s, poll 30 s, never renewed; its holder is killed so long after its grant.
func ttlHold(after float64) *tape {
	t := newTape("a ttl_hold loop whose holder is killed")
	w := want{"replayer", "cordum:replayer:pending", 60}
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	hold := func(at float64, rep, id string, fence int64) {
		t.grant(at, rep, w, id, fence)
		t.look(at+2*ms, w, id, 60)
		t.enter(at+2*ms, id, "replayer")
		t.write(at+3*ms, id, "replayer", history.StateBegin, "")
		t.write(at+4*ms, id, "replayer", history.StateTick, "")
	}
	hold(1, "r1.1", "h1", 1)
	t.exit(3, "h1", "replayer", "done")
	t.skipRelease(3, "h1", "ttl_hold")
	t.fence(60.4, "h1", "expired", false)
	t.refuse(31, "r1.1", w, "h1")
	t.look(61.004, w, "", 0)
	t.phase(5, history.PhaseFaults)
	for _, at := range []float64{10, 40} {
		t.refuse(at, "r2.1", w, "h1")
	}
	hold(70, "r2.1", "h2", 2)
	kill := 70 + after
	if after > 2 {
		t.exit(72, "h2", "replayer", "done")
		t.skipRelease(72, "h2", "ttl_hold")
	}
	t.kill(kill, "kill-holder#1", "random", "h2")
	t.start(kill+0.5, "r2.2")
	t.fault(kill+0.6, kill+0.6, history.FaultVerified, "kill-holder#1", "h2")
	t.refuse(91, "r1.1", w, "h2")
	t.refuse(121, "r1.1", w, "h2")
	t.look(130.004, w, "", 0)
	hold(151, "r1.1", "h3", 3)
	t.exit(153, "h3", "replayer", "done")
	t.skipRelease(153, "h3", "ttl_hold")
	t.fence(210.4, "h3", "expired", false)
	t.look(211.004, w, "", 0)
	hold(212, "r1.1", "h4", 4)
	t.exit(214, "h4", "replayer", "done")
	t.skipRelease(214, "h4", "ttl_hold")
	t.fence(271.4, "h4", "expired", false)
	t.look(272.004, w, "", 0)
	t.finale(160, 290, "r1.1", "r2.2")
	return t
}

// pause90: the holder of a job lock stands still for 90 s, longer than its lease; another finishes the job; then it goes on. The
// drill's own fault, a kill, comes later and hits another job.
func pause90(fenced bool) *tape {
	t := begun("a holder is paused for 90 s with a ttl of 60 s")
	t.offer(9.9, jobs(1), "j1", "r1.1")
	t.grant(10, "r1.1", jobs(1), "a1", 11)
	t.begin(10.002, "a1", "j1")
	t.shot("freeze#1", "pause", "", "r1.1")
	t.fault(20, 20+ms, history.FaultApplied, "freeze#1", "a1")
	t.fault(20, 20+2*ms, history.FaultConfirmed, "freeze#1", "a1")
	t.refuse(40, "r2.1", jobs(1), "a1")
	t.job(72, 3, "r2.1", jobs(1), "b1", "j1", 12)
	t.fault(110, 110+ms, history.FaultReverted, "freeze#1", "a1")
	t.fault(110, 110+2*ms, history.FaultVerified, "freeze#1", "a1")
	refused := ""
	if fenced {
		refused = history.ReasonFenced
	}
	t.write(110.01, "a1", "j1", "succeeded", refused) // before its timers get to run
	t.renewGone(110.02, "a1", history.ResultAbsent)
	t.fence(110.021, "a1", "not_owned", true)
	t.exit(110.03, "a1", "j1", "fenced")
	t.offer(114.9, jobs(2), "j2", "r1.1")
	t.grant(115, "r1.1", jobs(2), "a2", 13)
	t.begin(115.002, "a2", "j2")
	t.killAndReturn(120, "kill-holder#1", "random", "a2", "r1.2")
	t.refuse(150, "r2.1", jobs(2), "a2")
	t.job(180, 3, "r2.1", jobs(2), "b2", "j2", 14)
	t.finale(190, 260, "r1.2", "r2.1")
	return t
}

// flush: the locks' store forgets everything while a loop's lock is held; another replica gets it at once. Whether the fence
// survives (max of the last and the store's clock) or starts again at 1 makes the difference.
func flush(survives bool) *tape {
	t := newTape("the locks' store is flushed in the middle of holds")
	w := leader
	fence2, fence3 := int64(200), int64(300)
	if !survives {
		fence2, fence3 = 1, 2
	}
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	t.grant(1, "r1.1", w, "l1", 100)
	t.enter(1.002, "l1", "leader")
	t.write(1.003, "l1", "leader", history.StateBegin, "")
	t.write(1.004, "l1", "leader", history.StateTick, "")
	t.exit(1.1, "l1", "leader", "done")
	t.renew(3, "l1")
	t.tick(3.01, 0.05, "l1", "leader")
	t.phase(4, history.PhaseFaults)
	t.renew(5, "l1")
	t.tick(5.01, 0.05, "l1", "leader")
	t.add(5.5, 5.502, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", RunID: "x", Life: 2, Why: "marker_lost"}})
	t.grant(5.9, "r2.1", w, "l2", fence2)
	t.enter(5.902, "l2", "leader")
	refused := ""
	if !survives {
		refused = history.ReasonFenced
	}
	t.write(5.903, "l2", "leader", history.StateBegin, refused)
	t.write(5.904, "l2", "leader", history.StateTick, refused)
	t.exit(5.95, "l2", "leader", "done")
	t.renewGone(7, "l1", history.ResultOther)
	t.fence(7.001, "l1", "not_owned", false)
	for at := 7.5; at < 20; at += 2 {
		t.renew(at, "l2")
		t.enter(at+10*ms, "l2", "leader")
		t.write(at+11*ms, "l2", "leader", history.StateTick, refused)
		t.exit(at+50*ms, "l2", "leader", "done")
	}
	t.killAndReturn(20, "kill-leader#1", "random", "l2", "r2.2")
	t.refuse(22, "r1.1", w, "l2")
	t.refuse(24, "r1.1", w, "l2")
	t.grant(26, "r1.1", w, "l3", fence3)
	t.enter(26.002, "l3", "leader")
	t.write(26.003, "l3", "leader", history.StateBegin, refused)
	t.write(26.004, "l3", "leader", history.StateTick, refused)
	t.exit(26.05, "l3", "leader", "done")
	for at := 28.0; at < 50; at += 2 {
		t.renew(at, "l3")
		t.enter(at+10*ms, "l3", "leader")
		t.write(at+11*ms, "l3", "leader", history.StateTick, refused)
		t.exit(at+50*ms, "l3", "leader", "done")
	}
	t.finale(30, 50, "r1.1", "r2.2")
	return t
}

// lostReply: the reply of an acquire is lost, and the client tries again with a new token. Either it first gives the lost one
// back, or the key stays taken by nobody until its TTL.
func lostReply(undone bool) *tape {
	t := begun("the reply of an acquire is lost, the retry has a new token")
	w := jobs(1)
	t.offer(9.9, w, "j1", "r1.1")
	t.lostGrant(10, "r1.1", w, "lost")
	t.look(10.004, w, "lost", 60)
	free := 70.2
	if undone {
		t.undo(12.001, "lost")
		t.look(12.004, w, "", 0)
		free = 12.3
	} else {
		t.refuse(12.01, "r1.1", w, "lost")
		t.refuse(42, "r2.1", w, "lost")
		t.look(70.004, w, "", 0)
	}
	t.job(free, 3, "r1.1", w, "a1", "j1", 12)
	t.offer(79.9, jobs(2), "j2", "r1.1")
	t.grant(80, "r1.1", jobs(2), "a2", 13)
	t.begin(80.002, "a2", "j2")
	t.killAndReturn(85, "kill-holder#1", "random", "a2", "r1.2")
	t.refuse(115, "r2.1", jobs(2), "a2")
	t.job(150, 3, "r2.1", jobs(2), "b2", "j2", 14)
	t.finale(160, 230, "r1.2", "r2.1")
	return t
}

// nobodyWants: the holder of a job is killed, and nobody asks for its key ever again.
func nobodyWants() *tape {
	t := begun("a kill that nobody notices, because nobody wants the lock")
	t.offer(9.9, jobs(1), "j1", "r1.1")
	t.grant(10, "r1.1", jobs(1), "a1", 11)
	t.begin(10.002, "a1", "j1")
	t.killAndReturn(15, "kill-holder#1", "random", "a1", "r1.2")
	t.finale(20, 160, "r1.2", "r2.1")
	return t
}

// burst: all renewals of a holder fail for 70 s. A policy with a deadline stops its work before the lease ends; one that counts
// failures stops after it.
func burst(standard bool) *tape {
	t := newTape("a burst of failing renewals that outlasts the lease")
	w := jobs(1)
	t.start(0.1, "r1.1", "r2.1")
	t.phase(0.2, history.PhaseSteady)
	t.job(1, 2, "r2.1", jobs(0), "s0", "j0", 1)
	t.phase(5, history.PhaseFaults)
	t.offer(9.9, w, "j1", "r1.1")
	t.grant(10, "r1.1", w, "a1", 11)
	t.begin(10.002, "a1", "j1")
	t.shot("burst#1", "renew_failures", "", "r1.1")
	t.fault(20, 20+ms, history.FaultApplied, "burst#1", "a1")
	t.renewHit(30, "a1", "burst#1")
	t.fault(30, 30+ms, history.FaultConfirmed, "burst#1", "a1")
	t.renewHit(50, "a1", "burst#1")
	stop := 72.0
	if standard {
		stop = 68
	}
	t.renewHit(stop-ms, "a1", "burst#1")
	t.fence(stop, "a1", map[bool]string{true: "deadline", false: "count"}[standard], true)
	t.exit(stop+10*ms, "a1", "j1", "fenced")
	t.skipRelease(stop+11*ms, "a1", "after_abandon")
	t.refuse(40, "r2.1", w, "a1")
	t.fault(90, 90+ms, history.FaultReverted, "burst#1", "a1")
	t.fault(90, 90+2*ms, history.FaultVerified, "burst#1", "a1")
	t.job(71, 3, "r2.1", w, "b1", "j1", 12)
	t.finale(95, 230, "r1.1", "r2.1")
	return t
}
