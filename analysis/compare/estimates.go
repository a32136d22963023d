package compare

import (
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// medianOf is what the ranges allow for the median of a sample; nil for an empty one.
func medianOf(rs []verdict.Range) *verdict.Interval {
	if len(rs) == 0 {
		return nil
	}
	return interval(middleOf(lowerEnds(rs)), middleOf(upperEnds(rs)))
}

func middleOf(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	a, b := sorted[n/2-1], sorted[n/2]
	return a + (b-a)/2
}

// medianWithin is the confidence interval of the median: two order statistics, exact for any distribution, the lower one of the
// lower ends and the upper one of the upper ends. nil where the sample is too small for any (under 6 values at 95 %).
func medianWithin(rs []verdict.Range, confidence float64) *verdict.Interval {
	n := len(rs)
	k := 0                                                                                 // the k-th from either end
	for k < n && mathext.RegIncBeta(float64(n-k), float64(k+1), 0.5) <= (1-confidence)/2 { // at most k of n are below the median
		k++
	}
	if k == 0 {
		return nil
	}
	return interval(lowerEnds(rs)[k-1], upperEnds(rs)[n-k])
}

// shiftOf is what the ranges allow for the Hodges-Lehmann shift from a to b: the median of all differences between a value of b and
// one of a. nil where one of them is empty.
func shiftOf(a, b []verdict.Range) *verdict.Interval {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	d := differencesOf(a, b)
	n := d.n()
	mid := func(of func(int) float64) float64 {
		x, y := of((n+1)/2), of(n/2+1)
		if x == y { // infinite ones too
			return x
		}
		return x + (y-x)/2
	}
	return interval(mid(d.lower), mid(d.upper))
}

// shiftWithin is the confidence interval of the shift: the shifts that the rank test would not reject, whatever the values within
// their ranges are. nil where the samples are too small for any.
func shiftWithin(a, b []verdict.Range, confidence float64) *verdict.Interval {
	d := differencesOf(a, b)
	k, beyond := 0, d.n()/2+1 // the k-th difference from either end; found by halves
	for beyond-k > 1 {
		half := k + (beyond-k)/2
		if tail(len(a), len(b), float64(half-1)) <= (1-confidence)/2 {
			k = half
		} else {
			beyond = half
		}
	}
	if k == 0 {
		return nil
	}
	return interval(d.lower(k), d.upper(d.n()+1-k))
}

// differences are all differences between a value of b and one of a, which are too many to write down.
type differences struct{ aLo, aHi, bLo, bHi []float64 }

func differencesOf(a, b []verdict.Range) differences {
	return differences{lowerEnds(a), upperEnds(a), lowerEnds(b), upperEnds(b)}
}

func (d differences) n() int { return len(d.aLo) * len(d.bLo) }

// lower is the k-th smallest of the lower ends of the differences, k from 1.
func (d differences) lower(k int) float64 { return kthDifference(d.aHi, d.bLo, k) }

// upper is the k-th smallest of the upper ends.
func (d differences) upper(k int) float64 { return kthDifference(d.aLo, d.bHi, k) }

// kthDifference is the k-th smallest of b - a over all pairs of two sorted lists: the smallest number that k differences do not
// exceed, found by halving the numbers themselves, in their order as bits.
func kthDifference(a, b []float64, k int) float64 {
	low, high := ordered(math.Inf(-1)), ordered(math.Inf(1))
	for low < high {
		half := low + (high-low)/2
		if upTo(a, b, fromOrdered(half)) >= k {
			high = half
		} else {
			low = half + 1
		}
	}
	return fromOrdered(low) + 0 // no -0
}

// upTo counts the differences b - a that are at most t.
func upTo(a, b []float64, t float64) int {
	n, i := 0, 0
	for _, y := range b {
		for i < len(a) && y-a[i] > t { // a larger y needs a larger a
			i++
		}
		n += len(a) - i
	}
	return n
}

const signBit = 1 << 63

// ordered maps floats to integers in the same order.
func ordered(f float64) uint64 {
	if b := math.Float64bits(f); b&signBit != 0 {
		return ^b
	} else {
		return b | signBit
	}
}

func fromOrdered(u uint64) float64 {
	if u&signBit != 0 {
		return math.Float64frombits(u &^ signBit)
	}
	return math.Float64frombits(^u)
}

// interval is [lo, hi], infinite ends open.
func interval(lo, hi float64) *verdict.Interval {
	var i verdict.Interval
	if !math.IsInf(lo, 0) {
		i.Lo = &lo
	}
	if !math.IsInf(hi, 0) {
		i.Hi = &hi
	}
	return &i
}
