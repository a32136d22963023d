package lockcore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// The article's figures: 18s + 4s + 2s = 24s, renewed every 8s; 2s of polling keep a takeover within 30s.
func TestTuneIsTheArticlesSum(t *testing.T) {
	const s = time.Second
	for _, loop := range []bool{false, true} {
		got := lockcore.Tune(lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s, Takeover: 30 * s, Loop: loop, Contenders: 3})
		p := got.Policy
		if len(got.Broken) > 0 || p.TTL != 24*s || p.RenewEvery != 8*s || p.MaxFailures != 2 || got.Pickup != 2*s || got.TakeoverMax != 30*s || p.Class != lockcore.Critical {
			t.Errorf("loop %t: %+v", loop, got)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("loop %t: %v", loop, err)
		}
		if (p.Loop != nil) != loop {
			t.Errorf("loop %t: %+v", loop, p.Loop)
		}
	}
	if got := lockcore.Tune(lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s}); got.Pickup != 12*s || got.TakeoverMax != 40*s {
		t.Errorf("no takeover asked for: %+v", got)
	}
	if got := lockcore.Tune(lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s, Takeover: time.Hour}); got.Pickup != 24*s {
		t.Errorf("a takeover that leaves an hour: %+v", got)
	}
}

// The timeouts that a long tail asks for make the renewal shorter than TTL/3, until they fill the lease.
func TestTuneTightensTheRenewal(t *testing.T) {
	const s = time.Second
	got := lockcore.Tune(lockcore.Wish{Work: 10 * s, Jitter: 12 * s, Guard: 2 * s})
	if p := got.Policy; len(got.Broken) > 0 || p.RenewEvery >= p.TTL/3 || lockcore.SafeFailures(p) < 2 {
		t.Errorf("%+v", got)
	}
	if n := lockcore.SafeFailures(lockcore.Policy{TTL: 24 * s, RenewEvery: 8 * s, RenewJitter: 0.1, OpTimeout: 6 * s, Acquire: lockcore.Acquire{Timeout: 6 * s}}); n != 1 {
		t.Errorf("at ttl / 3, %d failures in a row are safe: the example shows nothing", n)
	}
}

func TestTuneSaysWhatCannotBe(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		w    lockcore.Wish
		want []string // rule, parts of what it says
	}{
		"the lease is longer than the takeover": {lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s, Takeover: 20 * s},
			[]string{"L3", "ttl 24s + in flight 2s + acquire 2s = 28s, leaves no redelivery within takeover 20s", "its p99 must be at most 9.99s"}},
		"no room for a poll": {lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s, Takeover: 28 * s, Loop: true},
			[]string{"L3", "leaves no poll within takeover 28s", "28s and a poll"}},
		"jitter and guard alone":  {lockcore.Wish{Work: s, Jitter: 4 * s, Guard: 2 * s, Takeover: 5 * s}, []string{"L3", "jitter and guard alone take 10s"}},
		"timeouts fill the lease": {lockcore.Wish{Work: s, Jitter: 10 * s, Guard: time.Millisecond}, []string{"L1", "over ttl 11.001s", "Raise the guard by at least"}},
		"a herd": {lockcore.Wish{Work: 18 * s, Jitter: 4 * s, Guard: 2 * s, Takeover: 28*s + 20*time.Millisecond, Loop: true, Contenders: 30},
			[]string{"L6", "30 contenders / 20ms"}},
	} {
		got := lockcore.Tune(c.w)
		if len(got.Broken) == 0 || got.Broken[0].Rule != c.want[0] {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for _, want := range c.want[1:] {
			if text := got.Broken[0].Text + ": " + got.Broken[0].Means; !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", name, want, text)
			}
		}
	}
}

// Where nobody names a guard, the least one is added with which two failed renewals in a row are safe, and not a millisecond where none is needed.
func TestTuneDerivesTheGuard(t *testing.T) {
	for _, c := range []struct {
		work, jitter time.Duration
		needed       bool
	}{{time.Second, 10 * time.Second, true}, {10 * time.Millisecond, 4 * time.Second, true}, {18 * time.Second, 4 * time.Second, false}} {
		got := lockcore.Tune(lockcore.Wish{Work: c.work, Jitter: c.jitter})
		guard := got.Policy.TTL - c.work - c.jitter
		if len(got.Broken) > 0 || (guard > 0) != c.needed || (got.Steps[0].Field == "guard") != c.needed || got.Policy.MaxFailures < 2 {
			t.Errorf("%+v: guard %s: %+v", c, guard, got)
		}
		if less := guard - 50*time.Millisecond; c.needed && less > 0 && len(lockcore.Tune(lockcore.Wish{Work: c.work, Jitter: c.jitter, Guard: less}).Broken) == 0 {
			t.Errorf("%+v: a guard of %s is enough, and %s was added", c, less, guard)
		}
	}
}

// What the class follows from.
func TestTuneClass(t *testing.T) {
	for _, c := range []struct {
		fenced, idempotent, finish bool
		want                       lockcore.Class
	}{{false, false, false, lockcore.Critical}, {true, false, false, lockcore.Critical}, {false, true, false, lockcore.Standard}, {true, true, false, lockcore.Standard}, {true, true, true, lockcore.Continuity}} {
		w := lockcore.Wish{Work: time.Second, Jitter: time.Second / 10, Fenced: c.fenced, Idempotent: c.idempotent, MustFinish: c.finish}
		if got := lockcore.Tune(w); got.Policy.Class != c.want || len(got.Broken) > 0 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestSafeFailures(t *testing.T) {
	for profile, want := range map[string]int{"cordum/scheduler-job": 2, "cordum/workflow-run": 2, "cordum/approval": 0, "lockdrill/critical": 2} {
		p := policyOf(t, profile)
		if got := lockcore.SafeFailures(p); got != want {
			t.Errorf("%s: %d, want %d", profile, got, want)
		}
		if p.MaxFailures = want; want > 0 && lockcore.GiveUpSum(p) > p.TTL {
			t.Errorf("%s: L1 does not hold for %d", profile, want)
		}
		if p.MaxFailures = want + 1; want > 0 && lockcore.GiveUpSum(p) <= p.TTL {
			t.Errorf("%s: L1 holds for %d as well", profile, want+1)
		}
	}
}
