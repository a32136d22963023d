package forecast

import (
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

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
