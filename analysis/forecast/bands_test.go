package forecast

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
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
			if hi := UpperBound(k, n); k < n && diff(binomial(k, n, hi), risk) > 1e-6 {
				t.Fatalf("upper bound of %d/%d is %g: P(at most %d) = %g", k, n, hi, k, binomial(k, n, hi))
			}
			if lo := LowerBound(k, n); k > 0 && diff(1-binomial(k-1, n, lo), risk) > 1e-6 {
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

// drill is an experiment of one lock that is killed in a phase.
func drill(p lockcore.Policy, phase fault.Phase) *experiments.Experiment {
	e := &experiments.Experiment{
		TimeScale: 1,
		System:    experiments.System{Locks: []experiments.Lock{{Name: "l", Key: "k", Policy: p}}},
		Faults:    []experiments.Fault{{ID: "kill", Repeat: experiments.Repeat{Count: 1}, Spec: &fault.Kill{HolderOf: "l", Phase: phase}}},
	}
	if p.Loop == nil {
		e.System.Work = []experiments.Work{{Lock: "l", Jobs: 1, Redeliver: 30 * time.Second}}
	}
	return e
}

// The sums of L3, worked by hand.
func TestBands(t *testing.T) {
	s := time.Second
	try := lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * s}
	hold := lockcore.Policy{TTL: 60 * s, OpTimeout: 2 * s, Acquire: try, Loop: &lockcore.Loop{Poll: 30 * s, Mode: lockcore.LoopTTLHold}}
	holdRenewed := hold
	holdRenewed.RenewEvery = 20 * s
	renewed := lockcore.Policy{TTL: 30 * s, RenewEvery: 10 * s, RenewJitter: 0.1, OpTimeout: 1 * s, Acquire: try,
		Loop: &lockcore.Loop{Poll: 5 * s, Jitter: 0.2, Mode: lockcore.LoopRenewed}}
	job := lockcore.Policy{TTL: 60 * s, RenewEvery: 20 * s, OpTimeout: 2 * s, Acquire: try}
	waits := job
	waits.Acquire = lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: 2 * s, Budget: 10 * s}
	for _, c := range []struct {
		name   string
		p      lockcore.Policy
		phase  fault.Phase
		lo, hi float64
		sum    string
	}{
		{"ttl_hold, at random", hold, fault.RandomPhase, 0, 94, "up to 94s (ttl 60s + in flight 2s + poll 30s + acquire 2s) when killed at random"},
		{"ttl_hold, after its grant", hold, fault.AfterGrant, 58, 94, "58s (ttl 60s - op 2s) to 94s"},
		{"ttl_hold renewed in its tick only", holdRenewed, fault.RandomPhase, 0, 94, "up to 94s"},
		{"renewed loop, at random", renewed, fault.RandomPhase, 18, 39, "18s (ttl 30s - renewal 11s - op 1s) to 39s"},
		{"renewed loop, before its renewal", renewed, fault.BeforeRenew, 18, 30.45, "to 30.45s (ttl 30s - renewal 8.55s + in flight 1s + poll 6s + acquire 2s)"},
		{"renewed loop, after its renewal", renewed, fault.AfterRenew, 29, 39, "killed after renew"},
		{"job lock", job, fault.RandomPhase, 38, 94, "redelivery 30s"},
		{"job lock when acquired", job, fault.Acquired, 58, 94, "killed when acquired, of the struck key; the others of its replica die at random"},
		{"job lock that waits", waits, fault.RandomPhase, 38, 102, "acquire wait 10s"},
	} {
		b := Bands(drill(c.p, c.phase), 0)[0]
		if b.Lo != c.lo || b.Hi != c.hi || !strings.Contains(b.Sum, c.sum) {
			t.Errorf("%s: [%g, %g] %s\nwant [%g, %g] ... %s", c.name, b.Lo, b.Hi, b.Sum, c.lo, c.hi, c.sum)
		}
	}
}

// A kill that aims at another lock strikes this one at random.
func TestBandOfAnotherLocksKill(t *testing.T) {
	s := time.Second
	e := drill(lockcore.Policy{TTL: 60 * s, Acquire: lockcore.Acquire{Timeout: 2 * s}, Loop: &lockcore.Loop{Poll: 30 * s, Mode: lockcore.LoopTTLHold}}, fault.AfterGrant)
	e.System.Locks = append(e.System.Locks, e.System.Locks[0])
	e.System.Locks[1].Name = "other"
	if bs := Bands(e, 0); bs[0].Lo == 0 || bs[1].Lo != 0 {
		t.Errorf("bands %+v", bs)
	}
}

func TestHorizon(t *testing.T) {
	s := time.Second
	e := drill(lockcore.Policy{TTL: 60 * s, RenewEvery: 20 * s, OpTimeout: 2 * s, Acquire: lockcore.Acquire{Timeout: 2 * s}}, fault.RandomPhase)
	if got := Horizon(e, "l"); got != 94*s+30*s {
		t.Errorf("horizon %s: the upper end of the band and one redelivery", got)
	}
	limit := 200 * s
	e.SLOs = []experiments.SLO{{Lock: "l", Takeover: experiments.Within(limit)}}
	if got := Horizon(e, ""); got != 230*s {
		t.Errorf("horizon %s: the limit and one redelivery", got)
	}
}
