package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// told are the facts of a tape under one lock, whatever contradicts itself in it.
func told(t *testing.T, l experiments.Lock, play func(*tape)) *Facts {
	t.Helper()
	tp := newTape("told")
	tp.start(0.1, "r1.1", "r2.1")
	play(tp)
	return FactsOf(&experiments.Experiment{TimeScale: 1, System: experiments.System{Locks: []experiments.Lock{l}}}, tp.history(t))
}

// left adds to the last look what the one before it showed to be left of the lease.
func (t *tape) left(pttl float64) {
	t.events[len(t.events)-1].Look.PrevPTTL = ns(pttl)
}

// upkeep is a lock whose keys last 3 s and are given back within 0.2 s.
var upkeep = experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: lockcore.Policy{TTL: 3 * time.Second, OpTimeout: 200 * time.Millisecond, StopBudget: 100 * time.Millisecond}}

func brief(n int) want { w := jobs(n); w.ttl = 3; return w }

// A release that is claimed and did not happen: what the looks show ends the lease, and is the debt.
func TestAReleaseThatDidNotHappen(t *testing.T) {
	worked := func(tp *tape) {
		tp.grant(10, "r1.1", brief(1), "a", 1)
		tp.look(10.003, brief(1), "a", 3)
		tp.begin(10.002, "a", "j1")
		tp.exit(11, "a", "j1", "done")
	}
	for _, c := range []struct {
		name   string
		play   func(*tape)
		says   string
		lo, hi float64 // of the debt; 0: none
	}{
		{"it did happen", func(tp *tape) { worked(tp); tp.release(11.001, "a"); tp.look(11.004, brief(1), "", 0) }, "", 0, 0},
		{"it did, and the next look came late", func(tp *tape) { worked(tp); tp.release(11.001, "a"); tp.look(11.15, brief(1), "", 0); tp.prev(11.0005) }, "", 0, 0},
		{"it did not", func(tp *tape) { worked(tp); tp.release(11.001, "a"); tp.look(13.004, brief(1), "", 0) },
			"the holder says that it gave back epoch a, but the probe still saw it 2s later", 1.999, 2.005},
		{"it did not, for a moment", func(tp *tape) { worked(tp); tp.release(11.001, "a"); tp.look(11.052, brief(1), "", 0) }, "still saw it 45ms later", 0.047, 0.053},
		{"another has it next", func(tp *tape) {
			worked(tp)
			tp.release(11.001, "a")
			tp.look(13.004, brief(1), "b", 3)
			tp.grant(13.003, "r2.1", brief(1), "b", 2)
		}, "still saw it 2s later", 1.999, 2.005},
		{"it says that the key was gone", func(tp *tape) {
			worked(tp)
			tp.releaseGone(11.001, "a", history.ResultAbsent)
			tp.look(13.004, brief(1), "", 0)
		}, "the holder says that it was told that epoch a is gone, but the probe still saw it 2s later", 1.999, 2.005},
		{"it was gone", func(tp *tape) {
			worked(tp)
			tp.look(10.9, brief(1), "", 0)
			tp.releaseGone(11.001, "a", history.ResultAbsent)
		}, "vanished by T+10.9s with [2.102, 2.108]s of its lease left", 0, 0},
		{"the store forgot it", func(tp *tape) {
			worked(tp)
			tp.release(11.001, "a")
			tp.newLife(11.1, 11.2, "run_id_changed")
			tp.look(13.004, brief(1), "", 0)
		}, "", 0, 0},
	} {
		ix := told(t, upkeep, c.play)
		ix.says(t, c.name, c.says)
		ds := ix.DebtsOf("job").List
		switch {
		case c.hi == 0 && len(ds) > 0:
			t.Errorf("%s: %+v, want no debt", c.name, ds)
		case c.hi > 0 && (len(ds) != 1 || ds[0].Cause != "release_failed" || apart(facts.Seconds(ds[0].Time.Lo), c.lo) > 1e-6 || apart(facts.Seconds(ds[0].Time.Hi), c.hi) > 1e-6):
			t.Errorf("%s: %+v, want one of %g to %g s", c.name, ds, c.lo, c.hi)
		}
	}
}

// prev sets when the look before the last one ended.
func (t *tape) prev(at float64) {
	t.events[len(t.events)-1].Look.Prev = &history.Span{From: ns(at - ms), To: ns(at)}
}

// says holds what contradicts itself against the one sentence that is to say so; "" = nothing does.
func (ix *Facts) says(t *testing.T, name, want string) {
	t.Helper()
	var whats []string
	for _, f := range ix.Findings {
		whats = append(whats, f.What)
		if len(f.Evidence) == 0 {
			t.Errorf("%s: %q has no evidence", name, f.What)
		}
	}
	if want == "" && len(whats) > 0 || want != "" && (len(whats) != 1 || !strings.Contains(whats[0], want)) {
		t.Errorf("%s: findings %q, want %q", name, whats, want)
	}
}

// Still at the final look: nobody knows how long the debt was.
func TestAReleaseThatNeverHappens(t *testing.T) {
	ix := told(t, upkeep, func(tp *tape) {
		tp.grant(10, "r1.1", brief(1), "a", 1)
		tp.look(10.003, brief(1), "a", 3)
		tp.begin(10.002, "a", "j1")
		tp.exit(11, "a", "j1", "done")
		tp.release(11.001, "a")
		tp.look(12, brief(1), "a", 2)
		last := tp.events[len(tp.events)-1].Look
		last.Final, last.Prev = true, nil
	})
	ix.says(t, "final look", "still saw it 998ms later")
	if ds := ix.DebtsOf("job").List; len(ds) != 1 || ds[0].Time != (facts.Dur{Lo: ns(1), Hi: facts.Open}) {
		t.Errorf("debts %+v, want one of at least 1 s", ds)
	}
}

// Renewals that are claimed and were never sent: the lease ends when it runs out, and so does what the client may rely on.
func TestRenewalsThatDidNotHappen(t *testing.T) {
	work := func(tp *tape, until float64, renewals ...float64) {
		tp.grant(10, "r1.1", brief(1), "a", 1)
		tp.look(10.003, brief(1), "a", 3)
		tp.begin(10.002, "a", "j1")
		for _, at := range renewals {
			tp.renew(at, "a")
		}
		tp.exit(until, "a", "j1", "done")
	}
	for _, c := range []struct {
		name    string
		play    func(*tape)
		says    string
		refuted int
		unowned float64 // s of work past the lease's end, at least
	}{
		{"they did", func(tp *tape) {
			work(tp, 14, 11, 12, 13)
			for _, at := range []float64{11.003, 12.003, 13.003} {
				tp.look(at, brief(1), "a", 3)
				tp.left(1.998)
			}
			tp.release(14.001, "a")
			tp.look(14.004, brief(1), "", 0)
			tp.left(1.999)
		}, "", 0, 0},
		{"the lease runs down", func(tp *tape) {
			work(tp, 12.9, 11, 12)
			tp.release(12.901, "a")
			tp.look(12.904, brief(1), "", 0)
			tp.left(0.1)
		}, "the holder says that 2 renewals of epoch a succeeded, but the probe saw 100ms left of it at T+12.9s, where they leave at least 2.1s", 2, 0},
		{"all but the last", func(tp *tape) {
			work(tp, 13.9, 11, 12)
			tp.renew(12.5, "a")
			tp.look(12.504, brief(1), "a", 3)
			tp.left(0.5)
			tp.release(13.901, "a")
			tp.look(13.904, brief(1), "", 0)
			tp.left(1.6)
		}, "2 renewals", 2, 0},
		{"the lease runs out", func(tp *tape) {
			work(tp, 15, 11, 12, 14)
			tp.look(13.004, brief(1), "", 0)
			tp.left(0.003)
		}, "the holder says that 3 renewals of epoch a succeeded, but the probe saw 3ms left of it", 3, 1.99},
		{"it has run out, and nobody knows what was left", func(tp *tape) {
			work(tp, 15, 14)
			tp.look(13.004, brief(1), "", 0)
		}, "the probe saw the key carry nothing meanwhile", 1, 1.99},
		{"somebody else took the key away", func(tp *tape) {
			work(tp, 12.5, 11, 12)
			tp.look(11.004, brief(1), "a", 3)
			tp.left(1.999)
			tp.look(12.003, brief(1), "a", 3)
			tp.left(2)
			tp.look(12.204, brief(1), "", 0)
			tp.left(2.803)
			tp.renewGone(12.4, "a", history.ResultAbsent)
		}, "vanished by T+12.2s with [2.798, 2.804]s of its lease left", 0, 0.29},
	} {
		ix := told(t, upkeep, c.play)
		ix.says(t, c.name, c.says)
		e := ix.Keys[brief(1).key].Find("a")
		refuted := 0
		for _, r := range e.Renewals {
			refuted += b2i(r.Refuted)
		}
		if u := ix.UnownedWork(e); refuted != c.refuted || facts.Seconds(u.Lo) < c.unowned || c.unowned == 0 && u.Lo > 0 {
			t.Errorf("%s: %d renewals refuted, %s of work unowned; want %d, and at least %gs", c.name, refuted, u, c.refuted, c.unowned)
		}
		if l, ok := ix.FenceLag(e); !ok || (l.Lo > 0) != slices.Contains([]string{"the lease runs out", "it has run out, and nobody knows what was left"}, c.name) {
			t.Errorf("%s: fence lag %+v", c.name, l)
		}
	}
}
