package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Operations whose "not yours" is counted.
const (
	opRenew   = "renew"
	opRelease = "release"
)

// notOwned is what one operation of a lock was answered.
type notOwned struct {
	answered, absent, other int
	own                     int // "not yours" after a release of one's own: not counted
	evidence                []int64
}

// ratio of "not yours" among the answers, in billionths.
func (o notOwned) ratio() int64 {
	if o.answered == 0 {
		return 0
	}
	return int64(o.absent+o.other) * 1e9 / int64(o.answered)
}

// notOwnedOf counts the answers to renewals or releases. Calls that nobody answered say nothing, and an undo is no release: it
// asks whether there was a grant at all.
func (ix *Facts) notOwnedOf(lock, op string) notOwned {
	var o notOwned
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.epochs {
			calls := e.renewals
			if op == opRelease {
				calls = e.releases
			}
			if e.belief == nil {
				continue
			}
			for _, c := range calls {
				if !ix.takenDown(c.sent.From) {
					o.count(e, c)
				}
			}
		}
	}
	return o
}

func (o *notOwned) count(e *epoch, c *call) {
	switch {
	case c.outcome == history.OK:
		o.answered++
		return
	case !gone(c):
		return
	}
	for _, r := range e.releases {
		after := r.sent.From <= c.sent.From && r.outcome != history.Fail
		met := r.sent.From <= c.span.To && r.outcome == history.OK // the release overtook a call that was on its way
		if r != c && (after || met) {
			o.own++
			return
		}
	}
	o.answered++
	if c.result == history.ResultAbsent {
		o.absent++
	} else {
		o.other++
	}
	o.evidence = append(o.evidence, c.n)
}

// notOwnedRows judges the share of "not yours" among the answers, each operation on a row of its own.
func (j *judging) notOwnedRows(lock string, limits *experiments.NotOwnedLimits) []verdict.SLOResult {
	of := func(op string) func(string) measured {
		return func(lock string) measured { return j.notOwned(lock, op) }
	}
	return slices.Concat(bounded(j, lock, limits.Renew, of(opRenew)), bounded(j, lock, limits.Release, of(opRelease)))
}

// notOwned is the share of "not yours" among the answers of one operation.
func (j *judging) notOwned(lock, op string) measured {
	o, thing := j.ix.notOwnedOf(lock, op), map[string]string{opRenew: "renewal", opRelease: "release"}[op]
	m := measured{
		measure: "not_owned." + op, unit: verdict.UnitRatio, lo: o.ratio(), hi: o.ratio(), n: o.answered, evidence: o.evidence,
		saw: fmt.Sprintf("%s of %s answered \"not yours\" (%s absent, %s other)", figures.Count(o.absent+o.other), figures.Plural(o.answered, thing), figures.Count(o.absent), figures.Count(o.other)),
		next: map[string]string{
			opRenew:   "renew sooner and stop relying on the lock before its lease ends: the key was lost, or deleted, while it was held",
			opRelease: "stop the work before the lease ends: the key was no longer the holder's when it came to give it back",
		}[op],
	}
	if o.own > 0 {
		m.saw += fmt.Sprintf(", %d more after a release of one's own", o.own)
	}
	if o.answered == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingAnswers, thing, lock))
	}
	return j.needFault(lock, m)
}
