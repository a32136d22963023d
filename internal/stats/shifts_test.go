package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Order statistics for the median at 95 %, as tables have them: n 6 [1, 6], 10 [2, 9], 20 [6, 15], 100 [40, 61].
func TestMedianWithinTakesTheOrdersOfTheTables(t *testing.T) {
	for n, want := range map[int][2]float64{6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 10: {2, 9}, 20: {6, 15}, 30: {10, 21}, 100: {40, 61}} {
		var xs []float64
		for i := range n {
			xs = append(xs, float64(n-i))
		}
		if got, ok := points(xs...).MedianWithin(0.95); !ok || got != (Range{want[0], want[1]}) {
			t.Errorf("n %d: %v, want %v", n, got, want)
		}
	}
	if got, ok := points(1, 2, 3, 4, 5).MedianWithin(0.95); ok {
		t.Errorf("5 values have an interval: %v", got)
	}
}

// Hollander and Wolfe, the same example: the shift is -0.305, and its 95 % interval [-0.76, 0.15].
func TestShiftAgainstKnownValues(t *testing.T) {
	a := points(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46)
	b := points(1.15, 0.88, 0.90, 0.74, 1.21)
	if shift := Shift(a, b); math.Abs(shift.Lo+0.305) > 1e-9 || shift.Lo != shift.Hi {
		t.Errorf("shift %v, want -0.305", shift)
	}
	if within, ok := ShiftWithin(a, b, 0.95); !ok || math.Abs(within.Lo+0.76) > 1e-9 || math.Abs(within.Hi-0.15) > 1e-9 {
		t.Errorf("shift within %v, want [-0.76, 0.15]", within)
	}
	if got, ok := ShiftWithin(points(1, 2, 3), points(1, 2, 3), 0.95); ok {
		t.Errorf("3 values a side have an interval at 95 %%: %v", got)
	}
}

func TestKthDifferenceAgainstAllDifferences(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		deal := func() (xs []float64) {
			for range 1 + rnd.IntN(6) {
				xs = append(xs, float64(rnd.IntN(9)-4)/4*[]float64{1, 1e-7, 1e6}[rnd.IntN(3)])
			}
			slices.Sort(xs)
			return xs
		}
		a, b := deal(), deal()
		var all []float64
		for _, x := range a {
			for _, y := range b {
				all = append(all, y-x)
			}
		}
		slices.Sort(all)
		for i, want := range all {
			if got := kthDifference(a, b, i+1); got != want {
				t.Fatalf("%v and %v: difference %d is %v, want %v", a, b, i+1, got, want)
			}
		}
	}
}

// Whatever the values are within their ranges, every estimate holds what it would be for them.
func TestEstimatesHoldWhateverTheRangesAllow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		deal := func(n int) (ranges, truth Sample) {
			var rs []Range
			var xs []float64
			for range n {
				lo := rnd.Float64() * 10
				r := Range{lo, lo + rnd.Float64()*3}
				xs = append(xs, lo+rnd.Float64()*(r.Hi-lo))
				if rnd.IntN(10) == 0 {
					r.Hi = math.Inf(1)
				}
				rs = append(rs, r)
			}
			return SampleOf(rs), points(xs...)
		}
		a, truthA := deal(4 + rnd.IntN(5))
		b, truthB := deal(4 + rnd.IntN(5))
		within := func(r Range, ok bool) Range {
			if !ok {
				return Range{math.Inf(-1), math.Inf(1)}
			}
			return r
		}
		for what, of := range map[string][2]Range{
			"median":        {a.Median(), truthA.Median()},
			"median within": {within(a.MedianWithin(0.95)), within(truthA.MedianWithin(0.95))},
			"shift":         {Shift(a, b), Shift(truthA, truthB)},
			"shift within":  {within(ShiftWithin(a, b, 0.95)), within(ShiftWithin(truthA, truthB, 0.95))},
			"superiority":   {RankTest(a, b).Superiority, RankTest(truthA, truthB).Superiority},
		} {
			if outer, inner := of[0], of[1]; !(outer.Lo <= inner.Lo && outer.Hi >= inner.Hi) {
				t.Fatalf("%s: %v does not hold %v", what, outer, inner)
			}
		}
	}
}

// What was not seen to end has no upper end in the middle either, however many of them there are.
func TestTheMiddleOfOpenValuesIsOpen(t *testing.T) {
	open := SampleOf([]Range{{1, math.Inf(1)}, {2, math.Inf(1)}})
	if got := open.Median(); got != (Range{1.5, math.Inf(1)}) {
		t.Errorf("median %v", got)
	}
	if got := Shift(points(1, 1), open); got != (Range{0.5, math.Inf(1)}) {
		t.Errorf("shift %v", got)
	}
	half := SampleOf([]Range{{1, 1}, {2, math.Inf(1)}}) // the middle of all differences lies between a known one and an unknown one
	if got := Shift(half, points(5)); got != (Range{math.Inf(-1), 3.5}) {
		t.Errorf("shift from half-open values %v", got)
	}
}

// The intervals are worth their name: of 2,000 worlds with a known median and shift, at least 95 % of them hold it.
func TestIntervalsCoverTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	const worlds, shift = 2000, 0.7
	median, moved := 0, 0
	for range worlds {
		deal := func(n int, by float64) Sample {
			xs := make([]float64, n)
			for i := range xs {
				xs[i] = rnd.ExpFloat64() + by
			}
			return points(xs...)
		}
		a, b := deal(12, 0), deal(9, shift)
		if i, ok := a.MedianWithin(0.95); ok && i.Lo <= math.Ln2 && math.Ln2 <= i.Hi {
			median++
		}
		if i, ok := ShiftWithin(a, b, 0.95); ok && i.Lo <= shift && shift <= i.Hi {
			moved++
		}
	}
	// 95 % or more of them; a count below this would happen once in a thousand times.
	least := int(distuv.Binomial{N: worlds, P: 0.95}.Mean() - 3.1*distuv.Binomial{N: worlds, P: 0.95}.StdDev())
	if median < least || moved < least {
		t.Errorf("of %d intervals %d held the median and %d the shift, want at least %d", worlds, median, moved, least)
	}
}
