package forecast

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// The quantiles of the beta distribution come from mathext: package distuv, which names them, links all of linear algebra.

// risk is the one-sided error that a claim about a quantile may have: 95 % confidence.
const risk = 0.05

// TrialsNeeded is lint L8: how many independent kills it takes to say with 95% confidence that quantile p (0..1) holds, when so
// many of them miss the limit. Clean, that is 29 / 59 / 299 for p90 / p95 / p99; with one miss 46 / 93 / 473.
func TrialsNeeded(p float64, misses int) int {
	lo, hi := misses+1, misses+1
	for UpperBound(misses, hi) > 1-p {
		lo, hi = hi, 2*hi
	}
	for lo < hi {
		mid := (lo + hi) / 2
		if UpperBound(misses, mid) > 1-p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return hi
}

// upperBound is the one-sided 95 % Clopper-Pearson upper bound of a rate of which k of n trials were hits.
func UpperBound(k, n int) float64 {
	switch {
	case n == 0 || k >= n:
		return 1
	case k == 0:
		return 1 - math.Pow(risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-risk)
}

// lowerBound is the one-sided 95 % Clopper-Pearson lower bound of a rate of which k of n trials were hits.
func LowerBound(k, n int) float64 {
	switch {
	case k == 0 || n == 0:
		return 0
	case k >= n:
		return math.Pow(risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k), float64(n-k+1), risk)
}
