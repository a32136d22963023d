package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Median is what the ranges allow for the median of a sample, which is not empty.
func (s Sample) Median() Range { return Range{middleOf(s.lo), middleOf(s.hi)} }

func middleOf(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return between(sorted[n/2-1], sorted[n/2])
}

// between is the middle of x and y, which is infinite where one of them is. They are never infinite to either side.
func between(x, y float64) float64 {
	if math.IsInf(x, 0) || math.IsInf(y, 0) {
		return x + y
	}
	return x + (y-x)/2
}

// MedianWithin is the confidence interval of the median: two order statistics, exact for any distribution, the lower one of the lower ends
// and the upper one of the upper ends. There is none where the sample is too small (under 6 values at 95 %).
func (s Sample) MedianWithin(confidence float64) (within Range, ok bool) {
	n := s.N()
	k := 0                                                                                 // the k-th from either end
	for k < n && mathext.RegIncBeta(float64(n-k), float64(k+1), 0.5) <= (1-confidence)/2 { // at most k of n are below the median
		k++
	}
	if k == 0 {
		return Range{}, false
	}
	return Range{s.lo[k-1], s.hi[n-k]}, true
}

// Shift is what the ranges allow for the Hodges-Lehmann shift from a to b, neither of which is empty: the median of all differences between
// a value of b and one of a.
func Shift(a, b Sample) Range {
	d := differences{a, b}
	n := d.n()
	return Range{between(d.lower((n+1)/2), d.lower(n/2+1)), between(d.upper((n+1)/2), d.upper(n/2+1))}
}

// ShiftWithin is the confidence interval of the shift: the shifts that the rank test would not reject, whatever the values within their
// ranges are. There is none where the samples are too small.
func ShiftWithin(a, b Sample, confidence float64) (within Range, ok bool) {
	d := differences{a, b}
	k, beyond := 0, d.n()/2+1 // the k-th difference from either end; found by halves
	for beyond-k > 1 {
		half := k + (beyond-k)/2
		if tail(a.N(), b.N(), float64(half-1)) <= (1-confidence)/2 {
			k = half
		} else {
			beyond = half
		}
	}
	if k == 0 {
		return Range{}, false
	}
	return Range{d.lower(k), d.upper(d.n() + 1 - k)}, true
}

// differences are all differences between a value of b and one of a, which are too many to write down.
type differences struct{ a, b Sample }

func (d differences) n() int { return d.a.N() * d.b.N() }

// lower is the k-th smallest of the lower ends of the differences, k from 1.
func (d differences) lower(k int) float64 { return kthDifference(d.a.hi, d.b.lo, k) }

// upper is the k-th smallest of the upper ends.
func (d differences) upper(k int) float64 { return kthDifference(d.a.lo, d.b.hi, k) }

// kthDifference is the k-th smallest of b - a over all pairs of two sorted lists: the smallest number that k differences do not exceed,
// found by halving the numbers themselves, in their order as bits.
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
