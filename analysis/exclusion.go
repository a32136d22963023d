package analysis

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// overlapRows judges mutual exclusion at one level.
func (j *judging) overlapRows(lock string, limit *experiments.OverlapLimit) []verdict.SLOResult {
	exposed, contended := j.exposures(lock)
	m := measured{measure: "overlap." + limit.Level, of: "epoch", faults: exposed}
	if contended == 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingContenders, lock))
	}
	if exposed == 0 {
		m.missing = []verdict.Missing{j.notExposed(lock)}
	}
	if limit.Level == verdict.LevelEffect {
		j.effects(lock, &m)
		return j.count(lock, limit.MaxCount, m)
	}
	o := j.ix.timeOverlap(lock, limit.Level)
	m.unit, m.lo, m.hi, m.n, m.evidence = "s", o.lo, o.hi, o.n, o.evidence
	m.saw = fmt.Sprintf("%s of holders beside the first, in %s", dur{o.lo, o.hi}, figures.Plural(o.n, "epoch"))
	m.next = "compare overlap with the effects: fence them at the resource, and stop the work before the lease ends"
	m.missing = append(m.missing, j.claimsMissing(lock)...)
	if who := j.ix.unseenEnd(lock); who != "" {
		m.unsure = "nobody saw the process of " + who + " end, so it may have gone on: follow the pods' logs from before the kill, or crash it"
	}
	if o.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingHolders, lock))
	}
	if limit.Level == verdict.LevelBelief && j.paused(lock) {
		m.unfit = "a holder was paused: no lock can keep a paused process from believing, so belief is not judged"
		m.next = "judge overlap at level work or effect under a pause"
	}
	return []verdict.SLOResult{j.row(lock, int64(limit.MaxTime), m)}
}

// paused reports a pause that struck somebody who believed to hold the lock.
func (j *judging) paused(lock string) bool {
	for _, s := range j.ix.shots {
		if s.does.Stands == 0 || s.applied == nil {
			continue
		}
		for _, e := range s.mayHit(j.ix) {
			if b := e.belief; e.lock == lock && b != nil && b.start.From <= s.ended().To && b.end.To >= s.applied.From {
				return true
			}
		}
	}
	return false
}

// effects counts stale and unowned effects.
func (j *judging) effects(lock string, m *measured) {
	f := j.fencings[lock]
	m.unit, m.lo, m.hi, m.n, m.of, m.evidence = "count", f.lo, f.hi, f.n, "effect", f.evidence
	m.saw = fmt.Sprintf("%s stale and %s unowned of %s", figures.Count(f.stale), figures.Count(f.unowned), figures.Plural(f.n, "effect"))
	if f.refused > 0 {
		m.saw += fmt.Sprintf(", %d stale refused by the fence", f.refused)
	}
	m.next = "let the resource compare fences (fenced: true)"
	if f.stale == 0 && f.unowned > 0 {
		m.next = "no fence refuses who is not superseded yet: renew more often, so that a lease that is lost is noticed sooner"
	}
	m.missing = append(m.missing, j.ledgerMissing(lock)...)
	if _, final := j.ix.finalAt(); !final {
		m.hi = open
	}
	if f.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingEffects, lock))
	}
	m.ownerRejected(f)
	for _, k := range j.ix.keysOf(lock) {
		if k.broken {
			m.missing = append(m.missing, verdict.Lacking(verdict.MissingOrder, k.name))
			break
		}
	}
}

// busyRows judges refusals of a lock whose holder was dead or done.
func (j *judging) busyRows(lock string, limit *experiments.BusyLimit) []verdict.SLOResult {
	b := j.ix.busyOf(lock)
	m := measured{n: b.asked, of: "acquire", evidence: b.evidence, next: "wait longer than the ttl, or shorten the ttl: a wait that is shorter than the lease is busy for the rest of it"}
	if l := j.ix.exp.Lock(lock); l != nil && l.Loop() { // it tries and does not wait
		m.next = "poll less often, or raise the limit"
	}
	m.saw = fmt.Sprintf("%s of %s refused while the holder was dead or done, over %s", figures.Count(b.count.lo), figures.Plural(b.asked, "acquire"), b.time)
	if b.asked == 0 {
		m.missing = []verdict.Missing{verdict.Lacking(verdict.MissingRequests, lock)}
	}
	m.missing = append(m.missing, j.garbled()...)
	m = j.needFault(lock, m)
	var rows []verdict.SLOResult
	if limit.MaxCount != nil {
		m.measure, m.unit, m.lo, m.hi = "busy.count", "count", int64(b.count.lo), int64(b.count.hi)
		rows = append(rows, j.row(lock, int64(*limit.MaxCount), m))
	}
	if limit.MaxTime != nil {
		m.measure, m.unit, m.lo, m.hi = "busy.time", "s", b.time.lo, b.time.hi
		rows = append(rows, j.row(lock, int64(*limit.MaxTime), m))
	}
	return rows
}

// stranded is work that is still open at the horizon.
func (j *judging) stranded(lock string, minJobs int) measured {
	t, evidence, known := j.ix.strandedOf(lock)
	d := j.dups[lock]
	m := measured{
		measure: "stranded", unit: "count", lo: int64(t.lo), hi: int64(t.hi), n: d.jobs, of: "job", evidence: evidence,
		saw:  fmt.Sprintf("%s still open at the horizon, of %s", figures.Count(t.lo), figures.Plural(d.jobs, "job")),
		next: "redeliver unfinished work, and let more than one replica want it",
	}
	if !known {
		m.hi = open
	}
	if l := j.ix.exp.Lock(lock); l != nil && l.Loop() {
		m.saw = fmt.Sprintf("%d times nobody took the loop over", t.lo)
	} else if d.jobs == 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingOffers, lock))
	} else {
		m.missing = append(m.missing, fewJobs(d.finished, minJobs)...)
	}
	m.missing = append(m.missing, j.blind(probeLedger, j.window())...)
	return j.needFault(lock, m)
}

// fenceRegressions counts fences that did not grow.
func (j *judging) fenceRegressions(lock string) measured {
	m := measured{measure: "fence_regressions", unit: "count", of: "grant", next: "mint fences that survive a flush and a fail-over: max(last + 1, the store's clock)"}
	known := 0
	for _, k := range j.ix.keysOf(lock) {
		m.lo += int64(len(k.regressions))
		for _, r := range k.regressions {
			m.evidence = append(m.evidence, r.late.n, r.early.n)
			if m.why == "" {
				m.why = fmt.Sprintf("key %s: epoch %s was granted fence %d after epoch %s had %d", k.name, r.late.id, r.late.fence, r.early.id, r.early.fence)
			}
		}
		for _, e := range k.epochs {
			if e.fence != 0 {
				known++
			}
		}
	}
	m.hi, m.n = m.lo, known
	m.saw = fmt.Sprintf("%s in %s", figures.Count(m.lo), figures.Plural(known, "grant"))
	if known < 2 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingFences, lock))
	}
	m.ownerRejected(j.fencings[lock])
	return j.needFault(lock, m)
}

// ownerRejected fails the measure where the resource refused the one who rightfully held the lock: there the fence did not work.
func (m *measured) ownerRejected(f fencing) {
	n := len(f.ownerRejected)
	if n == 0 {
		return
	}
	first := f.ownerRejected[0]
	m.violated = true
	refused := fmt.Sprintf("%s of the rightful owner refused, first of epoch %s with fence %d", figures.Plural(n, "write"), first.epoch.id, first.fence)
	if m.why != "" {
		refused = m.why + "; " + refused
	}
	m.why = refused
	m.next = "mint fences that survive a flush and a fail-over: max(last + 1, the store's clock)"
	for _, x := range f.ownerRejected {
		m.evidence = append(m.evidence, x.n)
	}
}

// reExecutions counts work done again.
func (j *judging) reExecutions(lock string, minJobs int) measured {
	t, evidence := j.ix.reExecuted(lock)
	d := j.dups[lock]
	m := measured{
		measure: "re_executed", unit: "count", lo: int64(t.lo), hi: int64(t.hi), n: d.finished, of: "job", evidence: evidence,
		saw:  fmt.Sprintf("%s executed again, and %s more that had been cut off, of %s", figures.Count(t.lo), figures.Count(t.hi-t.lo), figures.Plural(d.jobs, "job")),
		why:  "what a killed holder had done and not yet written is done again",
		next: "make the work idempotent, or write its result sooner",

		unsure: "work that was cut off cannot be told apart from work done again: raise the limit, or use smaller steps",
	}
	m.missing = j.jobsMissing(lock, minJobs)
	m.faults, _ = j.exposures(lock)
	return m
}
