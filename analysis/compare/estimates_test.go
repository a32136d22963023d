package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Order statistics for the median at 95 %, as tables have them: n 6 [1, 6], 10 [2, 9], 20 [6, 15], 100 [40, 61].
func TestMedianWithinTakesTheOrdersOfTheTables(t *testing.T) {
	for n, want := range map[int][2]float64{6: {1, 6}, 8: {1, 8}, 9: {2, 8}, 10: {2, 9}, 20: {6, 15}, 30: {10, 21}, 100: {40, 61}} {
		var rs []verdict.Range
		for i := range n {
			rs = append(rs, points(float64(n-i))...)
		}
		got := medianWithin(rs, 0.95)
		if got == nil || *got.Lo != want[0] || *got.Hi != want[1] {
			t.Errorf("n %d: %v, want %v", n, got, want)
		}
	}
	if got := medianWithin(points(1, 2, 3, 4, 5), 0.95); got != nil {
		t.Errorf("5 values have an interval: %v", got)
	}
}

// Hollander and Wolfe, the same example: the shift is -0.305, and its 95 % interval [-0.76, 0.15].
func TestShiftAgainstKnownValues(t *testing.T) {
	a := points(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46)
	b := points(1.15, 0.88, 0.90, 0.74, 1.21)
	shift, within := shiftOf(a, b), shiftWithin(a, b, 0.95)
	if math.Abs(*shift.Lo+0.305) > 1e-9 || *shift.Lo != *shift.Hi {
		t.Errorf("shift %v to %v, want -0.305", *shift.Lo, *shift.Hi)
	}
	if math.Abs(*within.Lo+0.76) > 1e-9 || math.Abs(*within.Hi-0.15) > 1e-9 {
		t.Errorf("shift within [%v, %v], want [-0.76, 0.15]", *within.Lo, *within.Hi)
	}
	if got := shiftWithin(points(1, 2, 3), points(1, 2, 3), 0.95); got != nil {
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
		deal := func(n int) (rs []verdict.Range, xs []verdict.Range) {
			for range n {
				lo := rnd.Float64() * 10
				r := between2(lo, lo+rnd.Float64()*3)
				x := lo + rnd.Float64()*(*r.Hi-lo)
				if rnd.IntN(10) == 0 {
					r.Hi = nil
				}
				rs, xs = append(rs, r), append(xs, points(x)...)
			}
			return rs, xs
		}
		a, truthA := deal(4 + rnd.IntN(5))
		b, truthB := deal(4 + rnd.IntN(5))
		holds(t, "median", medianOf(a), medianOf(truthA))
		holds(t, "median within", medianWithin(a, 0.95), medianWithin(truthA, 0.95))
		holds(t, "shift", shiftOf(a, b), shiftOf(truthA, truthB))
		holds(t, "shift within", shiftWithin(a, b, 0.95), shiftWithin(truthA, truthB, 0.95))
		holds(t, "superiority", &[]verdict.Interval{rankTest(a, b).Superiority}[0], &[]verdict.Interval{rankTest(truthA, truthB).Superiority}[0])
	}
}

func holds(t *testing.T, what string, outer, inner *verdict.Interval) {
	t.Helper()
	if (outer == nil) != (inner == nil) {
		t.Fatalf("%s: %v, and of the values %v", what, outer, inner)
	}
	if outer == nil {
		return
	}
	if outer.Lo != nil && *outer.Lo > *inner.Lo || outer.Hi != nil && *outer.Hi < *inner.Hi {
		t.Fatalf("%s: [%v, %v] does not hold [%v, %v]", what, outer.Lo, outer.Hi, *inner.Lo, *inner.Hi)
	}
}

// The intervals are worth their name: of 2,000 worlds with a known median and shift, at least 95 % of them hold it.
func TestIntervalsCoverTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	const worlds, shift = 2000, 0.7
	median, moved := 0, 0
	for range worlds {
		deal := func(n int, by float64) (rs []verdict.Range) {
			for range n {
				rs = append(rs, points(rnd.ExpFloat64()+by)...)
			}
			return rs
		}
		a, b := deal(12, 0), deal(9, shift)
		if i := medianWithin(a, 0.95); *i.Lo <= math.Ln2 && math.Ln2 <= *i.Hi {
			median++
		}
		if i := shiftWithin(a, b, 0.95); *i.Lo <= shift && shift <= *i.Hi {
			moved++
		}
	}
	// 95 % or more of them; a count below this would happen once in a thousand times.
	least := int(distuv.Binomial{N: worlds, P: 0.95}.Mean() - 3.1*distuv.Binomial{N: worlds, P: 0.95}.StdDev())
	if median < least || moved < least {
		t.Errorf("of %d intervals %d held the median and %d the shift, want at least %d", worlds, median, moved, least)
	}
}
