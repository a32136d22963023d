package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Kinds of duplicate terminal states.
const (
	dupStale       = "stale"       // by a superseded epoch
	dupRepeated    = "repeated"    // by a rightful later epoch that did not look first
	dupConflicting = "conflicting" // another state than the first
	// By whom, or whether again at all, is not known: the effects of a foreign system do not say.
	dupUndetermined = "undetermined"
)

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
			x := j.duplicate()
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

// duplicate describes a job with more than one applied terminal write.
func (j *job) duplicate() verdict.Duplicate {
	d := verdict.Duplicate{Lock: j.lock, Job: j.id, Kinds: []string{}, Epochs: []string{}, At: []float64{}}
	var evidence []int64
	top := j.terminals[0].epoch
	for i, f := range j.terminals {
		d.Epochs = append(d.Epochs, f.epoch.id)
		d.At = append(d.At, seconds(f.span.To))
		evidence = append(evidence, f.n)
		if i == 0 {
			continue
		}
		if j.surelyAgain(i) {
			d.Extra++
		}
		conflicting := f.State != j.terminals[0].State
		if conflicting {
			addKind(&d, dupConflicting)
		}
		switch {
		case f.foreign && (!f.named() || f.epoch.rank*top.rank == 0):
			addKind(&d, dupUndetermined)
		case f.epoch.rank < top.rank || f.superseded():
			addKind(&d, dupStale)
		case !conflicting:
			addKind(&d, dupRepeated)
		}
		if f.epoch.rank > top.rank {
			top = f.epoch
		}
	}
	d.Resurrected = j.resurrected()
	d.Evidence = cite(evidence...)
	return d
}

// superseded reports an effect of a later-granted epoch of the key earlier in the ledger.
func (f *effect) superseded() bool {
	return slices.ContainsFunc(f.key.effects, func(o *effect) bool {
		return o.before(f) && o.fresh() && o.epoch.rank > f.epoch.rank
	})
}

func addKind(d *verdict.Duplicate, kind string) {
	if !slices.Contains(d.Kinds, kind) {
		d.Kinds = append(d.Kinds, kind)
	}
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

// duplicates: applied terminal writes beyond the first of each job.
func (j *judging) duplicates(lock string, minJobs int) measured {
	d := j.dups[lock]
	m := measured{
		measure: "duplicate_terminal_states", unit: verdict.UnitCount, lo: int64(d.extra), hi: int64(d.extra), n: d.finished, of: "job",
		saw: fmt.Sprintf("%s in %s that finished", figures.Count(d.extra), figures.Plural(d.finished, "job")), missing: j.jobsMissing(lock, minJobs),
	}
	m.faults, _ = j.exposures(lock)
	if d.maybe > 0 {
		m.hi += int64(d.maybe)
		m.saw += fmt.Sprintf(", %d more that may be retries", d.maybe)
		m.undecided = append(m.undecided, verdict.Lacking(verdict.MissingOperations, lock))
	}
	if _, final := j.ix.finalAt(); !final {
		m.hi = open
		if d.open > 0 {
			m.saw += fmt.Sprintf(", %s of unknown outcome", figures.Plural(d.open, "terminal write"))
		}
	}
	if d.prevented > 0 {
		m.saw += fmt.Sprintf(", %d more prevented by the ledger", d.prevented)
	}
	if len(d.list) > 0 {
		first := d.list[0]
		m.why, m.next = duplicateText(first), duplicateAdvice(first)
		for _, x := range d.list {
			m.evidence = append(m.evidence, x.Evidence...)
		}
	}
	return m
}

func duplicateText(d verdict.Duplicate) string {
	var parts []string
	for i, e := range d.Epochs {
		parts = append(parts, byEpoch(e)+" at "+figures.Clock(figures.Nanoseconds(d.At[i])))
	}
	return "job " + d.Job + " was finished " + strings.Join(parts, " and ") + " (" + strings.Join(d.Kinds, ", ") + ")"
}

func byEpoch(e string) string {
	if e == "" {
		return "by nobody known"
	}
	return "by epoch " + e
}

func duplicateAdvice(d verdict.Duplicate) string {
	if slices.Contains(d.Kinds, dupStale) {
		return "let the resource compare fences (fenced: true), so that a superseded holder cannot write"
	}
	return "look at the job's state under the lock before working (look: true), or let the resource refuse a second terminal state (strict: true)"
}
