package forecast

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// The quantiles of the beta distribution come from mathext: package distuv, which names them, links all of linear algebra.

// risk is the one-sided error that a claim about a quantile may have: 95 % confidence.
const risk = 0.05

// TrialsNeeded is lint L8: how many independent kills it takes to say with 95% confidence that quantile p (0..1) holds, when so
// many of them miss the limit. Clean, that is 29 / 59 / 299 for p90 / p95 / p99; with one miss 46 / 93 / 473.
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

// UpperBound is the one-sided 95 % Clopper-Pearson upper bound of a rate of which k of n trials were hits.
func UpperBound(k, n int) float64 {
	switch {
	case n == 0 || k >= n:
		return 1
	case k == 0:
		return 1 - math.Pow(risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-risk)
}

// LowerBound is the one-sided 95 % Clopper-Pearson lower bound of a rate of which k of n trials were hits.
func LowerBound(k, n int) float64 {
	switch {
	case k == 0 || n == 0:
		return 0
	case k >= n:
		return math.Pow(risk, 1/float64(n))
	}
	return mathext.InvRegIncBeta(float64(k), float64(n-k+1), risk)
}
