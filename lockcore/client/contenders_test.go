package client_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

var seedFlag = flag.Uint64("seed", 0, "the one seed that the tests of contenders replay, with everything that happens in it; 0 = all")

// Three contenders under policies that lint clean, with delays, lost replies, errors, pauses: none of what they do to the resource is
// stale; and as long as pauses, flights and clocks are within what the policy declares, they never believe at once, and nothing is
// done by who does not own the key.
func TestThreeContenders(t *testing.T) {
	seen := runSeeds(t, 1, func(seed uint64) *world {
		class := []lockcore.Class{lockcore.Critical, lockcore.Standard}[seed%2]
		p := cleanPolicy(dice(seed, 0, choosePolicy, 0), class)
		return newWorld(seed, p, randomLimits(dice(seed, 0, chooseLimits, 0), p))
	})
	if *seedFlag != 0 {
		return
	}
	for _, what := range []string{"grants", "pauses", "acquires undone", "keys deleted", "effects applied", "effects fenced off",
		"effects unowned beyond bounds", "overlaps", "beliefs ended by deadline", "beliefs ended by count", "beliefs ended by not_owned",
		"beliefs ended by context"} {
		if seen[what] == 0 {
			t.Errorf("no %s in any seed: these tests do not reach what they are about", what)
		}
	}
}

// seeds are those that a test runs which takes its share of them all: LOCKDRILL_TEST_SEEDS says how many there are.
func seeds(t *testing.T, share uint64) (first, last uint64) {
	t.Helper()
	n := uint64(2_500)
	text := os.Getenv("LOCKDRILL_TEST_SEEDS")
	switch {
	case *seedFlag != 0:
		return *seedFlag, *seedFlag
	case text != "":
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("LOCKDRILL_TEST_SEEDS: %v", err)
		}
	case testing.Short():
		n = 300
	case raced():
		n = 1000
	}
	return 1, max(1, n/share)
}

// raced reports whether the race detector is on: everything takes ten times as long.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// replay is where a world tells what happens in it: nowhere, where all seeds are run.
func replay(t *testing.T) func(format string, args ...any) {
	if *seedFlag == 0 {
		return nil
	}
	return t.Logf
}

// runSeeds runs the worlds of all seeds and adds up what was seen in them. A few that fail are enough.
func runSeeds(t *testing.T, share uint64, create func(seed uint64) *world) map[string]int {
	t.Helper()
	first, last := seeds(t, share)
	seen := map[string]int{}
	for seed, failed := first, 0; seed <= last && failed < 5; seed++ {
		var w *world
		synctest.Test(t, func(t *testing.T) {
			w = create(seed)
			w.log = replay(t)
			w.run(t)
		})
		for what, n := range w.seen {
			seen[what] += n
		}
		if len(w.problems) > 0 {
			failed++
			t.Errorf("seed %d: %q\npolicy %+v\nlimits %+v", seed, w.problems[:min(3, len(w.problems))], w.policy, w.limits)
			t.Logf("replay (which goroutine is first at one instant, the scheduler decides; hence -count):\n"+
				"go test ./lockcore/client -run '^%s$' -seed %d -v -count 10", t.Name(), seed)
		}
	}
	t.Logf("seeds %d to %d: %v", first, last, seen)
	return seen
}

// cleanPolicy is a random policy against which no lint has anything.
func cleanPolicy(rng *rand.Rand, class lockcore.Class) lockcore.Policy {
	for {
		p := randomPolicy(rng, class)
		if p.Validate() == nil && lints(p) == "" {
			return p
		}
	}
}

// lints names the first rule that speaks against p.
func lints(p lockcore.Policy) string {
	for _, s := range lockcore.Lints(p, lockcore.Facts{Contenders: 3, WorkP99: p.TTL / 4}) {
		if !s.OK {
			return s.Rule
		}
	}
	return ""
}

// randomPolicy is any policy of a class, wise or not.
func randomPolicy(rng *rand.Rand, class lockcore.Class) lockcore.Policy {
	ttl := time.Duration(float64(200*time.Millisecond) * float64(int(1)<<rng.IntN(6)) * (1 + rng.Float64()))
	p := lockcore.Policy{
		TTL: ttl, RenewEvery: share(rng, ttl, 0.05, 0.45), RenewJitter: []float64{0, 0.1, 0.3}[rng.IntN(3)], Class: class,
		OpTimeout: share(rng, ttl, 0.02, 0.4), Drift: share(rng, ttl, 0, 0.1), StopBudget: share(rng, ttl, 0.02, 0.3),
		Release: lockcore.Release{
			Mode:     []lockcore.ReleaseMode{lockcore.ReleaseNone, lockcore.ReleaseSingle, lockcore.ReleaseBoundedRetry, lockcore.ReleaseBoundedRetry}[rng.IntN(4)],
			Attempts: 1 + rng.IntN(3), Timeout: share(rng, ttl, 0.02, 0.3),
			AfterAbandon: []lockcore.AfterAbandon{lockcore.AfterAbandonSkip, lockcore.AfterAbandonStopped}[rng.IntN(2)],
		},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: share(rng, ttl, 0.01, 0.2)},
	}
	if class != lockcore.Standard {
		p.MaxFailures = 1 + rng.IntN(4)
	}
	if rng.IntN(10) == 0 && class != lockcore.LegacyCount {
		p.RenewEvery = 0
	}
	if rng.IntN(2) == 0 {
		p.Acquire.Mode, p.Acquire.Budget = lockcore.AcquireWait, share(rng, ttl, 1, 2)
		p.Acquire.Backoff = lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: 8*time.Millisecond + share(rng, ttl, 0.02, 0.3)}
		if rng.IntN(2) == 0 {
			p.Acquire.Backoff.Mode, p.Acquire.Backoff.Cap = lockcore.BackoffDecorrelated, p.Acquire.Backoff.Every*4
		}
	}
	return p
}

// boundedLimits stay within the policy: of the stop budget, a part is spent by a pause and the rest by a write that is on its way; the
// store's clock gains at most the drift within a lease.
func boundedLimits(rng *rand.Rand, p lockcore.Policy) limits {
	l := limits{bounded: true, gap: p.StopBudget, deaf: true, rate: 1}
	l.pause = share(rng, p.StopBudget, 0, 1)
	if rng.IntN(2) == 0 {
		l.pause = p.StopBudget - time.Millisecond/2
	}
	l.flight = p.StopBudget - l.pause - time.Microsecond
	drift := p.Drift - time.Microsecond
	switch rng.IntN(3) {
	case 0: // fast
		l.rate = float64(p.TTL) / float64(p.TTL-max(0, drift))
	case 1: // slow
		l.rate = float64(p.TTL) / float64(p.TTL+max(0, drift))
	default:
		l.leap, l.leapAt = max(0, drift), share(rng, p.TTL, 1, 6)
	}
	return l
}

// randomLimits are within bounds in three of four seeds. Beyond them only what the fence promises holds.
func randomLimits(rng *rand.Rand, p lockcore.Policy) limits {
	l := boundedLimits(rng, p)
	beyond := rng.IntN(16)
	if beyond&3 != 0 {
		return l
	}
	l.bounded = false
	switch beyond >> 2 {
	case 0:
		l.deletes = true
	case 1:
		l.pause, l.gap = share(rng, p.TTL, 0.2, 3), time.Millisecond
	case 2:
		l.pause, l.flight = share(rng, p.TTL, 0.2, 3), share(rng, p.TTL, 0.2, 2)
	default:
		l.rate, l.flight, l.deletes = 1+rng.Float64(), share(rng, p.TTL, 0, 1), true
	}
	return l
}
