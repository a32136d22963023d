package rehearsal

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// takeovers are simulated ones, in seconds.
type takeovers []float64

func (ts takeovers) moments() (mean, deviation float64) {
	for _, v := range ts {
		mean += v / float64(len(ts))
	}
	for _, v := range ts {
		deviation += (v - mean) * (v - mean) / float64(len(ts))
	}
	return mean, math.Sqrt(deviation)
}

func (ts takeovers) within(t float64) float64 {
	n := 0.0
	for _, v := range ts {
		if v <= t {
			n++
		}
	}
	return n / float64(len(ts))
}

// check holds the sums of the only lock of e against what was simulated: the mean, and the chance of three limits, each as exactly as so
// many kills can tell. slack is what the sums leave out: round trips and late timers, in seconds.
func (ts takeovers) check(t *testing.T, e *experiments.Experiment, slack float64) {
	t.Helper()
	if len(ts) < 50 {
		t.Fatalf("only %d takeovers", len(ts))
	}
	mean, deviation := ts.moments()
	for _, by := range []float64{-1, 0, 1} {
		limit := time.Duration((mean + by*deviation) * 1e9)
		e.SLOs = append(e.SLOs, experiments.SLO{Lock: e.System.Locks[0].Name, Takeover: experiments.Within(limit)})
	}
	s := forecast.LockSumsOf(e)[0]
	const sure = 4.5 // standard errors: a handful of a thousand comparisons may reach 4
	n := math.Sqrt(float64(len(ts)))
	if want := *s.Takeover.Mean; math.Abs(mean-want) > sure*deviation/n+slack {
		t.Errorf("mean %.3fs of %d, the sum says %.3fs", mean, len(ts), want)
	}
	for _, p := range s.Promises {
		// Within slack of the limit the sum may put a takeover on the other side.
		lo, hi := ts.within(p.Value-slack), ts.within(p.Value+slack)
		room := sure*math.Sqrt(max(p.Chance*(1-p.Chance), 0.001))/n + 0.002
		if p.Chance < lo-room || p.Chance > hi+room {
			t.Errorf("within %.3fs: %.4f to %.4f of %d, the sum says %.4f", p.Value, lo, hi, len(ts), p.Chance)
		}
		if p.Value < s.Takeover.Lo || p.Value > s.Takeover.Hi {
			t.Errorf("the band %.3fs to %.3fs does not hold %.3fs", s.Takeover.Lo, s.Takeover.Hi, p.Value)
		}
	}
}

// loopOf is a random renewed loop, and the drill that kills its holder at random.
func loopOf(r *rand.Rand) *experiments.Experiment {
	ttl := between(r, 2*time.Second, 60*time.Second)
	share := func(least, most float64) time.Duration {
		return time.Duration(float64(ttl) * (least + (most-least)*r.Float64())).Round(time.Millisecond)
	}
	jitter := func() float64 { return pick(r, 0, 0.1, 0.5) }
	p := lockcore.Policy{
		TTL: ttl, RenewEvery: share(0.1, 0.45), RenewJitter: jitter(), Class: lockcore.Standard, OpTimeout: time.Second / 2,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second / 2},
		Loop: &lockcore.Loop{Poll: share(0.05, 1), Jitter: jitter(), Mode: lockcore.LoopRenewed, Tick: time.Millisecond},
	}
	return &experiments.Experiment{
		TimeScale: 1,
		System:    experiments.System{Replicas: 2 + r.IntN(4), Restart: share(0.01, 2), Locks: []experiments.Lock{{Name: "l", Key: "l", Policy: p}}},
		Faults:    []experiments.Fault{{ID: "k", Spec: &fault.Kill{HolderOf: "l", Phase: fault.RandomPhase}}},
	}
}

// killLeader simulates one takeover whose polls began at phases that have nothing to do with the lease.
func killLeader(t *testing.T, w *sim.World, e *experiments.Experiment, seed uint64) float64 {
	t.Helper()
	l := &e.System.Locks[0]
	ttl := int64(l.Policy.TTL)
	w.Reset(sim.Config{Seed: seed, Net: sim.DefaultNet(), Locks: []sim.Lock{{Name: l.Name, Key: l.Key, Policy: l.Policy}}})
	pass := func(until int64) {
		for !w.Advance(until) {
		}
	}
	w.Start("r1", "r1")
	pass(2*ttl + w.Random(ttl))
	for i := 2; i <= e.System.Replicas; i++ {
		name := fmt.Sprintf("r%d", i)
		w.Start(name, name)
	}
	killed := 6*ttl + w.Random(4*ttl)
	pass(killed)
	if !w.Kill(w.Owner(l.Key)) {
		t.Fatal("nobody leads")
	}
	w.After(e.System.Restart, func() { w.Start("r1", "r1.2") })
	truth := w.Truth()
	writes := len(truth.Writes)
	if !w.Until(killed+100*ttl, func() bool { return len(w.Truth().Writes) > writes }) {
		t.Fatal("nobody took over")
	}
	return float64(w.Truth().Writes[writes].At-killed) / 1e9
}

// The mean and the chances that plan and rehearse print, against the takeovers of random renewed loops with any number of replicas, any
// jitter, and a replacement that comes early, late or never.
func TestSumsOfLoops(t *testing.T) {
	roomy(t)
	const policies, kills = 30, 1000
	w := sim.New(sim.Config{})
	for i := range uint64(policies) {
		e := loopOf(rand.New(rand.NewPCG(i, 5)))
		var ts takeovers
		for seed := range uint64(kills) {
			ts = append(ts, killLeader(t, w, e, seed))
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ts.check(t, e, 0.003)
			if t.Failed() {
				p := &e.System.Locks[0].Policy
				t.Logf("ttl %s, renewed every %s ± %g, poll %s ± %g, %d replicas, restart %s", p.TTL, p.RenewEvery, p.RenewJitter, p.Loop.Poll, p.Loop.Jitter, e.System.Replicas, e.System.Restart)
			}
		})
	}
}

// The same for locks of jobs, in whole rehearsals: there the offers keep step with the lease.
func TestSumsOfJobs(t *testing.T) {
	roomy(t)
	for _, c := range []struct {
		name  string
		p     lockcore.Policy
		w     experiments.Work
		phase fault.Phase
	}{
		{"one renewal at most", lockcore.Policy{TTL: 12 * time.Second, RenewEvery: 4 * time.Second}, experiments.Work{Hold: experiments.Hold{P50: 5 * time.Second, P99: 7 * time.Second}, Redeliver: 5 * time.Second}, fault.RandomPhase},
		{"many renewals, jittered", lockcore.Policy{TTL: 6 * time.Second, RenewEvery: 2 * time.Second, RenewJitter: 0.2}, experiments.Work{Hold: experiments.Hold{P50: 15 * time.Second, P99: 40 * time.Second}, Redeliver: 3500 * time.Millisecond}, fault.RandomPhase},
		{"never renewed", lockcore.Policy{TTL: 10 * time.Second}, experiments.Work{Hold: experiments.Hold{P50: 4 * time.Second, P99: 9 * time.Second}, Redeliver: 3 * time.Second}, fault.RandomPhase},
		{"before the only renewal", lockcore.Policy{TTL: 12 * time.Second, RenewEvery: 4 * time.Second}, experiments.Work{Hold: experiments.Hold{P50: 7 * time.Second, P99: 7 * time.Second}, Redeliver: 5 * time.Second}, fault.BeforeRenew},
		{"waits longer than the offers are apart", lockcore.Policy{TTL: 12 * time.Second, RenewEvery: 4 * time.Second, RenewJitter: 0.1,
			Acquire: lockcore.Acquire{Mode: lockcore.AcquireWait, Budget: 7 * time.Second, Backoff: lockcore.Backoff{Mode: lockcore.BackoffFixed, Every: 500 * time.Millisecond}}},
			experiments.Work{Hold: experiments.Hold{P50: 15 * time.Second, P99: 20 * time.Second}, Redeliver: 5 * time.Second}, fault.RandomPhase},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Class, c.p.OpTimeout = lockcore.Standard, time.Second/2
			c.p.Release = lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: time.Second / 2, AfterAbandon: lockcore.AfterAbandonSkip}
			if c.p.Acquire.Mode == "" {
				c.p.Acquire.Mode = lockcore.AcquireTry
			}
			c.p.Acquire.Timeout = time.Second / 2
			c.w.Lock, c.w.Jobs, c.w.Rate, c.w.Fenced, c.w.Look = "l", 12, 0.1, true, true // one or two at a time
			e := load(t, "first-drill")
			e.System.Locks = []experiments.Lock{{Name: "l", KeyPrefix: "l:", Policy: c.p}}
			e.System.Work = []experiments.Work{c.w}
			e.Faults = []experiments.Fault{{ID: "k", At: 20 * time.Second, Repeat: experiments.Repeat{Count: 2, Settled: true}, Spec: &fault.Kill{HolderOf: "l", Phase: c.phase, How: fault.Crash}}}
			e.SLOs, e.AllowOverlap, e.Limits = nil, nil, experiments.RunLimits{MaxKills: 10, MaxRun: time.Hour}
			var ts takeovers
			for seed := range int64(120) {
				e.Faults[0].At = 20*time.Second + time.Duration(seed)*137*time.Millisecond // not in step with the offers
				d, err := New(e, sim.DefaultNet()).Run(context.Background(), seed)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range analysis.Judge(e, d.History).Takeovers {
					if k.Class == verdict.ClassCrash && k.Hi != nil {
						ts = append(ts, (k.Lo+*k.Hi)/2)
					}
				}
			}
			ts.check(t, e, 0.03)
		})
	}
}
