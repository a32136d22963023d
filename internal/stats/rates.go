// Package stats is the mathematics that verdicts rest on: bounds of a rate from trials, and the comparison of two samples whose values are
// known to lie in ranges. It knows numbers and nothing of locks.
// Its one invariant: a claim is wrong in at most the share of cases that it says, whatever lies within the ranges.
package stats

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// The quantiles of the beta distribution come from mathext: package distuv, which names them, links all of linear algebra.

// Risk is the one-sided error that a claim about a rate may have: 95 % confidence.
const Risk = 0.05

// UpperBound is the one-sided 95 % Clopper-Pearson upper bound of a rate of which k of n trials were hits. n is a number that was fixed
// before the first trial.
func UpperBound(k, n int) float64 {
	switch {
	case n == 0 || k >= n:
		return 1
	case k == 0:
		return 1 - math.Pow(Risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-Risk)
}

// LowerBound is the one-sided 95 % Clopper-Pearson lower bound of a rate of which k of n trials were hits.
func LowerBound(k, n int) float64 {
	switch {
	case k == 0 || n == 0:
		return 0
	case k >= n:
		return math.Pow(Risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k), float64(n-k+1), Risk)
}

// TrialsNeeded is how many independent trials it takes to say with 95 % confidence that quantile p (0 to 1) keeps its limit, when so many
// of them miss it. Clean, that is 29 / 59 / 299 for p90 / p95 / p99; with one miss 46 / 93 / 473.
func TrialsNeeded(p float64, misses int) int {
	return least(misses+1, func(n int) bool { return UpperBound(misses, n) <= 1-p })
}

// least is the smallest number from first on that is enough, as all greater ones are then.
func least(first int, enough func(n int) bool) int {
	most := first
	for !enough(most) {
		most *= 2
	}
	return first + sort.Search(most-first, func(i int) bool { return enough(first + i) })
}

// enough is the evidence at which a sequential test decides: at the least favourable rate it is reached, ever, with a chance of Risk.
const enough = 1 / Risk

// SequentialPass reports that at least the share p of trials keeps the limit, when missed of the n so far do not, at 95 % confidence
// however often somebody looked before. UpperBound asks for less and is right for a number of trials that was fixed beforehand.
//
// Source: the beta-binomial mixture martingale, truncated to the side that is claimed (Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon,
// Ann. Stat. 49 (2021) 1055). The present value decides, not the largest so far.
func SequentialPass(p float64, missed, n int) bool { return evidence(p, missed, n, true) >= enough }

// SequentialFail reports, as SequentialPass does, that more than the share 1 - p of trials misses the limit.
func SequentialFail(p float64, missed, n int) bool { return evidence(p, missed, n, false) >= enough }

// evidence is the e-value of k misses of n against the claim that the rate of misses is on the other side of 1 - p.
func evidence(p float64, k, n int, below bool) float64 {
	q, a, b := 1-p, 0.5, p/(2*(1-p))
	after, before := mathext.RegIncBeta(a+float64(k), b+float64(n-k), q), mathext.RegIncBeta(a, b, q)
	if !below {
		after, before = 1-after, 1-before
	}
	likelihood := float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q)
	return math.Exp(mathext.Lbeta(a+float64(k), b+float64(n-k)) + math.Log(after) - mathext.Lbeta(a, b) - math.Log(before) - likelihood)
}

// SequentialTrialsNeeded is how many trials SequentialPass takes where missed of them miss the limit: 36 / 72 / 367 for p90 / p95 / p99
// where none does.
func SequentialTrialsNeeded(p float64, missed int) int {
	return least(missed+1, func(n int) bool { return SequentialPass(p, missed, n) })
}
