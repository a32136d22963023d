package stats

import "testing"

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
