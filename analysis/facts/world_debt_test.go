package facts

import (
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// stop ends the work.
func (w *world) stop(rep, id, op string) {
	w.record(rep, history.WorkExit, w.now, w.now, history.Event{Epoch: id, Op: op, Work: &history.Work{Subject: "j", Why: "done"}})
	w.truth[id].done = w.now
}

// giveBack tries to release, again if the answer was lost.
func (w *world) giveBack(rep, id string, tries int, then func()) {
	w.disbelieve(id)
	w.tryRelease(rep, "release", id, tries, true, then)
}

func (w *world) tryRelease(rep, verb, id string, tries int, first bool, then func()) {
	apply := w.release(id)
	w.call(rep, verb, id, func() (string, history.Event) {
		if f := w.truth[id]; first && f != nil {
			f.reached = f.reached || f.granted != Open
		}
		return apply()
	}, func(result string) {
		w.fateOf(id).settled = true
		if result == history.ResultError && tries > 1 {
			w.tryRelease(rep, verb, id, tries-1, false, then)
			return
		}
		then()
	})
}

// orphan is what becomes of an acquire whose answer never came: its caller undoes it, or leaves it.
func (w *world) orphan(rep, id string) {
	f := w.fateOf(id)
	f.orphan, f.done = true, w.now
	if w.r.IntN(2) == 0 {
		w.tryRelease(rep, "undo", id, 2, true, func() {})
	}
}

// owes is the true debt of an epoch: from when until when. open as its end means that it was not over when the world ended.
func (w *world) owes(f *fate) (from, to int64) {
	freed := f.freed
	if f.granted == Open || f.done == Open || f.planned || freed <= f.done {
		return 0, 0
	}
	if died, dead := w.died[f.holder]; dead && !f.settled && died-f.done <= worldFlight {
		return 0, 0
	}
	if f.reached && freed-f.done <= worldFlight { // release latency
		return 0, 0
	}
	return f.done, freed
}

// waits are the true stretches in which the key was wanted: from each refusal to the next grant that somebody was told of.
func (w *world) waits() []stretchOf {
	var ss []stretchOf
	var last int64
	for _, r := range w.refused {
		last = max(last, r)
	}
	for _, r := range w.refused {
		until := int64(Open)
		for _, g := range w.served {
			if g > r {
				until = min(until, g)
			}
		}
		if until == Open {
			until = last
		}
		ss = append(ss, stretchOf{r, until, 0})
	}
	return merged(ss)
}

// debtsSeen counts what the property was tried on.
type debtsSeen struct {
	surely, waited, orphans int
	causes                  map[string]int
}

func (s *debtsSeen) enough(t *testing.T) {
	t.Helper()
	t.Logf("%d debts surely there, %d with a waiter, %d orphans, %v", s.surely, s.waited, s.orphans, s.causes)
	for _, cause := range []string{CauseFailed, causeSkipped, CauseOrphan, CauseRenewed} {
		if s.causes[cause] < 20 {
			t.Errorf("only %d debts of cause %s", s.causes[cause], cause)
		}
	}
	if s.surely < 500 || s.waited < 200 || s.orphans < 50 {
		t.Error("too few debts were compared")
	}
}

// checkDebts holds what was measured against the truth. What was not over when the world ended has no upper end to compare.
func (w *world) checkDebts(t *testing.T, run int, ds Debts, seen *debtsSeen) {
	t.Helper()
	if seen.causes == nil {
		seen.causes = map[string]int{}
	}
	found := map[string]Debt{}
	for _, d := range ds.List {
		found[d.E.ID] = d
	}
	waits, orphans := w.waits(), Tally{}
	for id, f := range w.truth {
		from, to := w.owes(f)
		d := found[id]
		ended := to != Open
		if !ended {
			to = max(from, w.now)
		}
		waited := covered(clipped(waits, from, to))
		in := func(what string, truth int64, m Dur) {
			if m.Lo > truth || ended && truth > m.Hi {
				t.Fatalf("run %d: epoch %s: %s of %d ns is not in [%d, %d]; truth %+v, measured %+v", run, id, what, truth, m.Lo, m.Hi, *f, d)
			}
		}
		in("debt", to-from, d.Time)
		in("effective debt", waited, d.Effective)
		in("waiting", waited, d.Waiting)
		if f.orphan && from != to {
			orphans.Hi++
			if ended {
				orphans.Lo++
			}
		}
		if d.Time.Lo > 0 {
			seen.surely++
			seen.causes[d.Cause]++
			if d.Waiting.Lo > 0 {
				seen.waited++
			}
		}
	}
	if ds.Orphans.Hi < orphans.Lo || ds.Orphans.Lo > orphans.Hi {
		t.Fatalf("run %d: between %d and %d orphans are not in [%d, %d]", run, orphans.Lo, orphans.Hi, ds.Orphans.Lo, ds.Orphans.Hi)
	}
	seen.orphans += ds.Orphans.Lo
}
