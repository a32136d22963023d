package client_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// What "agree" means here. L1 says of a policy that counts failures whether its holder has given up before the store gives the key to
// another, whatever the network, the store's clock and a pause do within what the policy declares. Called safe, no seed may show two
// holders; called unsafe, the schedule that the sum describes must show them. A policy with a deadline never has two holders; of
// critical, L1 says whether the count gives up before the deadline does. Of a class that never gives up, it says just that.

// Counting policies that lint clean have never two holders in any seed. One pause a lease at most: the sum has room for one.
func TestCleanCountsNeverOverlap(t *testing.T) {
	seen := runSeeds(t, 5, func(seed uint64) *world {
		p := cleanPolicy(dice(seed, 0, choosePolicy, 0), lockcore.LegacyCount)
		l := boundedLimits(dice(seed, 0, chooseLimits, 0), p)
		l.gap, l.deaf = 2*p.TTL, false // a call that never returns is no failure to count
		return newWorld(seed, p, l)
	})
	if *seedFlag == 0 && seen["beliefs ended by count"] == 0 {
		t.Error("no seed gave up")
	}
}

// The verdict of L1 on policies on both sides of it is what the worst schedule shows.
func TestGiveUpLintAgreesWithTheWorstSchedule(t *testing.T) {
	verdicts := map[bool]int{}
	for seed, last := seeds(t, 5); seed <= last; seed++ {
		rng := dice(seed, 1, choosePolicy, 0)
		p := randomPolicy(rng, []lockcore.Class{lockcore.LegacyCount, lockcore.LegacyCount, lockcore.Critical, lockcore.Standard, lockcore.LegacyWarn}[seed%5])
		p.RenewJitter *= float64(rng.IntN(2))
		p.RenewEvery = max(p.RenewEvery, p.TTL/20)
		safe, near := giveUpVerdict(p)
		if near {
			continue
		}
		verdicts[safe]++
		overlap, reason := worst(t, seed, p)
		switch p.Class {
		case lockcore.Critical:
			if overlap > 0 || safe != (reason == lockcore.ReasonCount) {
				t.Fatalf("seed %d: L1 says %t, two holders for %s, given up by %s: %+v", seed, safe, overlap, reason, p)
			}
		case lockcore.Standard:
			if overlap > 0 || !safe {
				t.Fatalf("seed %d: L1 says %t, two holders for %s: %+v", seed, safe, overlap, p)
			}
		default:
			if safe == (overlap > 0) {
				t.Fatalf("seed %d: L1 says %t, two holders for %s: %+v", seed, safe, overlap, p)
			}
		}
	}
	bothSides(t, "L1", verdicts)
}

// giveUpVerdict is what L1 says; near = it hangs on less than a millisecond, or on how the jitter falls, which no schedule can choose.
func giveUpVerdict(p lockcore.Policy) (safe, near bool) {
	for _, s := range lockcore.Lints(p, lockcore.Facts{}) {
		if s.Rule == "L1" {
			safe = s.OK
		}
	}
	if p.Class != lockcore.LegacyCount && p.Class != lockcore.Critical {
		return safe, false
	}
	least := p
	least.RenewEvery = time.Duration(float64(p.RenewEvery) * (1 - p.RenewJitter))
	least.RenewJitter = 0
	most := lockcore.GiveUpSum(p)
	return safe, (most-p.TTL).Abs() < time.Millisecond || !safe && lockcore.GiveUpSum(least) <= p.TTL+time.Millisecond
}

// worst is the longest overlap that the schedules of L1 bring about, and what ended the holder's belief where nothing paused it.
func worst(t *testing.T, seed uint64, p lockcore.Policy) (overlap time.Duration, reason lockcore.Reason) {
	for answered := range 2 { // hanging from the first renewal on, or from the second
		for _, pause := range []time.Duration{p.StopBudget, 0} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(seed, p, limits{rate: float64(p.TTL) / float64(p.TTL-p.Drift)})
				w.log = replay(t)
				w.aim = hangs(answered, p.MaxFailures, pause)
				longest, why := w.duel(t)
				overlap = max(overlap, longest)
				if pause == 0 && reason != lockcore.ReasonDeadline {
					reason = why
				}
			})
		}
	}
	return overlap, reason
}

// hangs answers the holder's acquire and its first renewals at the last moment, and none afterwards; it pauses when the call returns
// that makes the count full.
func hangs(answered, count int, pause time.Duration) func(*contender, lockcore.Op, int, time.Duration) fault {
	return func(c *contender, op lockcore.Op, n int, limit time.Duration) fault {
		last := fault{back: limit - 3*time.Microsecond}
		switch {
		case c.who != 0 || op == lockcore.OpRelease:
			return fault{}
		case op == lockcore.OpAcquire && answered > 0:
			return fault{}
		case op == lockcore.OpAcquire || n < answered:
			return last
		case n-answered+1 == count:
			return fault{lost: true, freeze: pause}
		}
		return fault{lost: true}
	}
}

// duel lets one contender hold, and another ask at the very instant at which the store frees the key.
func (w *world) duel(t *testing.T) (overlap time.Duration, reason lockcore.Reason) {
	rivals := w.policy
	rivals.Class, rivals.RenewEvery = lockcore.LegacyWarn, 0
	rivals.Acquire.Mode = lockcore.AcquireTry
	one, two := newContender(t, w, 0, w.policy), newContender(t, w, 1, rivals)
	held := take(t, one)
	for left := w.untilFree(); left > 0; left = w.untilFree() {
		wait(left)
	}
	taken := take(t, two)
	select {
	case <-held.Context().Done():
	case <-time.After(4 * w.policy.TTL):
	}
	for c, h := range map[*contender]*client.Handle{one: held, two: taken} {
		_ = h.Release(t.Context())
		if err := c.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	synctest.Wait()
	for _, b := range w.beliefs {
		if b.who == 0 {
			reason = b.reason
		}
	}
	return w.overlap(), reason
}

func take(t *testing.T, c *contender) *client.Handle {
	h, err := c.client.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatalf("acquire by c%d at %s: %v; policy %+v", c.who, c.w.now(), err, c.w.policy)
	}
	c.believe(h.Context(), h)
	return h
}

// untilFree is how long the store keeps the key for its owner, by our time: 0 = it is free.
func (w *world) untilFree() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner() == "" {
		return 0
	}
	return max(time.Microsecond, time.Duration(float64(w.frees-w.serverTime(w.now()))/w.limits.rate))
}

// A lost renewal costs the lock where L2 says so, and nowhere else.
func TestLostRenewalLintAgreesWithTheWorstSchedule(t *testing.T) {
	verdicts := map[bool]int{}
	for seed, last := seeds(t, 5); seed <= last; seed++ {
		p := randomPolicy(dice(seed, 3, choosePolicy, 0), lockcore.Standard)
		p.RenewEvery, p.RenewJitter = max(p.RenewEvery, p.TTL/20), 0
		p.TTL = p.TTL * 3 / 4 // more of them on the far side
		safe := true
		for _, s := range lockcore.Lints(p, lockcore.Facts{}) {
			safe = safe && (s.Rule != "L2" || s.OK)
		}
		verdicts[safe]++
		survives := true
		for answered := range 2 {
			synctest.Test(t, func(t *testing.T) { survives = survives && losesOne(t, seed, p, answered) })
		}
		if safe != survives {
			t.Fatalf("seed %d: L2 says %t, the lock survives a lost renewal: %t: %+v", seed, safe, survives, p)
		}
	}
	bothSides(t, "L2", verdicts)
}

// bothSides fails where a rule was asked about policies of one kind only.
func bothSides(t *testing.T, rule string, verdicts map[bool]int) {
	t.Helper()
	t.Logf("%s calls %d safe and %d not", rule, verdicts[true], verdicts[false])
	if *seedFlag == 0 && (verdicts[true] == 0 || verdicts[false] == 0) {
		t.Errorf("one side of %s was never asked", rule)
	}
}

// losesOne reports whether a holder still believes, one of whose renewals hangs after a success that was answered at the last moment.
func losesOne(t *testing.T, seed uint64, p lockcore.Policy, answered int) bool {
	w := newWorld(seed, p, limits{rate: 1})
	w.log = replay(t)
	worst := hangs(answered, 0, 0)
	w.aim = func(c *contender, op lockcore.Op, n int, limit time.Duration) fault {
		if op == lockcore.OpRenew && n > answered {
			return fault{}
		}
		return worst(c, op, n, limit)
	}
	c := newContender(t, w, 0, p)
	h := take(t, c)
	wait(4 * p.TTL)
	err := h.Check()
	_ = h.Release(t.Context())
	if err := c.client.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return err == nil
}

// How long a deleted key goes unnoticed is what L1 says, as long as the calls are answered.
func TestDeletedKeyIsNoticedAsTheLintSays(t *testing.T) {
	early, late := 0, 0
	for seed, last := seeds(t, 5); seed <= last; seed++ {
		rng := dice(seed, 2, choosePolicy, 0)
		p := randomPolicy(rng, []lockcore.Class{lockcore.LegacyCount, lockcore.Critical, lockcore.Standard}[seed%3])
		p.RenewEvery = max(p.RenewEvery, p.TTL/20)
		least, most, said := noticed(t, p)
		got, why := deletion(t, seed, p, rng)
		if why == lockcore.ReasonDeadline { // noticed by the clock before any call could tell
			continue
		}
		if got < least-time.Millisecond || got > most+time.Millisecond {
			t.Fatalf("seed %d: noticed after %s by %s, L1 says %s: %+v", seed, got, why, said, p)
		}
		if got < least+p.RenewEvery/10 {
			early++
		}
		if got > most-p.RenewEvery/10 {
			late++
		}
	}
	t.Logf("%d noticed as soon as L1 says, %d as late", early, late)
}

// noticed reads L1's sentence.
func noticed(t *testing.T, p lockcore.Policy) (least, most time.Duration, said string) {
	t.Helper()
	for _, s := range lockcore.Lints(p, lockcore.Facts{}) {
		if _, text, ok := strings.Cut(s.Text, "a deleted key is noticed "); ok && s.Rule == "L1" {
			low, high, isRange := strings.Cut(strings.TrimPrefix(text, "after "), " to ")
			if !isRange {
				low, high = "0s", strings.TrimPrefix(text, "within ")
			}
			return parse(t, low), parse(t, high), text
		}
	}
	t.Fatalf("L1 does not say when a deleted key is noticed: %+v", p)
	return 0, 0, ""
}

func parse(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// deletion is how long after the loss of its key a holder believes, whose calls take as long as they may.
func deletion(t *testing.T, seed uint64, p lockcore.Policy, rng *rand.Rand) (lag time.Duration, why lockcore.Reason) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, p, limits{rate: 1})
		w.log = replay(t)
		quick, slow := rng.IntN(2) == 0, fault{}
		w.aim = func(_ *contender, _ lockcore.Op, _ int, limit time.Duration) fault {
			slow.back = limit - 2*time.Microsecond
			if quick {
				slow.back = 0
			}
			return slow
		}
		c := newContender(t, w, 0, p)
		var deleted time.Duration
		hit := rng.IntN(4) // right after the grant, or after a renewal; or anywhere
		after := share(rng, p.TTL, 0, 2)
		time.AfterFunc(2*time.Microsecond+time.Duration(min(hit, 1))*after, func() {
			deleted = w.now()
			for token := range w.asks {
				_ = w.release(token)
			}
		})
		h := take(t, c)
		<-h.Context().Done()
		synctest.Wait()
		lag, why = w.beliefs[0].to-max(deleted, w.beliefs[0].from), w.beliefs[0].reason
		_ = h.Release(t.Context())
		if err := c.client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return lag, why
}
