package analysis

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/history"
)

// reExecuted counts the executions of jobs that were executed before, by an earlier epoch. Work that was surely complete counts
// in lo; work that was cut off (nobody knows how much of it was done) only in hi.
func (ix *Facts) reExecuted(lock string) (t tally, evidence []int64) {
	type run struct {
		e *epoch
		w *work
	}
	by := map[string][]run{}
	for _, k := range ix.keysOf(lock) {
		if k.loop {
			continue
		}
		for _, e := range k.epochs {
			for _, w := range e.works {
				if !w.skipped() {
					by[w.subject] = append(by[w.subject], run{e, w})
				}
			}
		}
	}
	for _, j := range ix.jobOrder {
		runs := by[j.id]
		if j.lock != lock || len(runs) < 2 {
			continue
		}
		slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.e.rank, b.e.rank) })
		complete := false
		for i, r := range runs {
			if i > 0 && r.e != runs[i-1].e {
				t.hi++
				if complete {
					t.lo++
				}
				evidence = append(evidence, r.w.n)
			}
			complete = complete || r.w.why == history.AckDone || ix.wrote(j, r.e)
		}
	}
	return t, evidence
}

// wrote reports that e brought the job to an end.
func (ix *Facts) wrote(j *job, e *epoch) bool {
	return slices.ContainsFunc(j.terminals, func(f *effect) bool { return f.epoch == e })
}

// strandedOf counts work that is still open at the horizon: jobs without a terminal state, and loops that nobody took over.
// What is open before the horizon, or before it could be worked off after that, may yet be finished, so it counts in hi only; so
// does all of it where the ledger has lost entries, or the final reads are missing (known is false).
func (ix *Facts) strandedOf(lock string) (t tally, evidence []int64, known bool) {
	final, known := ix.finalAt()
	horizon, _ := ix.horizon(lock)
	add := func(since, hold, n int64) {
		t.hi++
		if known && len(ix.lostLedger) == 0 && final >= plus(max(horizon, since), hold) {
			t.lo++
		}
		evidence = append(evidence, n)
	}
	for _, j := range ix.jobOrder {
		if j.lock == lock && len(j.terminals) == 0 {
			add(plus(j.offered.To, int64(forecast.Horizon(ix.exp, lock))), j.hold, j.n)
		}
	}
	for _, s := range ix.shots {
		for _, tr := range s.trials {
			k := ix.keys[tr.e.key]
			last := k.epochs[len(k.epochs)-1] == tr.e
			if k.lock == lock && k.loop && tr.after == nil && last {
				add(0, 0, s.applied.N)
			}
		}
	}
	return t, evidence, known
}

// horizon is the instant from which on a breach of this lock would have been seen; faulted is false where no fault was applied.
func (ix *Facts) horizon(lock string) (at int64, faulted bool) {
	for _, s := range ix.shots {
		if s.applied == nil {
			continue
		}
		faulted = true
		end := s.ended()
		if end.To == open {
			end.To = end.From
		}
		at = max(at, end.To)
	}
	return plus(at, int64(forecast.Horizon(ix.exp, lock))), faulted
}
