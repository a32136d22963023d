package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// ReExecuted counts the executions of jobs that were executed before, by an earlier epoch. Work that was surely complete counts
// in lo; work that was cut off (nobody knows how much of it was done) only in hi.
func (ix *Facts) ReExecuted(lock string) (t Tally, evidence []int64) {
	if ix.Exp.Observed() {
		return ix.foreignRuns(lock)
	}
	type run struct {
		e *Epoch
		w *Stint
	}
	by := map[string][]run{}
	for k, e := range ix.EpochsOf(lock) {
		for _, w := range e.Works {
			if !k.Loop && !w.skipped() {
				by[w.subject] = append(by[w.subject], run{e, w})
			}
		}
	}
	for _, j := range ix.jobOrder {
		runs := by[j.ID]
		if j.lock != lock || len(runs) < 2 {
			continue
		}
		slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.e.Rank, b.e.Rank) })
		complete := false
		for i, r := range runs {
			if i > 0 && r.e != runs[i-1].e {
				t.Hi++
				if complete {
					t.Lo++
				}
				evidence = append(evidence, r.w.N)
			}
			complete = complete || r.w.why == history.AckDone || ix.wrote(j, r.e)
		}
	}
	return t, evidence
}

// wrote reports that e brought the job to an end.
func (ix *Facts) wrote(j *job, e *Epoch) bool {
	return slices.ContainsFunc(j.Terminals, func(f *effect) bool { return f.Epoch == e })
}

// StrandedOf counts work that is still open at the horizon: jobs without a terminal state, and loops that nobody took over.
// What is open before the horizon, or before it could be worked off after that, may yet be finished, so it counts in hi only; so
// does all of it where the ledger has lost entries, the run ended since the store did not answer, or the final reads are missing (known is
// false).
func (ix *Facts) StrandedOf(lock string) (t Tally, evidence []int64, known bool) {
	if l := ix.Exp.Lock(lock); ix.Exp.Observed() && l != nil && !l.Loop() {
		return ix.foreignStranded(lock)
	}
	final, known := ix.FinalAt()
	horizon, _ := ix.Horizon(lock)
	add := func(since, hold, n int64) {
		t.Hi++
		if known && ix.couldFinish() && final >= Plus(max(horizon, since), hold) {
			t.Lo++
		}
		evidence = append(evidence, n)
	}
	for _, j := range ix.jobOrder {
		if j.lock == lock && len(j.Terminals) == 0 && j.due.From <= horizon {
			add(Plus(j.owed().To, int64(forecast.Horizon(ix.Exp, lock))), j.hold, j.n)
		}
	}
	for _, s := range ix.Shots {
		for _, tr := range s.Trials {
			k := ix.Keys[tr.E.Key]
			last := k.Epochs[len(k.Epochs)-1] == tr.E
			if k.Lock == lock && k.Loop && tr.After == nil && last {
				add(0, 0, s.Applied.N)
			}
		}
	}
	return t, evidence, known
}

// meetsJob reports that a job that comes about under no lock was open when the shot struck, or while it lasted, and was not surely in the
// hands of a replica that it did not strike: what nobody had begun, any of them might have taken. One that was not due by then, and never
// ended, tells nothing of the shot. Where only ends are told, it may have been.
func (s *Shot) meetsJob(ix *Facts, lock string) bool {
	last := s.Applied.From
	if !s.Does.Kills {
		last = max(last, s.Over.From)
	}
	return !ix.TellsOpen(lock) || slices.ContainsFunc(ix.jobOrder, func(j *job) bool {
		if j.due.To > last && len(j.Terminals) == 0 {
			return false
		}
		for i, f := range j.states {
			over := i+1 < len(j.states) && j.states[i+1].Span.From < s.Applied.To
			if j.lock == lock && !f.Terminal && !over && f.Span.To <= last && (f.Writer == "" || len(s.victims) == 0 || s.strikes(f.Writer)) {
				return true
			}
		}
		return false
	})
}

// TellsOpen reports an effect that ends no job, so that jobs show before they have ended.
func (ix *Facts) TellsOpen(lock string) bool {
	return slices.ContainsFunc(ix.jobOrder, func(j *job) bool {
		return j.lock == lock && slices.ContainsFunc(j.states, func(f *effect) bool { return !f.Terminal })
	})
}

// NotDue counts the jobs that are open, and are due later than strandings are looked for.
func (ix *Facts) NotDue(lock string) (n int64) {
	horizon, _ := ix.Horizon(lock)
	for _, j := range ix.jobOrder {
		if j.lock == lock && len(j.Terminals) == 0 && j.due.From > horizon {
			n++
		}
	}
	return n
}

// couldFinish reports that work could be finished to the end of the run, and would be known then.
func (ix *Facts) couldFinish() bool {
	return len(ix.LostLedger) == 0 && !slices.ContainsFunc(ix.Aborts, func(a *history.Event) bool { return a.Note.What == history.AbortStoreLost })
}

// owed is from when on somebody has to do the job: since its offer, or since it is due.
func (j *job) owed() history.Span { return later(j.offered, j.due) }

// Horizon is the instant from which on a breach of this lock would have been seen; faulted is false where no fault was applied.
func (ix *Facts) Horizon(lock string) (at int64, faulted bool) {
	at, faulted = ix.FaultsOver()
	return Plus(at, int64(forecast.Horizon(ix.Exp, lock))), faulted
}

// FaultsOver is when the last fault was over, as far as that is known; of a drill without a fault, when the first could have been fired.
func (ix *Facts) FaultsOver() (at int64, faulted bool) {
	if p := ix.Phases[history.PhaseFaults]; p != nil && len(ix.Exp.Faults) == 0 {
		return p.From, true
	}
	for _, s := range ix.Shots {
		if s.Applied == nil {
			continue
		}
		faulted = true
		end := s.Over
		if end.To == Open {
			end.To = end.From
		}
		at = max(at, end.To)
	}
	return at, faulted
}

// Duplicates of one lock: applied terminal writes beyond the first of each job.
type Duplicates struct {
	List      []verdict.Duplicate
	Extra     int // surely
	Maybe     int // likewise terminal, and perhaps retries of the same operation
	Open      int // terminal writes whose effect no final read resolved
	Finished  int
	Jobs      int
	Accepted  int // terminal writes
	Prevented int // terminal writes that the ledger refused
}

func (ix *Facts) DuplicatesOf(lock string) Duplicates {
	var d Duplicates
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		d.Jobs++
		d.Accepted += len(j.Terminals)
		if len(j.Terminals) > 0 {
			d.Finished++
		}
		if len(j.Terminals) > 1 {
			x := ix.duplicate(j)
			d.List = append(d.List, x)
			d.Extra += x.Extra
			d.Maybe += len(j.Terminals) - 1 - x.Extra
		}
	}
	for _, f := range ix.effects {
		if f.key.Lock == lock && f.Terminal && !f.Accepted {
			d.Prevented++
		}
	}
	if _, final := ix.FinalAt(); !final {
		d.Open = ix.unresolved(lock)
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
