package forecast

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
)

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
	if share(passed) > risk || share(failed) > risk {
		t.Errorf("wrongly passed %.3f and failed %.3f of the sequences, want at most %g", share(passed), share(failed), risk)
	}
	if share(passed) < 0.02 || share(failed) < 0.02 || share(fixed) < 0.1 {
		t.Errorf("passed %.3f, failed %.3f, fixed %.3f: the simulation does not reach the limit it is about", share(passed), share(failed), share(fixed))
	}
}

// The table that validate refuses by is what the test takes.
func TestCleanTrials(t *testing.T) {
	for name, p := range map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99} {
		if got, want := experiments.CleanTrials(name), SequentialTrialsNeeded(p, 0); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// Runs that repeat until answered, of a system that is exactly at its limit: each stops where its trials say so, or at its most. At most one
// of twenty ends with a wrong pass, and at most one with a wrong fail. A system well within its limit is answered with a pass.
func TestStoppingOnceAnsweredMisleadsInAtMostOneRunOfTwenty(t *testing.T) {
	const runs, most = 20_000, 600
	type look struct{ n, missed int }
	answers := map[look]verdict.Verdict{}
	answer := func(q *Question) verdict.Verdict {
		at := look{q.N, q.Maybe}
		v, known := answers[at]
		if !known {
			v = q.Answer()
			answers[at] = v
		}
		return v
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		misses               float64
		leastPass, mostPass  float64
		leastFail, mostFails float64
	}{{0.05, 0.02, 0.05, 0.015, 0.05}, {0.005, 0.99, 1, 0, 0.01}, {0.2, 0, 0.001, 0.99, 1}} {
		passed, failed := 0, 0
		for range runs {
			q := &Question{Limit: Limit{Name: "p95", P: 0.95, Value: time.Second}}
			for q.N < most && (q.N == 0 || answer(q) == verdict.Inconclusive) {
				took := time.Second / 2
				if r.Float64() < c.misses {
					took = 2 * time.Second
				}
				q.Note(took, took)
			}
			passed, failed = passed+count(answer(q) == verdict.Pass), failed+count(answer(q) == verdict.Fail)
		}
		pass, fail := float64(passed)/runs, float64(failed)/runs
		t.Logf("%g of the trials miss: %.4f passed, %.4f failed", c.misses, pass, fail)
		if pass < c.leastPass || pass > c.mostPass || fail < c.leastFail || fail > c.mostFails {
			t.Errorf("%g of the trials miss: %.4f passed and %.4f failed, want %g to %g and %g to %g", c.misses, pass, fail, c.leastPass, c.mostPass, c.leastFail, c.mostFails)
		}
	}
}

func TestWhatASREReadsOfAQuestion(t *testing.T) {
	q := &Question{Limit: Limit{Name: "p95", P: 0.95, Value: time.Second}}
	for range 64 {
		q.Note(time.Millisecond, time.Millisecond)
	}
	if got, want := q.Says("kill"), "64 kills seen, none missed the limit: a p95 needs about 8 more that keep it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	q.Note(time.Millisecond, 2*time.Second) // not seen to end
	if got, want := q.Says("kill"), "65 kills seen, 1 may have missed the limit: a p95 needs about 65 more that keep it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
