package stats

import (
	"math/rand/v2"
	"testing"
)

func TestTrialsNeeded(t *testing.T) {
	for _, c := range []struct {
		p            float64
		misses, want int
	}{{0.90, 0, 29}, {0.95, 0, 59}, {0.99, 0, 299}, {0.90, 1, 46}, {0.95, 1, 93}, {0.99, 1, 473}, {0.5, 0, 5}} {
		if got := TrialsNeeded(c.p, c.misses); got != c.want {
			t.Errorf("p%g with %d misses: %d trials, want %d", c.p*100, c.misses, got, c.want)
		}
	}
}

// The bounds are exact: with the rate at the bound, what was seen has a probability of 5 %.
func TestClopperPearson(t *testing.T) {
	for n := 1; n <= 60; n++ {
		for k := range n + 1 {
			if hi := UpperBound(k, n); k < n && diff(binomial(k, n, hi), Risk) > 1e-6 {
				t.Fatalf("upper bound of %d/%d is %g: P(at most %d) = %g", k, n, hi, k, binomial(k, n, hi))
			}
			if lo := LowerBound(k, n); k > 0 && diff(1-binomial(k-1, n, lo), Risk) > 1e-6 {
				t.Fatalf("lower bound of %d/%d is %g: P(at least %d) = %g", k, n, lo, k, 1-binomial(k-1, n, lo))
			}
		}
	}
}

func diff(a, b float64) float64 { return max(a-b, b-a) }

// binomial is P(X <= k) by adding up.
func binomial(k, n int, p float64) float64 {
	sum, term := 0.0, 1.0
	for range n {
		term *= 1 - p
	}
	if p == 1 {
		if k >= n {
			return 1
		}
		return 0
	}
	for i := range k + 1 {
		sum += term
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}

func TestSequentialTrialsNeeded(t *testing.T) {
	for _, c := range []struct {
		p            float64
		missed, want int
	}{{0.90, 0, 36}, {0.95, 0, 72}, {0.99, 0, 367}, {0.95, 1, 130}, {0.95, 2, 174}} {
		if got := SequentialTrialsNeeded(c.p, c.missed); got != c.want {
			t.Errorf("p%g with %d misses: %d trials, want %d", c.p*100, c.missed, got, c.want)
		}
	}
	for _, c := range []struct {
		missed, n int
		fails     bool
	}{{3, 5, true}, {2, 5, false}, {5, 20, true}, {4, 20, false}} {
		if got := SequentialFail(0.95, c.missed, c.n); got != c.fails {
			t.Errorf("p95 with %d of %d missed: fails %t, want %t", c.missed, c.n, got, c.fails)
		}
	}
}

// A system that is exactly at its limit is looked at after each of 1,000 trials. Neither word is ever said wrongly in more than one sequence
// of twenty, where the test for a fixed number of trials says pass in one of four.
func TestLookingAfterEachTrialMisleadsInAtMostOneSequenceOfTwenty(t *testing.T) {
	const sequences, looks, p = 30_000, 1_000, 0.95
	passAt, failFrom, fixedAt := make([]int, looks+1), make([]int, looks+1), make([]int, looks+1) // the most misses that pass, the fewest that fail
	for n := 1; n <= looks; n++ {
		passAt[n], failFrom[n], fixedAt[n] = passAt[n-1], max(failFrom[n-1], 1), fixedAt[n-1]
		if n == 1 {
			passAt[n], fixedAt[n] = -1, -1
		}
		for SequentialPass(p, passAt[n]+1, n) {
			passAt[n]++
		}
		for failFrom[n] <= n && !SequentialFail(p, failFrom[n], n) {
			failFrom[n]++
		}
		for UpperBound(fixedAt[n]+1, n) <= 1-p {
			fixedAt[n]++
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var passed, failed, fixed int
	for range sequences {
		missed, pass, fail, once := 0, false, false, false
		for n := 1; n <= looks; n++ {
			if r.Float64() < 1-p {
				missed++
			}
			pass, fail, once = pass || missed <= passAt[n], fail || missed >= failFrom[n], once || missed <= fixedAt[n]
		}
		passed, failed, fixed = passed+count(pass), failed+count(fail), fixed+count(once)
	}
	share := func(n int) float64 { return float64(n) / sequences }
	t.Logf("passed %.3f, failed %.3f; by the test for a fixed number %.3f", share(passed), share(failed), share(fixed))
	if share(passed) > Risk || share(failed) > Risk {
		t.Errorf("wrongly passed %.3f and failed %.3f of the sequences, want at most %g", share(passed), share(failed), Risk)
	}
	if share(passed) < 0.02 || share(failed) < 0.02 || share(fixed) < 0.1 {
		t.Errorf("passed %.3f, failed %.3f, fixed %.3f: the simulation does not reach the limit it is about", share(passed), share(failed), share(fixed))
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
