package analysis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// duplicates: applied terminal writes beyond the first of each job.
func (j *judging) duplicates(lock string, minJobs int) measured {
	d := j.dups[lock]
	m := measured{
		measure: "duplicate_terminal_states", unit: "count", lo: int64(d.extra), hi: int64(d.extra), n: d.finished, of: "job",
		saw: fmt.Sprintf("%s in %s that finished", figures.Count(d.extra), figures.Plural(d.finished, "job")), missing: j.jobsMissing(lock, minJobs),
	}
	m.faults, _ = j.exposures(lock)
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
		parts = append(parts, "by epoch "+e+" at "+figures.Clock(figures.Nanoseconds(d.At[i])))
	}
	return "job " + d.Job + " was finished " + strings.Join(parts, " and ") + " (" + strings.Join(d.Kinds, ", ") + ")"
}

func duplicateAdvice(d verdict.Duplicate) string {
	if slices.Contains(d.Kinds, dupStale) {
		return "let the resource compare fences (fenced: true), so that a superseded holder cannot write"
	}
	return "look at the job's state under the lock before working (look: true), or let the resource refuse a second terminal state (strict: true)"
}

// jobsMissing are the clauses for measures of jobs.
func (j *judging) jobsMissing(lock string, minJobs int) []verdict.Missing {
	var ls []verdict.Missing
	d := j.dups[lock]
	if d.finished == 0 {
		ls = append(ls, verdict.Lacking(verdict.MissingFinishedJobs, lock))
	} else {
		ls = fewJobs(d.finished, minJobs)
	}
	if exposed, _ := j.exposures(lock); exposed == 0 {
		ls = append(ls, j.notExposed(lock))
	}
	return append(ls, j.ledgerMissing(lock)...)
}

func fewJobs(finished, least int) []verdict.Missing {
	if finished >= least {
		return nil
	}
	return []verdict.Missing{verdict.Lacking(verdict.MissingMinJobs, figures.Count(finished), figures.Plural(least, "job"))}
}

// rawAbandonments is the count, whatever their reason.
func (j *judging) rawAbandonments(lock string) measured {
	g := j.giveups[lock]
	m := measured{
		measure: "abandonments", unit: "count", lo: int64(g.raw), hi: int64(g.raw), n: g.worked, of: "epoch",
		saw: fmt.Sprintf("%s of %s that worked", figures.Count(g.raw), figures.Plural(g.worked, "epoch")), evidence: g.evidence,
		why: reasons(g.list), next: "see which were needed: an abandonment SLO tells a safe policy from a hasty one",
	}
	if g.worked == 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingWork, lock))
	}
	m.missing = append(m.missing, j.garbled()...)
	return j.needFault(lock, m)
}

// reasons counts abandonments by their reason: "count 3, deadline 1".
func reasons(as []verdict.Abandonment) string {
	n := map[string]int{}
	for _, a := range as {
		n[a.Reason]++
	}
	var parts []string
	for _, r := range []string{"count", "deadline", "not_owned", "context"} {
		if n[r] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, n[r]))
		}
	}
	return strings.Join(parts, ", ")
}

// abandonmentRows judges how the lock was given up: missed, late and needless each on a row of its own.
func (j *judging) abandonmentRows(lock string, limits *experiments.AbandonmentLimits) []verdict.SLOResult {
	g := j.giveups[lock]
	missing := j.claimsMissing(lock)
	if g.jeopardies.lo == 0 {
		missing = append([]verdict.Missing{verdict.Lacking(verdict.MissingJeopardy, lock)}, missing...)
	}
	exposed, _ := j.exposures(lock)
	var rows []verdict.SLOResult
	for _, x := range []struct {
		name, next string
		limit      *int
		t          tally
	}{
		{verdict.Missed, "use a policy with a deadline (class standard or critical): the holder must stop by itself before its lease ends", limits.Missed, g.missed},
		{verdict.Late, "give the work a larger stop budget, or count fewer failures: N * interval + op timeout must stay below the ttl", limits.Late, g.late},
		{verdict.Needless, "allow more failures before giving up (class standard: only the deadline decides)", limits.Needless, g.needless},
	} {
		if x.limit == nil {
			continue
		}
		m := measured{
			measure: "abandonment." + x.name, unit: "count", lo: int64(x.t.lo), hi: int64(x.t.hi), n: g.jeopardies.lo, of: "jeopardy", faults: exposed,
			saw:  fmt.Sprintf("%s %s, with %s in jeopardy", figures.Count(x.t.lo), x.name, figures.Plural(g.jeopardies.lo, "epoch")),
			next: x.next, evidence: g.evidence, missing: missing,
		}
		m.why = g.firstOf(x.name)
		rows = append(rows, j.row(lock, int64(*x.limit), m))
	}
	return rows
}

// firstOf describes the first epoch that was missed, late or needless.
func (g giveUps) firstOf(name string) string {
	for _, a := range g.list {
		if a.Timing == name || a.Need == name {
			text := "key " + a.Key + ", epoch " + a.Epoch
			if a.FenceLag != nil {
				text += fmt.Sprintf(", work stopped %s after the validity end", figures.Short(figures.Nanoseconds(a.FenceLag.Lo)))
				switch {
				case a.Timing != verdict.Timely && a.FenceLag.Lo < 0: // a pause, or a key that was taken away
					text = fmt.Sprintf("key %s, epoch %s, worked %s past the lease's end", a.Key, a.Epoch, figures.Short(figures.Nanoseconds(a.Unowned.Lo)))
				case a.FenceLag.Lo < 0:
					text = fmt.Sprintf("key %s, epoch %s, work stopped %s before the validity end", a.Key, a.Epoch, figures.Short(figures.Nanoseconds(-a.FenceLag.Lo)))
				}
			}
			return text
		}
	}
	return ""
}

// fenceLag is the worst of all stretches of work.
func (j *judging) fenceLag(lock string) measured {
	m := measured{measure: "fence_lag", unit: "s", of: "epoch", next: "stop the work earlier: a deadline at validity end - stop budget, and a stop budget that the work keeps"}
	for _, k := range j.ix.keysOf(lock) {
		for _, e := range k.epochs {
			l, ok := j.ix.fenceLag(e)
			if !ok {
				continue
			}
			if m.n == 0 {
				m.lo, m.hi = l.lo, l.hi
			}
			if l.hi >= m.hi {
				m.evidence = cite(append([]int64{l.n}, m.evidence...)...)
			}
			m.lo, m.hi = max(m.lo, l.lo), max(m.hi, l.hi)
			m.n++
		}
	}
	switch {
	case m.n == 0:
		m.hi = open
		m.missing = []verdict.Missing{verdict.Lacking(verdict.MissingWorkEnds, lock)}
	case m.lo > 0:
		m.saw = fmt.Sprintf("in %s, work went on past the validity end, at worst for %s", figures.Plural(m.n, "epoch"), dur{m.lo, m.hi})
	default:
		m.saw = fmt.Sprintf("in %s, work stopped at least %s before the validity end", figures.Plural(m.n, "epoch"), figures.Floor(-m.hi))
	}
	m.missing = append(m.missing, j.garbled()...)
	return j.needFault(lock, m)
}

// needFault adds the clauses of measures that any fault on the lock reaches.
func (j *judging) needFault(lock string, m measured) measured {
	exposed, _ := j.exposures(lock)
	m.faults = exposed
	if exposed == 0 {
		m.missing = append(m.missing, j.notExposed(lock))
	}
	m.missing = append(m.missing, j.unseen(lock)...)
	return m
}

// unownedWork is seconds of work past lease end, in all.
func (j *judging) unownedWork(lock string) measured {
	m := measured{measure: "unowned_work", unit: "s", of: "epoch", next: "stop the work before the lease ends: a policy with a deadline"}
	var d dur
	for _, k := range j.ix.keysOf(lock) {
		for _, e := range k.epochs {
			if len(e.works) == 0 {
				continue
			}
			m.n++
			u := j.ix.unownedWork(e)
			if u.hi > 0 {
				m.evidence = append(m.evidence, e.works[len(e.works)-1].n)
			}
			d = d.add(u)
		}
	}
	m.lo, m.hi = d.lo, d.hi
	m.saw = fmt.Sprintf("%s of work past the lease's end in %s", d, figures.Plural(m.n, "epoch"))
	m.missing = append(j.keysBlind(lock), j.garbled()...)
	if m.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingWork, lock))
	}
	return j.needFault(lock, m)
}
