package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// failedReleases is what became of the release calls of a lock, and of the leases that they were to end.
type failedReleases struct {
	calls, leases tally // that failed, surely and perhaps
	sent, ended   int   // calls, and leases with such calls
	evidence      []int64
}

// failedReleasesOf counts release calls that came back without an answer of the store's. An answer of "not yours" is none: there was
// nothing left to release. A call that is still out at the end, or whose success a look refutes, has perhaps failed; one whose caller died
// has not.
func (ix *Facts) failedReleasesOf(lock string) failedReleases {
	var f failedReleases
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.epochs {
			if e.belief != nil {
				f.add(ix, e)
			}
		}
	}
	return f
}

func (f *failedReleases) add(ix *Facts, e *epoch) {
	var lease tally
	sent, freed := 0, false
	for _, c := range e.releases {
		_, dead := ix.deaths[e.replica]
		switch {
		case ix.takenDown(c.sent.From), !c.exited && dead:
			continue
		case gone(c), c.outcome == history.OK && !c.refuted:
			freed = true
		case c.exited && c.said != history.OK:
			f.calls.lo++
			lease.lo = 1
			fallthrough
		default:
			f.calls.hi++
			lease.hi = 1
			f.evidence = append(f.evidence, c.n)
		}
		sent++
	}
	if f.sent += sent; sent == 0 {
		return
	}
	if f.ended++; !freed {
		f.leases.lo += lease.lo
		f.leases.hi += lease.hi
	}
}

// share of n that a tally is, in billionths.
func (t tally) share(n int) (lo, hi int64) {
	if n == 0 {
		return 0, open
	}
	return int64(t.lo) * 1e9 / int64(n), int64(t.hi) * 1e9 / int64(n)
}

// failedReleaseRows judges the share of release calls that failed, and that of leases that were left to their TTL for it.
func (j *judging) failedReleaseRows(lock string, limits *experiments.FailedReleasesLimits) []verdict.SLOResult {
	calls := func(lock string) measured {
		f := j.ix.failedReleasesOf(lock)
		return j.failedReleases(lock, "failed_releases.calls", f, f.calls, f.sent, "release call")
	}
	leases := func(lock string) measured {
		f := j.ix.failedReleasesOf(lock)
		return j.failedReleases(lock, "failed_releases.given_up", f, f.leases, f.ended, "lease")
	}
	return slices.Concat(bounded(j, lock, limits.Calls, calls), bounded(j, lock, limits.GivenUp, leases))
}

func (j *judging) failedReleases(lock, measure string, f failedReleases, t tally, n int, of string) measured {
	m := measured{
		measure: measure, unit: verdict.UnitRatio, n: n, of: of, evidence: f.evidence,
		next: "mend the way to the store; a second try with a fresh timeout saves the rest of the lease where the failure is short",
	}
	m.lo, m.hi = t.share(n)
	m.saw = fmt.Sprintf("%s of %s failed", figures.Count(t.lo), figures.Plural(f.sent, "release call"))
	if measure != "failed_releases.calls" {
		m.saw = fmt.Sprintf("%s of %s left to the TTL after failed releases", figures.Count(t.lo), figures.Plural(n, "lease"))
	}
	m.missing = j.claimsMissing(lock)
	if n == 0 {
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingAnswers, "release", lock))
	}
	return j.needFault(lock, m)
}
