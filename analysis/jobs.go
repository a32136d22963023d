package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// reExecuted counts the executions of jobs that were executed before, by an earlier epoch. Work that was surely complete counts
// in lo; work that was cut off (nobody knows how much of it was done) only in hi.
func (ix *Facts) reExecuted(lock string) (t tally, evidence []int64) {
	if ix.exp.Observed() {
		return ix.foreignRuns(lock)
	}
	type run struct {
		e *epoch
		w *work
	}
	by := map[string][]run{}
	for k, e := range ix.epochsOf(lock) {
		for _, w := range e.works {
			if !k.loop && !w.skipped() {
				by[w.subject] = append(by[w.subject], run{e, w})
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
	if l := ix.exp.Lock(lock); ix.exp.Observed() && l != nil && !l.Loop() {
		return ix.foreignStranded(lock)
	}
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
		if j.lock == lock && len(j.terminals) == 0 && j.due.From <= horizon {
			add(plus(j.owed().To, int64(forecast.Horizon(ix.exp, lock))), j.hold, j.n)
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

// owed is from when on somebody has to do the job: since its offer, or since it is due.
func (j *job) owed() history.Span {
	return history.Span{From: max(j.offered.From, j.due.From), To: max(j.offered.To, j.due.To)}
}

// horizon is the instant from which on a breach of this lock would have been seen; faulted is false where no fault was applied.
func (ix *Facts) horizon(lock string) (at int64, faulted bool) {
	at, faulted = ix.faultsOver()
	return plus(at, int64(forecast.Horizon(ix.exp, lock))), faulted
}

// faultsOver is when the last fault was over, as far as that is known.
func (ix *Facts) faultsOver() (at int64, faulted bool) {
	for _, s := range ix.shots {
		if s.applied == nil {
			continue
		}
		faulted = true
		end := s.over
		if end.To == open {
			end.To = end.From
		}
		at = max(at, end.To)
	}
	return at, faulted
}

// duplicates of one lock: applied terminal writes beyond the first of each job.
type duplicates struct {
	list      []verdict.Duplicate
	extra     int // surely
	maybe     int // likewise terminal, and perhaps retries of the same operation
	open      int // terminal writes whose effect no final read resolved
	finished  int
	jobs      int
	accepted  int // terminal writes
	prevented int // terminal writes that the ledger refused
}

func (ix *Facts) duplicatesOf(lock string) duplicates {
	var d duplicates
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		d.jobs++
		d.accepted += len(j.terminals)
		if len(j.terminals) > 0 {
			d.finished++
		}
		if len(j.terminals) > 1 {
			x := ix.duplicate(j)
			d.list = append(d.list, x)
			d.extra += x.Extra
			d.maybe += len(j.terminals) - 1 - x.Extra
		}
	}
	for _, f := range ix.effects {
		if f.key.lock == lock && f.Terminal && !f.Accepted {
			d.prevented++
		}
	}
	if _, final := ix.finalAt(); !final {
		d.open = ix.unresolved(lock)
	}
	return d
}

// resurrected reports a state after a terminal one that is not terminal.
func (j *job) resurrected() bool {
	ended := false
	for _, f := range j.states {
		if ended && !f.Terminal {
			return true
		}
		ended = ended || f.Terminal
	}
	return false
}

// unresolved counts terminal writes of the lock that were sent, have no known outcome and are not in what was read of the ledger.
func (ix *Facts) unresolved(lock string) int {
	n := 0
	for _, c := range ix.writes {
		if c.invoked != 0 && c.terminal && c.lock == lock && c.entry == nil && !c.missing {
			n++
		}
	}
	return n
}

// noJobs is code of the lock, where the jobs are lockdrill's own; else that the source of the effects told of none, or of no end.
func (j *judging) noJobs(code verdict.MissingCode, lock string) verdict.Missing {
	x := j.ix.exp.EffectsOf(lock)
	switch {
	case !j.ix.exp.Observed() || x == nil:
		return verdict.Lacking(code, lock)
	case j.ix.probes[x.Probe()].neverLooked():
		return j.unwatched(x.Probe(), j.window())
	case j.dups[lock].jobs == 0:
		return verdict.Lacking(verdict.MissingForeignJobs, lock, x.Source())
	}
	return verdict.Lacking(verdict.MissingForeignEnds, lock, strings.Join(x.Map.Terminal, ", "))
}

// duplicated counts terminal writes that were applied beyond the first of each job.
func duplicated(j *judging, l *experiments.Limit) figure {
	d := j.dups[l.Lock]
	f := figure{value: tally{d.extra, d.extra + d.maybe}.value(), n: d.finished}
	f.saw = fmt.Sprintf("%s too many in %s that finished", figures.Count(d.extra), figures.Plural(d.finished, "job"))
	if d.maybe > 0 {
		f.saw += fmt.Sprintf("; %d more may be retries", d.maybe)
		f.unsure = []verdict.Missing{verdict.Lacking(verdict.MissingOperations, l.Lock)}
	}
	if _, final := j.ix.finalAt(); !final && d.open > 0 {
		f.saw += fmt.Sprintf("; the outcome of %s is unknown", figures.Plural(d.open, "terminal write"))
	}
	if d.prevented > 0 {
		f.saw += fmt.Sprintf("; the ledger prevented %d more", d.prevented)
	}
	f.unlessRead(j.ix)
	for _, x := range d.list {
		f.evidence = append(f.evidence, x.Evidence...)
	}
	if len(d.list) > 0 {
		f.why, f.next = duplicateText(&d.list[0]), j.ix.duplicateAdvice(&d.list[0])
	}
	return f
}

// executedAgain counts work that was done again.
func executedAgain(j *judging, l *experiments.Limit) figure {
	t, evidence := j.ix.reExecuted(l.Lock)
	d := j.dups[l.Lock]
	f := figure{value: t.value(), n: d.finished, evidence: evidence, hints: hints{
		saw:    fmt.Sprintf("%s executed again, and %s more that had been cut off, of %s", figures.Count(t.lo), figures.Count(t.hi-t.lo), figures.Plural(d.jobs, "job")),
		why:    "Work that a killed holder had done and not yet written is done again",
		closer: "Raise the limit, or use smaller steps: work that was cut off cannot be told from work that was done again.",
	}}
	if t.hi > t.lo && j.ix.unwritten(l.Lock) {
		f.unsure = []verdict.Missing{verdict.Lacking(verdict.MissingWriters, l.Lock)}
	}
	return f
}

// stranded counts work that was still open at the horizon.
func stranded(j *judging, l *experiments.Limit) figure {
	t, evidence, known := j.ix.strandedOf(l.Lock)
	d := j.dups[l.Lock]
	f := figure{value: t.value(), n: d.jobs, evidence: evidence}
	if !known {
		f.hi = open
	}
	switch of := j.ix.exp.Lock(l.Lock); {
	case of != nil && of.Loop():
		f.saw = fmt.Sprintf("Nobody took the loop over, %d times", t.lo)
	case d.jobs == 0:
		f.lacks = []verdict.Missing{j.noJobs(verdict.MissingOffers, l.Lock)}
	default:
		f.lacks = fewJobs(d.finished, l.MinJobs)
	}
	return f
}
