package verdict

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/stats"
)

// The table that validate refuses by is what the test takes.
func TestCleanTrials(t *testing.T) {
	for name, p := range map[string]float64{"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99} {
		if got, want := experiments.CleanTrials(name), stats.SequentialTrialsNeeded(p, 0); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// Runs that repeat until answered, of a system that is exactly at its limit: each stops where its trials say so, or at its most. At most one
// of twenty ends with a wrong pass, and at most one with a wrong fail. A system well within its limit is answered with a pass.
func TestStoppingOnceAnsweredMisleadsInAtMostOneRunOfTwenty(t *testing.T) {
	const runs, most = 20_000, 600
	type look struct{ n, missed int }
	answers := map[look]Verdict{}
	answer := func(q *Sample) Verdict {
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
			q := &Sample{Question: &experiments.Limit{Trials: true, Quantile: 0.95, At: int64(time.Second)}, Of: "kill", Growing: true}
			for q.N < most && (q.N == 0 || answer(q) == Inconclusive) {
				took := time.Second / 2
				if r.Float64() < c.misses {
					took = 2 * time.Second
				}
				q.Note(took, took)
			}
			passed, failed = passed+count(answer(q) == Pass), failed+count(answer(q) == Fail)
		}
		pass, fail := float64(passed)/runs, float64(failed)/runs
		t.Logf("%g of the trials miss: %.4f passed, %.4f failed", c.misses, pass, fail)
		if pass < c.leastPass || pass > c.mostPass || fail < c.leastFail || fail > c.mostFails {
			t.Errorf("%g of the trials miss: %.4f passed and %.4f failed, want %g to %g and %g to %g", c.misses, pass, fail, c.leastPass, c.mostPass, c.leastFail, c.mostFails)
		}
	}
}

func TestWhatASREReadsOfAQuestion(t *testing.T) {
	q := &Sample{Question: &experiments.Limit{Trials: true, Quantile: 0.95, At: int64(time.Second)}, Of: "kill", Growing: true}
	for range 64 {
		q.Note(time.Millisecond, time.Millisecond)
	}
	if got, want := q.Says(), "64 kills seen, none missed the limit: a p95 needs about 8 more that keep it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	q.Note(time.Millisecond, 2*time.Second) // not seen to end
	if got, want := q.Says(), "65 kills seen, 1 may have missed the limit: a p95 needs about 65 more that keep it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
