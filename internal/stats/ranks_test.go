package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	moremath "github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// points are values that are known exactly.
func points(xs ...float64) Sample {
	var rs []Range
	for _, x := range xs {
		rs = append(rs, Range{x, x})
	}
	return SampleOf(rs)
}

// wilcoxonByHand is the two-sided exact permutation P: every way to deal the pooled values to the sides is written down.
func wilcoxonByHand(a, b []float64) float64 {
	all := append(slices.Clone(a), b...)
	score := func(inB uint) (u float64) {
		for i, x := range all {
			for j, y := range all {
				if inB>>i&1 == 0 && inB>>j&1 == 1 {
					switch {
					case y > x:
						u++
					case y == x:
						u += 0.5
					}
				}
			}
		}
		return u
	}
	seen := score((1<<len(b) - 1) << len(a))
	var total, above, below float64
	for deal := uint(0); deal < 1<<len(all); deal++ {
		if n := bitsOf(deal); n != len(b) {
			continue
		}
		u := score(deal)
		total++
		if u >= seen {
			above++
		}
		if u <= seen {
			below++
		}
	}
	return min(1, 2*min(above, below)/total)
}

func bitsOf(x uint) (n int) {
	for ; x != 0; x &= x - 1 {
		n++
	}
	return n
}

// Values that others have published: Hollander and Wolfe, example 4.1 (permeability of membranes) has a one-sided exact P of 0.1272;
// the rest follows from counting.
func TestRankTestAgainstKnownValues(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		p    float64
		up   bool
	}{
		{[]float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}, []float64{1.15, 0.88, 0.90, 0.74, 1.21}, 2 * 0.1272, false},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70, true},
		{[]float64{5, 6, 7}, []float64{1, 2, 3, 4, 4.5}, 2.0 / 56, false},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1, true},
		{[]float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 1, false},
		{[]float64{0, 0, 0, 0}, []float64{0, 0, 0, 1}, 1, true},
		{nil, []float64{1}, 1, false},
	} {
		got := RankTest(points(c.a...), points(c.b...))
		up := got.Superiority.Lo > 0.5
		if math.Abs(got.P-c.p) > 5e-5 || up != c.up {
			t.Errorf("%v and %v: P %.5f up %v, want %.5f %v", c.a, c.b, got.P, up, c.p, c.up)
		}
	}
}

func TestRankTestAgainstEveryPermutation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		kinds := 2 + rnd.IntN(12) // few kinds of values give many ties
		deal := func() (xs []float64) {
			for range 1 + rnd.IntN(5) {
				xs = append(xs, float64(rnd.IntN(kinds)))
			}
			return xs
		}
		a, b := deal(), deal()
		want := wilcoxonByHand(a, b)
		if got := RankTest(points(a...), points(b...)); math.Abs(got.P-want) > 1e-9 {
			t.Fatalf("%v and %v: P %v, every permutation says %v", a, b, got.P, want)
		}
		if got := ExtremeP(points(a...), points(b...)); got > want+1e-9 {
			t.Fatalf("%v and %v: P %v is below the extreme %v", a, b, want, got)
		}
	}
}

// Where exact distributions cost too much, the approximation takes over without a step.
func TestLargeSamplesAreApproximated(t *testing.T) {
	for _, n := range []int{150, 400} { // beyond maxWork at these u
		for _, z := range []float64{-2.6, -1.96, -1} {
			pairs := float64(n * n)
			u := math.Floor(pairs/2 + z*math.Sqrt(pairs*float64(2*n+1)/12))
			if pairs*u <= maxWork {
				t.Fatalf("%d values a side are not beyond maxWork", n)
			}
			got, want := tail(n, n, u), distuv.UnitNormal.CDF(z)
			if math.Abs(got-want) > 0.02*want {
				t.Errorf("n %d, z %g: %g, want %g", n, z, got, want)
			}
		}
	}
	// And it is close to the exact one at the border, with ties and without.
	const n, u = 60, 1400
	exact := moremath.UDist{N1: n, N2: n}.CDF(u)
	normal := distuv.UnitNormal.CDF((u + 0.5 - n*n/2) / math.Sqrt(n*n*(2*n+1)/12.0))
	if math.Abs(exact-normal) > 0.01*exact {
		t.Errorf("exact %g, approximated %g", exact, normal)
	}
	rnd := rand.New(rand.NewPCG(15, 16))
	var a, b []float64
	for range 26 {
		a, b = append(a, float64(rnd.IntN(12))), append(b, float64(rnd.IntN(12)+2))
	}
	large := RankTest(points(a...), points(b...)).P
	small := RankTest(points(a[:25]...), points(b[:25]...)).P
	if large <= 0 || math.Abs(math.Log(large/small)) > 1 {
		t.Errorf("with 25 values a side P is %g, with 26 it is %g", small, large)
	}
}

// The promise of ranges: P is that of the least favourable distinct values, and no larger than it must be.
func TestRankTestTakesTheLeastFavourableValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	attained, worlds := 0, 0
	for range 150 {
		// No end of a range of the one side touches one of the other, where distinct values could not do what equal ones do.
		var rs []Range
		for i := range 6 {
			lo := float64(4*rnd.IntN(4) + 2*(i/3))
			r := Range{lo, lo + []float64{0, 1, 3, 5}[rnd.IntN(4)]}
			if rnd.IntN(8) == 0 {
				r.Hi = math.Inf(1)
			}
			rs = append(rs, r)
		}
		a, b := SampleOf(rs[:3]), SampleOf(rs[3:])
		if a.exact() && b.exact() {
			continue
		}
		got, worst := RankTest(a, b).P, 0.0
		everyDistinct(rs, func(xs []float64) { worst = max(worst, wilcoxonByHand(xs[:3], xs[3:])) })
		if worst > got+1e-9 {
			t.Fatalf("%v and %v: P %v, but some values in these ranges give %v", rs[:3], rs[3:], got, worst)
		}
		if worst == 0 { // the same exact value twice
			continue
		}
		worlds++
		if math.Abs(worst-got) < 1e-9 {
			attained++
		}
	}
	if worlds < 100 || attained < worlds*9/10 { // the rest: each direction has a worst case of its own
		t.Errorf("the bound was attained in %d of %d worlds only: it is wider than it must be", attained, worlds)
	}
}

// Ranges that touch may hold the same value: such a pair is not surely ordered.
func TestRankTestOfRangesThatTouch(t *testing.T) {
	a, b := SampleOf([]Range{{0, 1}, {0, 1}}), SampleOf([]Range{{1, 2}, {1, 2}})
	if got := RankTest(a, b); got.P != 1 || got.Superiority != (Range{0, 1}) {
		t.Errorf("%+v", got)
	}
}

// everyDistinct calls f with values in the ranges, no two of them equal, until every order was seen that corners and steps between
// them can give.
func everyDistinct(rs []Range, f func([]float64)) {
	xs := make([]float64, len(rs))
	var deal func(i int)
	deal = func(i int) {
		if i == len(rs) {
			f(xs)
			return
		}
		hi := min(rs[i].Hi, 24)
		nudge := float64(i+1) / 100 // distinct, and far less than a step
		for _, x := range []float64{rs[i].Lo + nudge, rs[i].Lo + 1 - nudge, hi - nudge} {
			if x <= hi && x >= rs[i].Lo && !slices.Contains(xs[:i], x) {
				xs[i] = x
				deal(i + 1)
			}
		}
		if hi == rs[i].Lo && !slices.Contains(xs[:i], hi) {
			xs[i] = hi
			deal(i + 1)
		}
	}
	deal(0)
}
