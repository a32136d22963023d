package stats

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Range is what is known of a number: it lies within [Lo, Hi]. An end that is not known is infinite.
type Range struct{ Lo, Hi float64 }

// Sample is values of which each lies in a range. The ends are kept apart, each sorted: nothing here asks which belong together.
type Sample struct{ lo, hi []float64 }

// SampleOf makes a sample of values in any order.
func SampleOf(values []Range) Sample {
	s := Sample{make([]float64, len(values)), make([]float64, len(values))}
	for i, v := range values {
		s.lo[i], s.hi[i] = v.Lo, v.Hi
	}
	slices.Sort(s.lo)
	slices.Sort(s.hi)
	return s
}

// N is how many values there are.
func (s Sample) N() int { return len(s.lo) }

// exact reports that each value is known exactly. No lower end is above its upper end, so equal lists are equal pairs.
func (s Sample) exact() bool { return slices.Equal(s.lo, s.hi) }

// with is all values of both.
func (s Sample) with(o Sample) Sample {
	all := Sample{slices.Concat(s.lo, o.lo), slices.Concat(s.hi, o.hi)}
	slices.Sort(all.lo)
	slices.Sort(all.hi)
	return all
}

// Constant reports that all values of both samples are exactly one.
func Constant(a, b Sample) bool {
	all := a.with(b)
	return all.exact() && len(tiesOf(all.lo)) == 1
}

// Ranked is what a rank test says of two samples.
type Ranked struct {
	P           float64 // two-sided: how often chance alone would part two samples of one population at least so far
	Superiority Range   // chance that a value of the second is above one of the first, ties half: what the ranges allow
}

// RankTest is the Mann-Whitney test of two samples whose values are ranges: no assignment of distinct values within the ranges gives a
// larger P. So whatever is significant here is significant wherever in its range each value truly lies, and a value whose end was not seen
// is as large as it may be.
//
// A pair counts as ordered only where it surely is. Where all values are exact, ties have the exact distribution given those ties;
// otherwise they count against whatever is claimed. Small samples have the exact distribution, large ones its normal approximation. An
// empty sample gives P 1, and no superiority.
func RankTest(a, b Sample) Ranked {
	pairs := float64(a.N() * b.N())
	if pairs == 0 {
		return Ranked{P: 1, Superiority: Range{0, 1}}
	}
	up, down := surely(a, b), surely(b, a) // pairs in which b, or a, is surely the larger
	if a.exact() && b.exact() {
		mid := (up + pairs - down) / 2 // ties half
		return Ranked{twoSided(tiedTail(a, b, pairs-mid), tiedTail(b, a, mid)), Range{mid / pairs, mid / pairs}}
	}
	return Ranked{twoSided(tail(a.N(), b.N(), pairs-up), tail(a.N(), b.N(), pairs-down)), Range{up / pairs, 1 - down/pairs}}
}

func twoSided(up, down float64) float64 { return min(1, 2*min(up, down)) }

// surely counts the pairs in which the value of b is surely above that of a.
func surely(a, b Sample) float64 {
	n, i := 0, 0
	for _, lo := range b.lo {
		for i < len(a.hi) && a.hi[i] < lo {
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

// tiedTail is the chance, given the ties among the exact values of a and b, that the statistic of a (pairs in which it is the larger, ties
// half) is at most u.
func tiedTail(a, b Sample, u float64) float64 {
	ties := tiesOf(a.with(b).lo)
	switch {
	case len(ties) == 1: // all the same
		return 1
	case len(ties) == a.N()+b.N():
		return tail(a.N(), b.N(), u)
	case max(a.N(), b.N()) <= stats.MannWhitneyTiesExactLimit:
		return min(1, stats.UDist{N1: a.N(), N2: b.N(), T: ties}.CDF(u))
	}
	r, err := stats.MannWhitneyUTest(a.lo, b.lo, stats.LocationLess)
	if err != nil { // empty, or all the same: both were answered above
		return 1
	}
	return r.P
}

// tiesOf counts the values of each rank among sorted ones.
func tiesOf(sorted []float64) []int {
	var ties []int
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			ties = append(ties, 0)
		}
		ties[len(ties)-1]++
	}
	return ties
}

// ExtremeP is the smallest P that RankTest can give to samples of this size and, where all values are exact, with these ties: what the
// data could show at best, however the values were dealt to the two sides.
func ExtremeP(a, b Sample) float64 {
	if !a.exact() || !b.exact() {
		return SmallestP(a.N(), b.N())
	}
	all := a.with(b).lo
	parted := func(n int) float64 {
		low, high := Sample{all[:n], all[:n]}, Sample{all[n:], all[n:]}
		return RankTest(low, high).P
	}
	return min(parted(a.N()), parted(b.N()))
}

// SmallestP is the P of samples of n and m values of which one lies wholly above the other.
func SmallestP(n, m int) float64 {
	if n == 0 || m == 0 {
		return 1
	}
	return min(1, 2*tail(n, m, 0))
}

// ValuesNeeded is the size of two equal samples from which on a P of alpha is possible.
func ValuesNeeded(alpha float64) int {
	n := 1
	for SmallestP(n, n) > alpha {
		n++
	}
	return n
}
