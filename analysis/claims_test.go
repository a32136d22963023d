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

// believing are the rows that lean on what replicas say of a key.
var believing = []string{"overlap.belief", "overlap.work", "overlap.effect", "lock_debt.max", "orphan_acquires", "unowned_work", "fence_lag"}

// testified is a drill that passes all rows that lean on claims, unless body says otherwise; it plays between 10 s and 95 s.
func testified(t *testing.T, body func(*tape)) *verdict.Judgement {
	t.Helper()
	return testifiedBy(t, drilled("claims and evidence", body))
}

func testifiedBy(t *testing.T, tp *tape) *verdict.Judgement {
	t.Helper()
	h := tp.history(t)
	e, _ := load(t, "release-in-time")
	e.System.Worker = []string{"liar"} // one that may write without a comparison of fences
	none, nobody := experiments.AtMost(time.Duration(0)), experiments.AtMost(0)
	e.SLOs = []experiments.SLO{
		{Overlap: &experiments.OverlapLimit{Level: verdict.LevelBelief, Time: *none}}, {Overlap: &experiments.OverlapLimit{Level: verdict.LevelWork, Time: *none}},
		{Overlap: &experiments.OverlapLimit{Level: verdict.LevelEffect, Count: *nobody}}, {LockDebt: &experiments.DebtLimits{Max: experiments.AtMost(time.Second)}},
		{OrphanAcquires: &experiments.CountLimit{Bound: *nobody}}, {UnownedWork: none}, {FenceLag: none},
	}
	for i := range e.SLOs {
		e.SLOs[i].Lock = "job"
	}
	return Judge(e, h)
}

// shown are the rows of j that did not pass, and its findings.
func shown(j *verdict.Judgement) string {
	var lines []string
	for _, r := range j.SLOs {
		if r.Verdict != verdict.Pass {
			lines = append(lines, string(r.Verdict)+" "+r.Measure+": "+r.Why)
		}
	}
	for _, f := range j.Findings {
		lines = append(lines, "finding: "+f.What)
	}
	return strings.Join(lines, "\n")
}

// passes fails the test unless every row passes and nothing is found.
func passes(t *testing.T, name string, j *verdict.Judgement) {
	t.Helper()
	if len(j.SLOs) != len(believing) || shown(j) != "" {
		t.Errorf("%s, innocent: %d rows\n%s", name, len(j.SLOs), shown(j))
	}
}

// found fails the test unless there are as many findings, all with these words, and none of the rows passes.
func found(t *testing.T, name string, j *verdict.Judgement, n int, words string) {
	t.Helper()
	says := func(f verdict.Finding) bool { return strings.Contains(f.What, words) && len(f.Evidence) > 0 }
	if len(j.Findings) != n || !slices.ContainsFunc(j.Findings, says) {
		t.Errorf("%s: %+v, want %d with %q", name, j.Findings, n, words)
	}
	for _, r := range j.SLOs {
		if r.Verdict == verdict.Pass {
			t.Errorf("%s: %s passes", name, r.Measure)
		}
	}
}

// seenJob is a whole job under key n whose token every look shows.
func (t *tape) seenJob(at, took float64, rep string, n int, id, job string, fence int64) {
	t.job(at, took, rep, jobs(n), id, job, fence)
	t.look(at+3*ms, jobs(n), id, 60)
	t.look(at+took+4*ms, jobs(n), "", 0)
}

// A token in a key that nobody claims is found, is an orphan from the first look on, and takes every pass away that leans on claims.
func TestATokenThatNobodyClaims(t *testing.T) {
	for _, c := range []struct {
		name   string
		guilty func(*tape)
		honest func(*tape)
		words  string
	}{
		{"never announced",
			func(tp *tape) { tp.look(30.004, jobs(1), "x", 60); tp.look(30.504, jobs(1), "", 0) },
			func(tp *tape) { tp.seenJob(30, 0.5, "r2.1", 1, "x", "j1b", 12) },
			"which nobody had announced"},
		{"announced as refused",
			func(tp *tape) {
				tp.call(30, ms, &taped{lock: "job", key: jobs(1).key, id: "x", rep: "r2.1"}, "acquire", history.Fail, history.Call{Result: history.ResultHeld})
				tp.look(30.004, jobs(1), "x", 60)
				tp.look(30.504, jobs(1), "", 0)
			},
			func(tp *tape) { tp.refuse(10.5, "r2.1", jobs(1), "a1") },
			"announced as refused"},
		{"an acquire that was open at its caller's death explains one token",
			func(tp *tape) {
				tp.lastWords(30, "r3.1", jobs(1), "unknown-1")
				tp.look(30.004, jobs(1), "x", 60)
				tp.look(40.004, jobs(1), "y", 60)
				tp.look(40.504, jobs(1), "", 0)
			},
			func(tp *tape) {
				tp.lastWords(30, "r3.1", jobs(1), "unknown-1")
				tp.look(30.004, jobs(1), "x", 60)
				tp.look(90.004, jobs(1), "", 0)
			},
			"carried epoch y, which nobody had announced"},
	} {
		play := func(more func(*tape)) *verdict.Judgement {
			return testified(t, func(tp *tape) { tp.seenJob(10, 3, "r1.1", 1, "a1", "j1", 11); more(tp) })
		}
		passes(t, c.name, play(c.honest))
		j := play(c.guilty)
		found(t, c.name, j, 1, c.words)
		if j.Counts.OrphanAcquires != 1 {
			t.Errorf("%s: %d orphans, want 1", c.name, j.Counts.OrphanAcquires)
		}
	}
}

// lastWords is an acquire whose caller died before it was answered.
func (t *tape) lastWords(at float64, rep string, w want, id string) {
	e := &taped{lock: w.lock, key: w.key, id: id, rep: rep, ttl: w.ttl}
	ev := e.event(history.AcquireInvoke, t.op("acquire"))
	ev.Call = &history.Call{TTL: ns(w.ttl)}
	t.add(at, at, ev)
	t.epochs[id] = e
	t.kill(at+ms, "kill-asker#1", "random", id)
}

// Somebody who writes over a token takes the key from its holder, whether a fault struck that one or not; a fault of ours that does it
// is told as what it is.
func TestAStrangersToken(t *testing.T) {
	robbed := func(tp *tape) {
		tp.work(10, 3, "r1.1", 1, "a1", 11)
		tp.look(11.004, jobs(1), "x", 60)
		tp.releaseGone(13+ms, "a1", history.ResultOther)
		tp.look(71.004, jobs(1), "", 0)
	}
	j := testified(t, robbed)
	found(t, "written over", j, 1, "which nobody had announced: it took the key from epoch a1, to which the store still owed 59s")
	theft := func(v verdict.Takeover) bool {
		return v.Class == verdict.ClassTheft && v.Fault == "" && v.Successor == ""
	}
	if !slices.ContainsFunc(j.Takeovers, theft) {
		t.Errorf("no row of the theft: %+v", j.Takeovers)
	}
	planted := testified(t, func(tp *tape) {
		robbed(tp)
		tp.strike(10.999, 71, "gone#1", "a1", history.Fault{Kind: "delete_key", Form: "stranger", Declared: 60e9})
	})
	for _, r := range planted.SLOs { // its holder worked on: that is unowned, and no doubt about what was claimed
		if r.Verdict != verdict.Pass && (r.Verdict != verdict.Fail || r.Measure != "unowned_work" && r.Measure != "overlap.effect") {
			t.Errorf("planted by a fault: %s %s: %s", r.Verdict, r.Measure, r.Why)
		}
	}
	if len(planted.Findings) > 0 || slices.ContainsFunc(planted.Takeovers, theft) {
		t.Errorf("planted by a fault: %+v, %+v", planted.Findings, planted.Takeovers)
	}
}

// A token names one hold. One that comes back after it was gone is found, unless the store had lost it and a standby brought it back.
func TestATokenThatComesBack(t *testing.T) {
	again := func(second string, lost bool) *verdict.Judgement {
		tp := drilled("claims and evidence", func(tp *tape) {
			tp.seenJob(10, 3, "r1.1", 1, "a1", "j1", 11)
			tp.seenJob(30, 3, "r1.1", 1, second, "j1b", 12)
			if lost {
				tp.add(20, 20.1, history.Event{Kind: history.StoreIncarnation, Incarnation: &history.Incarnation{Store: "locks", RunID: "y", Life: 2, Why: "run_id_changed"}})
			}
		})
		return testifiedBy(t, tp)
	}
	passes(t, "a token of its own", again("a2", false))
	j := again("a1", false)
	if !slices.ContainsFunc(j.Findings, func(f verdict.Finding) bool {
		return strings.Contains(f.What, "epoch a1 came back after it had been gone")
	}) {
		t.Errorf("nothing found: %+v", j.Findings)
	}
	for _, r := range j.SLOs {
		if r.Verdict == verdict.Pass {
			t.Errorf("%s passes with a token that came back", r.Measure)
		}
	}
	between := testifiedBy(t, drilled("claims and evidence", func(tp *tape) { // an effect of its second hold, after one of a hold in between
		tp.seenJob(10, 3, "r1.1", 1, "a1", "j1", 0)
		tp.seenJob(20, 3, "r2.1", 1, "b1", "j1b", 0)
		tp.seenJob(30, 3, "r1.1", 1, "a1", "j1c", 0)
	}))
	for _, r := range between.SLOs {
		if r.Verdict == verdict.Fail {
			t.Errorf("%s fails, and nobody knows which hold wrote: %s", r.Measure, r.Why)
		}
	}
	back := again("a1", true)
	if slices.ContainsFunc(back.Findings, func(f verdict.Finding) bool { return strings.Contains(f.What, "came back") }) {
		t.Errorf("held against a standby: %+v", back.Findings)
	}
}

// Where nobody announces who asks, as in a system that is only watched, no token is accused.
func TestATokenWhereNobodyAnnounces(t *testing.T) {
	e, h := load(t, "pods-observed-lease")
	if j := Judge(e, h); len(j.Findings) > 0 || j.Counts.OrphanAcquires > 0 {
		t.Errorf("%+v", j.Findings)
	}
	_, h = load(t, "key-stranger")
	without(h, func(ev *history.Event) bool { return ev.Call != nil })
	e, _ = load(t, "key-stranger")
	for _, f := range Judge(e, h).Findings {
		if strings.Contains(f.What, "announced") {
			t.Errorf("%+v", f)
		}
	}
}
