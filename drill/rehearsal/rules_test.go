package rehearsal

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// storeRules: a key has one owner at a time and fences grow with every grant, whatever the store went through; a fail-over alone may
// take a grant back.
func (p *promises) storeRules() {
	if failsOver(p.e) {
		return
	}
	last := map[string]*sim.Epoch{}
	for _, e := range byGrant(p.t) {
		if e.Stranger {
			continue
		}
		if before := last[e.Key]; before != nil {
			if before.Freed > e.Granted {
				p.broken("key %s was granted to epoch %s at %s, epoch %s had it until %s", e.Key, e.ID, time.Duration(e.Granted), before.ID, time.Duration(before.Freed))
			}
			if before.Fence >= e.Fence {
				p.broken("key %s: epoch %s was granted fence %d after epoch %s had %d", e.Key, e.ID, e.Fence, before.ID, before.Fence)
			}
		}
		last[e.Key] = e
	}
}

// byGrant lists the epochs that were granted, in that order.
func byGrant(t *sim.Truth) []*sim.Epoch {
	var es []*sim.Epoch
	for i := range t.Epochs {
		if t.Epochs[i].Granted != sim.Never {
			es = append(es, &t.Epochs[i])
		}
	}
	slices.SortStableFunc(es, func(a, b *sim.Epoch) int {
		return cmp.Or(cmp.Compare(a.Granted, b.Granted), cmp.Compare(a.Fence, b.Fence))
	})
	return es
}

// later reports that a was granted after b. A store that goes on after a stop grants all that has waited at one instant.
func later(a, b *sim.Epoch) bool {
	return a.Granted > b.Granted || a.Granted == b.Granted && a.Fence > b.Fence
}

// ledgerRules: what is accepted is what nobody with a higher fence has written before, and, where it is strict, no second end of a job.
func (p *promises) ledgerRules() {
	marks, ended := map[string]int64{}, map[string]bool{}
	for _, w := range p.t.Writes {
		e := &p.t.Epochs[w.Epoch]
		fenced, strict := ledgerOf(p.e, e.Lock)
		refused := fenced && e.Fence < marks[w.Key] || strict && w.Terminal && ended[w.Subject]
		if refused == w.Accepted {
			p.broken("%s of epoch %s with fence %d, high-water %d: accepted %t", w.State, e.ID, e.Fence, marks[w.Key], w.Accepted)
		}
		if w.Accepted {
			marks[w.Key] = max(marks[w.Key], e.Fence)
			ended[w.Subject] = ended[w.Subject] || w.Terminal
		}
	}
}

// ledgerOf says how the ledger is to treat the effects of a lock.
func ledgerOf(e *experiments.Experiment, lock string) (fenced, strict bool) {
	for i := range e.System.Work {
		if w := &e.System.Work[i]; w.Lock == lock {
			return w.Fenced, w.Strict
		}
	}
	return true, false
}

func failsOver(e *experiments.Experiment) bool {
	return slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Traits().FailsOver })
}
