package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// ranked is what a rank test says of two samples.
type ranked struct {
	P           float64          // two-sided: how often chance alone would part two samples of one population at least so far
	Superiority verdict.Interval // chance that a value of the second is above one of the first, ties half: what the ranges allow
}

// rankTest is the Mann-Whitney test of two samples whose values are ranges: no assignment of distinct values within the ranges
// gives a larger P. So whatever is significant here is significant wherever in its range each value truly lies, and a value whose
// end was not seen is as large as it may be.
//
// A pair counts as ordered only where it surely is. Where all values are exact, ties have the exact distribution given those ties;
// otherwise they count against whatever is claimed. Small samples have the exact distribution, large ones its normal
// approximation. An empty sample gives P 1.
func rankTest(a, b []verdict.Range) ranked {
	pairs := float64(len(a) * len(b))
	if pairs == 0 {
		return ranked{P: 1}
	}
	up, down := surely(a, b), surely(b, a) // pairs in which b, or a, is surely the larger
	exact := exactValues(a) && exactValues(b)
	lo, hi := up/pairs, 1-down/pairs
	var pUp, pDown float64
	if exact {
		mid := (up + pairs - down) / 2 // ties half
		lo, hi = mid/pairs, mid/pairs
		pUp, pDown = tiedTail(a, b, pairs-mid), tiedTail(b, a, mid)
	} else {
		pUp, pDown = tail(len(a), len(b), pairs-up), tail(len(a), len(b), pairs-down)
	}
	return ranked{P: min(1, 2*min(pUp, pDown)), Superiority: verdict.Interval{Lo: &lo, Hi: &hi}}
}

// surely counts the pairs in which the value of b is surely above that of a.
func surely(a, b []verdict.Range) float64 {
	his, los := upperEnds(a), lowerEnds(b)
	n, i := 0, 0
	for _, lo := range los {
		for i < len(his) && his[i] < lo {
			i++
		}
		n += i
	}
	return float64(n)
}

// maxWork bounds what an exact distribution may cost: about a tenth of a second.
const maxWork = 2e7

// tail is the chance that the statistic of samples of n and m values without ties is at most u.
func tail(n, m int, u float64) float64 {
	u = math.Floor(u)
	pairs := float64(n * m)
	if u >= pairs {
		return 1
	}
	if pairs*min(u, pairs-u) <= maxWork {
		return min(1, stats.UDist{N1: n, N2: m}.CDF(u))
	}
	sd := math.Sqrt(pairs * float64(n+m+1) / 12)
	return math.Erfc((pairs/2-u-0.5)/(sd*math.Sqrt2)) / 2
}

// tiedTail is the chance, given the ties among the exact values of a and b, that the statistic of a (pairs in which it is the
// larger, ties half) is at most u.
func tiedTail(a, b []verdict.Range, u float64) float64 {
	x, y := lowerEnds(a), lowerEnds(b)
	ties := tiesOf(append(slices.Clone(x), y...))
	switch {
	case len(ties) == 1: // all the same
		return 1
	case len(ties) == len(x)+len(y):
		return tail(len(a), len(b), u)
	case max(len(a), len(b)) <= stats.MannWhitneyTiesExactLimit:
		return min(1, stats.UDist{N1: len(a), N2: len(b), T: ties}.CDF(u))
	}
	r, err := stats.MannWhitneyUTest(x, y, stats.LocationLess)
	if err != nil { // empty, or all the same: both were answered above
		return 1
	}
	return r.P
}

// tiesOf counts the values of each rank.
func tiesOf(values []float64) []int {
	slices.Sort(values)
	var ties []int
	for i, v := range values {
		if i == 0 || v != values[i-1] {
			ties = append(ties, 0)
		}
		ties[len(ties)-1]++
	}
	return ties
}

// extreme is the smallest P that rankTest can give to samples of this size and, where all values are exact, with these ties: what
// the data could show at best, however the values were dealt to the two sides.
func extreme(a, b []verdict.Range) float64 {
	if !exactValues(a) || !exactValues(b) {
		return smallestP(len(a), len(b))
	}
	all := append(slices.Clone(a), b...)
	slices.SortFunc(all, func(x, y verdict.Range) int { return cmp.Compare(x.Lo, y.Lo) })
	return min(rankTest(all[:len(a)], all[len(a):]).P, rankTest(all[len(b):], all[:len(b)]).P)
}

// smallestP is the P of samples of n and m values of which one lies wholly above the other.
func smallestP(n, m int) float64 {
	if n == 0 || m == 0 {
		return 1
	}
	return min(1, 2*tail(n, m, 0))
}

func exactValues(rs []verdict.Range) bool {
	return !slices.ContainsFunc(rs, func(r verdict.Range) bool { return r.Hi == nil || *r.Hi != r.Lo })
}

// lowerEnds are the lower ends, sorted.
func lowerEnds(rs []verdict.Range) []float64 {
	var xs []float64
	for _, r := range rs {
		xs = append(xs, r.Lo)
	}
	slices.Sort(xs)
	return xs
}

// upperEnds are the upper ends, sorted; an open one is infinite.
func upperEnds(rs []verdict.Range) []float64 {
	var xs []float64
	for _, r := range rs {
		x := math.Inf(1)
		if r.Hi != nil {
			x = *r.Hi
		}
		xs = append(xs, x)
	}
	slices.Sort(xs)
	return xs
}
