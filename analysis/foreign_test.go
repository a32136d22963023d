package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// of judges one row of a drill that plays between 10 s and 95 s.
func of(t *testing.T, s experiments.SLO, body func(*tape)) (verdict.SLOResult, *verdict.Judgement) {
	t.Helper()
	h := drilled("one row", body).history(t)
	e, _ := load(t, "release-in-time")
	s.Lock = "job"
	e.SLOs = []experiments.SLO{s}
	j := Judge(e, h)
	return j.SLOs[0], j
}

// Each measure is red for what it is named for, and passes where the one thing is not so.
func TestWhatAStoreThatComparesTokensNeverDoes(t *testing.T) {
	none := &experiments.CountLimit{Bound: *experiments.AtMost(0)}
	taken := func(tp *tape) { // a1's lease runs out, and a2 is granted the key
		tp.job(10, 80, "r1.1", jobs(1), "a1", "j1", 11)
		tp.grant(75, "r2.1", jobs(1), "a2", 12)
		tp.begin(75.002, "a2", "j1")
		tp.exit(80, "a2", "j1", history.AckSkipped)
	}
	// A write under a1 is sent before a2's begin, and the ledger takes it in so long after that.
	written := func(takes float64) func(*tape) {
		return func(tp *tape) {
			tp.grant(10, "r1.1", jobs(1), "a1", 11)
			tp.begin(10.002, "a1", "j1")
			tp.grant(75, "r2.1", jobs(1), "a2", 12)
			tp.write(75.002, "a1", "j1", "half done", "")
			for i := range tp.events[len(tp.events)-2:] {
				tp.events[len(tp.events)-2+i].To += ns(takes)
			}
			tp.begin(75.003, "a2", "j1")
			tp.exit(80, "a2", "j1", history.AckSkipped)
		}
	}
	for _, c := range []struct {
		name             string
		slo              experiments.SLO
		guilty, innocent func(*tape)
	}{
		{"a write that the ledger takes in after one of a later holder", experiments.SLO{StaleWrites: none}, written(3 * ms), written(0)},
		{"release of another's key", experiments.SLO{ForeignReleases: none},
			taken, // its job ends with a release that succeeds
			func(tp *tape) {
				tp.job(10, 50, "r1.1", jobs(1), "a1", "j1", 11)
				tp.job(75, 1, "r2.1", jobs(1), "a2", "j1b", 12)
			}},
		{"renewal of another's key", experiments.SLO{ForeignRenewals: none},
			func(tp *tape) { taken(tp); tp.renew(78, "a1") },
			func(tp *tape) {
				tp.grant(10, "r1.1", jobs(1), "a1", 11)
				tp.grant(75, "r2.1", jobs(1), "a2", 12)
				tp.renew(14, "a1")
				tp.renewGone(78, "a1", history.ResultOther)
			}},
		{"one token for two keys", experiments.SLO{DuplicateEpochs: none},
			func(tp *tape) {
				tp.job(10, 5, "r1.1", jobs(1), "a", "j1", 11)
				tp.job(20, 5, "r1.1", jobs(2), "a", "j2", 12)
			},
			func(tp *tape) {
				tp.job(10, 5, "r1.1", jobs(1), "a", "j1", 11)
				tp.job(20, 5, "r1.1", jobs(2), "b", "j2", 12)
			}},
		{"one token for two holds of a key", experiments.SLO{DuplicateEpochs: none},
			func(tp *tape) {
				tp.job(10, 5, "r1.1", jobs(1), "a", "j1", 11)
				tp.job(20, 5, "r1.1", jobs(1), "a", "j1b", 12)
			},
			func(tp *tape) { // asked again, because the first answer was lost
				tp.lostGrant(10, "r1.1", jobs(1), "a")
				tp.epochs["a"].fence = 11
				tp.call(12.1, ms, tp.epochs["a"], "acquire", history.OK, history.Call{Result: history.ResultGranted})
				tp.release(14, "a")
			}},
	} {
		if r, _ := of(t, c.slo, c.guilty); r.Verdict != verdict.Fail || r.Lo != 1 || len(r.Evidence) == 0 {
			t.Errorf("%s, guilty: %s [%g] %s", c.name, r.Verdict, r.Lo, r.Why)
		}
		if r, _ := of(t, c.slo, c.innocent); r.Verdict != verdict.Pass || *r.Hi != 0 {
			t.Errorf("%s, innocent: %s %g: %s", c.name, r.Verdict, *r.Hi, r.Why)
		}
	}
}

// A release that fails once costs nothing where a second try frees the key; where none does, the key is left to its TTL.
func TestReleasesThatFail(t *testing.T) {
	job := func(n int, tries int, ends func(*tape, float64, string)) func(*tape) {
		return func(tp *tape) {
			id := []string{"a1", "a2"}[n-1]
			at := float64(n) * 10
			tp.offer(at, jobs(n), "j"+id, "r1.1")
			tp.grant(at+.1, "r1.1", jobs(n), id, int64(10+n))
			tp.begin(at+.102, id, "j"+id)
			tp.exit(at+1, id, "j"+id, "done")
			for i := range tries {
				tp.releaseLost(at+1+2.2*float64(i), id)
			}
			if ends != nil {
				ends(tp, at+1+2.2*float64(tries), id)
			}
		}
	}
	free := func(tp *tape, at float64, id string) { tp.release(at, id) }
	lost := func(tp *tape, at float64, id string) {
		tp.call(at, ms, tp.epochs[id], "release", history.Fail, history.Call{Result: history.ResultAbsent})
	}
	share := experiments.AtMost(0.22)
	for _, c := range []struct {
		name            string
		second          func(*tape)
		calls, leases   float64 // shares; two more jobs of the drill release at once
		callsN, leasesN int
	}{
		{"every try fails", job(2, 2, nil), .4, .25, 5, 4},
		{"the second try frees the key", job(2, 1, free), .2, 0, 5, 4},
		{"none fails", job(2, 0, free), 0, 0, 4, 4},
		{"not yours is an answer", job(2, 0, lost), 0, 0, 4, 4},
		{"nothing was sent", job(2, 0, nil), 0, 0, 3, 3},
	} {
		body := func(tp *tape) { job(1, 0, free)(tp); c.second(tp) }
		for _, row := range []struct {
			limits experiments.FailedReleasesLimits
			want   float64
			n      int
		}{{experiments.FailedReleasesLimits{Calls: share}, c.calls, c.callsN}, {experiments.FailedReleasesLimits{GivenUp: share}, c.leases, c.leasesN}} {
			r, _ := of(t, experiments.SLO{FailedReleases: &row.limits}, body)
			want := verdict.Pass
			if row.want > .22 {
				want = verdict.Fail
			}
			if r.Verdict != want || math.Abs(r.Lo-row.want) > 1e-6 || math.Abs(*r.Hi-row.want) > 1e-6 || r.N != row.n {
				t.Errorf("%s: %s %s [%g, %g] of %d, want %g of %d: %s", c.name, r.Measure, r.Verdict, r.Lo, *r.Hi, r.N, row.want, row.n, r.Why)
			}
		}
	}
}

// What counts is how long a holder relied on what it had lost, and how long it took to be rid of what it was done with.
func TestHowSoonAHolderNotices(t *testing.T) {
	lost := func(noticed float64) func(*tape) {
		return func(tp *tape) {
			tp.offer(10, jobs(1), "j1", "r1.1")
			tp.grant(10.1, "r1.1", jobs(1), "a1", 11)
			tp.begin(10.102, "a1", "j1")
			tp.look(10.104, jobs(1), "a1", 60)
			tp.look(20, jobs(1), "", 0) // gone, 50 s before its time
			tp.renewGone(noticed, "a1", history.ResultAbsent)
			tp.fence(noticed+2*ms, "a1", "not_owned", true)
			tp.exit(noticed+3*ms, "a1", "j1", "fenced")
		}
	}
	released := func(tries int) func(*tape) {
		return func(tp *tape) {
			tp.offer(10, jobs(1), "j1", "r1.1")
			tp.grant(10.1, "r1.1", jobs(1), "a1", 11)
			tp.begin(10.102, "a1", "j1")
			tp.exit(12, "a1", "j1", "done")
			for i := range tries {
				tp.releaseLost(12+2.2*float64(i), "a1")
			}
			tp.release(12+2.2*float64(tries), "a1")
		}
	}
	for _, c := range []struct {
		name             string
		slo              experiments.SLO
		guilty, innocent func(*tape)
	}{
		{"relied on for 25 s", experiments.SLO{LossToFence: experiments.AtMost(13 * time.Second)}, lost(45), lost(25)},
		{"tried to release for 22 s", experiments.SLO{Blocked: experiments.AtMost(6 * time.Second)}, released(10), released(1)},
	} {
		if r, _ := of(t, c.slo, c.guilty); r.Verdict != verdict.Fail {
			t.Errorf("%s, guilty: %s [%g] %s", c.name, r.Verdict, r.Lo, r.Why)
		}
		if r, _ := of(t, c.slo, c.innocent); r.Verdict != verdict.Pass || r.Lo <= 0 {
			t.Errorf("%s, innocent: %s [%g] %s", c.name, r.Verdict, r.Lo, r.Why)
		}
	}
	if r, _ := of(t, experiments.SLO{LossToFence: experiments.AtMost(13 * time.Second)}, released(0)); r.Verdict != verdict.Inconclusive || r.Missing[0].Code != verdict.MissingLosses {
		t.Errorf("nothing was lost: %s, %s", r.Verdict, r.Why)
	}
}

// Findings have a code where others decide by them.
func TestFindingsThatOthersDecideBy(t *testing.T) {
	worked := func(tp *tape) {
		tp.offer(10, jobs(1), "j1", "r1.1")
		tp.grant(10.1, "r1.1", jobs(1), "a1", 11)
		tp.begin(10.102, "a1", "j1")
		tp.exit(12, "a1", "j1", "done")
	}
	for _, c := range []struct {
		code             verdict.FindingCode
		guilty, innocent func(*tape)
	}{
		{verdict.FindingRenewedAfterWork,
			func(tp *tape) { worked(tp); tp.releaseLost(12, "a1"); tp.renew(20, "a1") },
			func(tp *tape) { worked(tp); tp.renew(12.5, "a1"); tp.release(13, "a1") }},
		{verdict.FindingNoExpiry,
			func(tp *tape) {
				worked(tp)
				tp.look(10.5, jobs(1), "a1", 59.6)
				tp.events[len(tp.events)-1].Look.PTTL = -1
				tp.release(13, "a1")
			},
			func(tp *tape) { worked(tp); tp.look(10.5, jobs(1), "a1", 59.6); tp.release(13, "a1") }},
	} {
		has := func(body func(*tape)) bool {
			_, j := of(t, experiments.SLO{UnownedWork: experiments.AtMost(time.Duration(0))}, body)
			return slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool { return f.Code == c.code && len(f.Evidence) > 0 })
		}
		if !has(c.guilty) {
			t.Errorf("%s: not found", c.code)
		}
		if has(c.innocent) {
			t.Errorf("%s: found of the innocent", c.code)
		}
	}
}

// A tick that nobody could read may have been the last one before the fault, or come between the two that are known.
func TestAnUnreadTickMakesNoGapLong(t *testing.T) {
	for _, c := range []struct{ unread, least float64 }{{0, 12.479}, {7, 12.479}, {9.5, 0}, {15, 0}} {
		row, _ := scheduled(t, experiments.SLO{TickGap: atMostSeconds(12)}, func(tp foreignTape) {
			tp.schema = 3
			tp.holds(6, 16, pollerKey, "l1", "r1.1")
			tp.effect(6.5, pollerKey, said{token: "l1"})
			tp.effect(7.5, pollerKey, said{token: "l1"})
			tp.holds(19, 0, pollerKey, "l2", "r2.1")
			for at := 20.0; at < 119; at++ {
				tp.effect(at, pollerKey, said{token: "l2"})
			}
			if c.unread > 0 {
				tp.add(c.unread-20*ms, c.unread+ms, history.Event{Kind: history.UnreadKind, Source: "probe:effects:ticks", Unread: &history.Unread{
					Source: "effects:ticks", Count: 1, Reason: history.Unparsable, First: "line 3"}})
			}
		})
		if math.Abs(row.Lo-c.least) > ms {
			t.Errorf("unread at %g: at least %gs, want %gs: %s", c.unread, row.Lo, c.least, row.Why)
		}
	}
}

// A hold may be of several jobs: one that its holder had ended before the fault says nothing of how it got over that.
func TestAJobThatHadEndedIsNoRecovery(t *testing.T) {
	for ends, want := range map[bool]string{false: verdict.ClassPause, true: verdict.ClassRecovery} { // the holder ends its other job as well
		_, j := struckAsWatched(t, somebodys, experiments.SLO{Lock: "job", Takeover: atMostSeconds(5)}, func(tp foreignTape) {
			tp.holds(8, 18, jobKey("1"), "a1", "r1.1")
			tp.effect(8.1, jobKey("1"), said{job: "1", state: "RUNNING", token: "a1"})
			tp.effect(9, jobKey("1"), said{job: "1", state: "DONE", token: "a1"})
			tp.effect(9.5, jobKey("1"), said{job: "2", state: "RUNNING", token: "a1"})
			tp.halt(10, 10.9, "gc#1", "a1")
			if ends {
				tp.effect(15, jobKey("1"), said{job: "2", state: "DONE", token: "a1"})
				return
			}
			tp.holds(19, 21, jobKey("1"), "a2", "r2.1")
			tp.effect(19.1, jobKey("1"), said{job: "2", state: "RUNNING", token: "a2"})
			tp.effect(20, jobKey("1"), said{job: "2", state: "DONE", token: "a2"})
		})
		if len(j.Takeovers) != 1 || j.Takeovers[0].Class != want {
			t.Errorf("want %s: %+v", want, j.Takeovers)
		}
	}
}

// A lock that a library keeps as a hash is called one where its key has no expiry: that is what its owner has to look up.
func TestAHashWithoutExpiryIsCalledOne(t *testing.T) {
	for _, hash := range []bool{false, true} {
		_, j := of(t, experiments.SLO{UnownedWork: experiments.AtMost(time.Duration(0))}, func(tp *tape) {
			tp.offer(10, jobs(1), "j1", "r1.1")
			tp.grant(10.1, "r1.1", jobs(1), "a1", 11)
			tp.look(10.5, jobs(1), "a1", 59.6)
			l := tp.events[len(tp.events)-1].Look
			l.PTTL, l.Hash = -1, hash
		})
		i := slices.IndexFunc(j.Findings, func(f verdict.Finding) bool { return f.Code == verdict.FindingNoExpiry })
		if i < 0 || strings.Contains(j.Findings[i].What, "(the key is a hash)") != hash {
			t.Errorf("hash %v: %+v", hash, j.Findings)
		}
	}
}

// Nobody takes over a key that its dead holder left without an expiry, and the row says so in place of what the timings would allow.
func TestAKeyThatNeverExpiresIsTheCause(t *testing.T) {
	for _, endless := range []bool{false, true} {
		tp := newTape("a leader dies, and nobody follows")
		tp.phase(0.2, history.PhaseFaults)
		tp.hold(1, 10, "r1.1", "a", 1)
		tp.look(1.002, leader, "a", 6)
		if endless {
			tp.events[len(tp.events)-1].Look.PTTL = -1
		}
		tp.kill(10, "kill-leader#1", "random", "a")
		tp.refuse(12, "r2.1", leader, "a")
		tp.finale(40, 60)
		r := row(t, judged(t, tp), "leader", "takeover.max")
		if r.Verdict != verdict.Fail || strings.Contains(r.Why, "had no expiry") != endless || strings.HasPrefix(r.Next, "Set the key and its expiry in one step") != endless {
			t.Errorf("endless %v: %s: %s | %s", endless, r.Verdict, r.Why, r.Next)
		}
	}
}

// A renewal may give less than the first lease had: what the last look showed is owed, and who takes over after that is no thief.
func TestARenewalMayShortenALease(t *testing.T) {
	for _, shown := range []bool{false, true} {
		_, j := struckAsWatched(t, somebodys, experiments.SLO{Lock: "job", Takeover: atMostSeconds(60)}, func(tp foreignTape) {
			tp.holds(6, 0, jobKey("1"), "a1", "r1.1")
			tp.events[len(tp.events)-1].Look.PTTL = ns(30)
			tp.effect(6.5, jobKey("1"), said{job: "1", state: "RUN", op: "a", token: "a1", who: "r1.1"})
			if shown {
				tp.look(9, jobKey("1"), "a1", 10)
				tp.events[len(tp.events)-1].Look.Holder = "r1.1"
			}
			tp.kill(10, "kill-job#1", "random", "a1")
			tp.look(19, jobKey("1"), "", 0)
			tp.holds(20, 30, jobKey("1"), "a2", "r2.1")
			tp.effect(20.5, jobKey("1"), said{job: "1", state: "RUN", op: "b", token: "a2", who: "r2.1"})
			tp.effect(21, jobKey("1"), said{job: "1", state: "DONE", op: "c", token: "a2", who: "r2.1"})
		})
		want := map[bool]string{false: verdict.ClassFalse, true: verdict.ClassCrash}[shown]
		if len(j.Takeovers) != 1 || j.Takeovers[0].Class != want {
			t.Errorf("shown %v: %+v", shown, j.Takeovers)
		}
	}
}

// A key that expires long after its ttl, as one whose expiry was meant in another unit, is the cause of a slow takeover.
func TestALeaseInAnotherUnitIsNamed(t *testing.T) {
	for left, want := range map[float64]string{10: "plus the time until the service tries the job again", 2000: "had 2000s left when it was last seen, and the file says a ttl of 10s"} {
		r, _ := struckAsWatched(t, somebodys, experiments.SLO{Lock: "job", Takeover: atMostSeconds(60)}, func(tp foreignTape) {
			tp.holds(6, 0, jobKey("1"), "a1", "r1.1")
			tp.events[len(tp.events)-1].Look.PTTL = ns(left)
			tp.effect(6.5, jobKey("1"), said{job: "1", state: "RUN", op: "a", token: "a1", who: "r1.1"})
			tp.kill(10, "kill-job#1", "random", "a1")
		})
		if r.Verdict != verdict.Fail || !strings.Contains(r.Why, want) {
			t.Errorf("%gs left: %s: %s", left, r.Verdict, r.Why)
		}
	}
}

// Where nobody took over a job, the advice is not about how many want a lock.
func TestJobsThatNobodyTakesOverShowNoOverlap(t *testing.T) {
	r, _ := struckAsWatched(t, somebodys, experiments.SLO{Lock: "job", Overlap: &experiments.OverlapLimit{Level: verdict.LevelEffect, Count: *experiments.AtMost(0)}}, func(tp foreignTape) {
		tp.holds(6, 16, jobKey("1"), "a1", "r1.1")
		tp.effect(6.5, jobKey("1"), said{job: "1", state: "RUN", op: "a", token: "a1", who: "r1.1"})
		tp.kill(10, "kill-job#1", "random", "a1")
	})
	if r.Verdict != verdict.Inconclusive || !strings.Contains(r.Next, "take the jobs of one that is gone") {
		t.Errorf("%s: %s: %s", r.Verdict, r.Why, r.Next)
	}
}
