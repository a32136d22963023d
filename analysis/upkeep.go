package analysis

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// What a lock costs those who want it: keys that stay taken, answers that say "not yours", grants that nobody learns of, and how
// long it is held and waited for.

// debtRows judges for how long keys stayed taken that nobody needed: the longest debt, the longest effective one, and all waiting
// for them, each on a row of its own.
func (j *judging) debtRows(lock string, limits *experiments.DebtLimits) []verdict.SLOResult {
	ds := j.debts[lock]
	base := measured{unit: "s", n: ds.ended, evidence: ds.evidence(), saw: ds.saw(), missing: j.keysBlind(lock)}
	if ds.ended == 0 {
		base.missing = append(base.missing, verdict.Lacking(verdict.MissingDoneHolders, lock))
	}
	longest, effective, waiting := dur{}, dur{}, dur{}
	for i, d := range ds.list {
		if i == 0 {
			base.why, base.next = d.text(), d.advice()
		}
		longest, effective, waiting = longest.worst(d.time), effective.worst(d.effective), waiting.add(d.waiting)
	}
	base = j.needFault(lock, base)
	var rows []verdict.SLOResult
	for _, x := range []struct {
		name  string
		limit *time.Duration
		value dur
	}{{"max", limits.Max, longest}, {"effective", limits.Effective, effective}, {"waiter_seconds", limits.Waiting, waiting}} {
		if x.limit == nil {
			continue
		}
		m := base
		m.measure, m.lo, m.hi = "lock_debt."+x.name, x.value.lo, x.value.hi
		rows = append(rows, j.row(lock, int64(*x.limit), m))
	}
	return rows
}

func (ds debts) evidence() []int64 {
	var ns []int64
	for _, d := range ds.list {
		ns = append(ns, d.evidence()...)
	}
	return ns
}

// saw counts the debts by cause.
func (ds debts) saw() string {
	text := fmt.Sprintf("%s in %s", figures.Plural(len(ds.list), "debt"), figures.Plural(ds.ended, "epoch"))
	var parts []string
	for _, cause := range []string{causeFailed, causeSkipped, causeOrphan, causeRenewed} {
		n := 0
		for _, d := range ds.list {
			if d.cause == cause {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", cause, n))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

func (d debt) text() string {
	took := figures.Ceil(d.time.hi)
	if d.time.hi == open {
		took = "at least " + figures.Floor(d.time.lo)
	}
	return fmt.Sprintf("key %s, epoch %s, was taken for %s after %s at %s", d.e.key, d.e.id, took,
		map[bool]string{true: "its acquire's answer was lost", false: "its holder was done with it"}[d.cause == causeOrphan], figures.Clock(d.start.From))
}

func (d debt) advice() string {
	switch d.cause {
	case causeSkipped:
		return "release after an abandonment too, once the work has stopped (after_abandon: if_work_stopped)"
	case causeOrphan:
		return "give an acquire whose answer was lost back, with the same token, on a fresh context"
	case causeRenewed:
		return "stop renewing before the release: a watchdog must not outlive its work"
	}
	return "try the release again on a fresh context (release: {mode: bounded_retry}); a shorter ttl ends the debt sooner"
}

// evidence is the grant, and what became of it.
func (d debt) evidence() []int64 {
	ns := []int64{d.e.n}
	if n := len(d.e.works); n > 0 && d.e.works[n-1].exited() {
		ns = append(ns, d.e.works[n-1].exit)
	}
	for _, r := range d.e.releases {
		ns = append(ns, r.n)
	}
	if d.e.skipped != 0 {
		ns = append(ns, d.e.skipped)
	}
	return ns
}

// orphanAcquires counts grants that nobody learnt of and nobody gave back at once.
func (j *judging) orphanAcquires(lock string, minJobs int) measured {
	ds := j.debts[lock]
	m := measured{
		measure: "orphan_acquires", unit: "count", lo: int64(ds.orphans.lo), hi: int64(ds.orphans.hi), n: ds.asked,
		saw:     fmt.Sprintf("%s in %s", figures.Count(ds.orphans.lo), figures.Plural(ds.asked, "acquire")),
		missing: j.keysBlind(lock),
	}
	for _, d := range ds.list {
		if d.cause != causeOrphan {
			continue
		}
		if m.next == "" {
			m.why, m.next = d.text(), d.advice()
		}
		m.evidence = append(m.evidence, d.evidence()...)
	}
	if ds.asked == 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingRequests, lock))
	}
	m.missing = append(m.missing, fewJobs(j.dups[lock].finished, minJobs)...)
	return j.needFault(lock, m)
}

// notOwnedRows judges the share of "not yours" among the answers, each operation on a row of its own.
func (j *judging) notOwnedRows(lock string, limits *experiments.NotOwnedLimits) []verdict.SLOResult {
	var rows []verdict.SLOResult
	for _, x := range []struct {
		op    string
		limit *float64
	}{{opRenew, limits.Renew}, {opRelease, limits.Release}} {
		if x.limit == nil {
			continue
		}
		o, thing := j.ix.notOwnedOf(lock, x.op), map[string]string{opRenew: "renewal", opRelease: "release"}[x.op]
		m := measured{
			measure: "not_owned." + x.op, unit: "ratio", lo: o.ratio(), hi: o.ratio(), n: o.answered, evidence: o.evidence,
			saw: fmt.Sprintf("%s of %s answered \"not yours\" (%s absent, %s other)", figures.Count(o.absent+o.other), figures.Plural(o.answered, thing), figures.Count(o.absent), figures.Count(o.other)),
			next: map[string]string{
				opRenew:   "renew sooner and stop relying on the lock before its lease ends: the key was lost, or deleted, while it was held",
				opRelease: "stop the work before the lease ends: the key was no longer the holder's when it came to give it back",
			}[x.op],
		}
		if o.own > 0 {
			m.saw += fmt.Sprintf(", %d more after a release of one's own", o.own)
		}
		if o.answered == 0 {
			m.hi = open
			m.missing = append(m.missing, verdict.Lacking(verdict.MissingAnswers, thing, lock))
		}
		rows = append(rows, j.row(lock, int64(math.Round(*x.limit*1e9)), j.needFault(lock, m)))
	}
	return rows
}

// tellUpkeep fills the lists of debts, answers and distributions.
func (j *judging) tellUpkeep(out *verdict.Judgement, lock string) {
	ds := j.debts[lock]
	out.Counts.OrphanAcquires += ds.orphans.lo
	for _, d := range ds.list {
		out.Debts = append(out.Debts, verdict.Debt{
			Lock: lock, Key: d.e.key, Epoch: d.e.id, Replica: d.e.replica, Cause: d.cause, From: seconds(d.start.From), Debt: d.time.Range(),
			Effective: d.effective.Range(), WaiterSeconds: d.waiting.Range(), Evidence: cite(d.evidence()...),
		})
	}
	for _, op := range []string{opRenew, opRelease} {
		if o := j.ix.notOwnedOf(lock, op); o.answered+o.own > 0 {
			out.NotOwned = append(out.NotOwned, verdict.NotOwned{
				Lock: lock, Op: op, Answered: o.answered, Absent: o.absent, Other: o.other, Own: o.own, Ratio: float64(o.ratio()) / 1e9, Evidence: cite(o.evidence...),
			})
		}
	}
	for _, d := range j.spread[lock] {
		if len(d.values) == 0 {
			continue
		}
		at := func(p float64) verdict.Range { return quantile(d.values, p).Range() }
		out.Distributions = append(out.Distributions, verdict.Distribution{
			Lock: lock, Class: d.class, Measure: d.measure, N: len(d.values), Cut: d.cut, P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(0),
		})
	}
}
