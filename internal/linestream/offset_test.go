package linestream

import (
	"math/rand/v2"
	"testing"

	"github.com/lockdrill/lockdrill/history"
)

// Two clocks go apart by a random walk within the allowance; syncs take random times. The true offset lies in the bracket at every
// instant, before and after a sync, and never is the bracket wider than the narrowest sync with the drift since.
func TestTheTrueOffsetIsAlwaysInside(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		runner, pod := random.Int64N(1e15), random.Int64N(1e15)
		step := func(ns int64) { // pass some time: the offset moves by at most 1/drift of the pod's
			runner += ns
			pod += ns + (random.Int64N(2*ns+1)-ns)/(drift+1)
		}
		type instant struct{ runner, pod int64 }
		var passed []instant
		var e estimate
		narrowest := int64(1 << 62)
		for range 200 {
			step(random.Int64N(3e8))
			asked := runner
			step(random.Int64N(2e6))
			at := instant{runner, pod}
			step(random.Int64N(2e6))
			before := e
			if !e.add(asked, at.pod, runner) {
				t.Fatalf("seed %d: two honest clocks contradict one another", seed)
			}
			if before.known {
				narrowest += 2 * widening(before.At, at.pod)
			}
			if narrowest = min(narrowest, runner-asked); e.Hi-e.Lo > narrowest {
				t.Fatalf("seed %d: bracket of %d ns, want at most %d", seed, e.Hi-e.Lo, narrowest)
			}
			passed = append(passed, at, instant{runner, pod})
			for _, at := range passed[max(0, len(passed)-20):] {
				if lo, hi := e.When(at.pod); at.pod-at.runner < lo || at.pod-at.runner > hi {
					t.Fatalf("seed %d: true offset %d is not in [%d, %d]", seed, at.pod-at.runner, lo, hi)
				}
				if s := e.Runner(history.At(at.pod)); at.runner < s.From || at.runner > s.To {
					t.Fatalf("seed %d: true instant %d is not in %v", seed, at.runner, s)
				}
			}
		}
	}
}

func TestMoreSyncsNarrowTheBracket(t *testing.T) {
	var e estimate
	e.add(0, 1_000_000, 2_000_000)       // [-1 ms, 1 ms]
	e.add(10_000, 1_000_000, 3_000_000)  // the answer came late: tells of the upper end only
	e.add(500, 1_000_000, 1_000_500)     // [-500 ns, 999.5 us]
	e.add(900_000, 1_000_000, 9_000_000) // asked late
	if want := (Offset{Lo: -500, Hi: 100_000, At: 1_000_000}); e.Offset != want {
		t.Errorf("%+v, want %+v", e.Offset, want)
	}
}

func TestAClockThatJumpsContradicts(t *testing.T) {
	for _, jump := range []int64{1_000_000, -1_000_000} {
		var e estimate
		if !e.add(0, 5_000, 10_000) || e.add(1_000_000, 1_005_000+jump, 1_010_000) {
			t.Errorf("a jump of %d ns within a millisecond: %+v", jump, e)
		}
	}
	var e estimate
	if !e.add(0, 5_000, 10_000) || e.add(0, 4_000, 10_000) {
		t.Errorf("the pod's clock ran backwards: %+v", e)
	}
}
