package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// randomDrill is an experiment, and a network, that nobody would write down: any class with any timing, one to three faults.
func randomDrill(seed uint64) (*experiments.Experiment, sim.Net) { return drawDrill(seed, nil) }

// drawDrill is randomDrill without what s leaves out.
func drawDrill(seed uint64, s *swarm) (*experiments.Experiment, sim.Net) {
	r := rand.New(rand.NewPCG(seed, 5))
	e := &experiments.Experiment{
		Name: fmt.Sprintf("random-%d", seed), TimeScale: 1,
		SteadyState: experiments.SteadyState{For: 500 * time.Millisecond, Timeout: 30 * time.Second},
		Limits:      experiments.RunLimits{MaxKills: 8, MaxRun: 5 * time.Minute},
		Probes: experiments.Probes{
			LockKeys: experiments.ProbeSettings{Every: between(r, 2*time.Millisecond, 40*time.Millisecond), MaxGap: 250 * time.Millisecond},
			Ledger:   experiments.ProbeSettings{Every: between(r, 2*time.Millisecond, 40*time.Millisecond), MaxGap: 250 * time.Millisecond},
		},
	}
	e.System.Replicas, e.System.Restart = 1+r.IntN(4), between(r, 100*time.Millisecond, 4*time.Second)
	loop, jobs := r.IntN(3) > 0 && s.has(hasLoop), r.IntN(3) > 0 && s.has(hasJobs)
	if loop || !jobs {
		p := randomPolicy(r, s)
		p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: p.OpTimeout}
		mode := pick(r, lockcore.LoopRenewed, lockcore.LoopTTLHold, lockcore.LoopExplicit)
		p.Loop = &lockcore.Loop{Poll: between(r, p.TTL/8, p.TTL), Jitter: r.Float64() * 0.2, Mode: one(s, "loop ", mode, loops()...), Tick: between(r, 0, p.TTL/2)}
		e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "leader", Key: "leader", Policy: p})
	}
	if jobs {
		e.System.Locks = append(e.System.Locks, experiments.Lock{Name: "job", KeyPrefix: "job:", Policy: randomPolicy(r, s)})
		p50 := between(r, 50*time.Millisecond, 3*time.Second)
		e.System.Work = append(e.System.Work, experiments.Work{
			Lock: "job", Jobs: 5 + r.IntN(20), Rate: 0.5 + 4*r.Float64(), Hold: experiments.Hold{P50: p50, P99: p50 + between(r, 0, p50)},
			Redeliver: between(r, 300*time.Millisecond, 3*time.Second), Fenced: r.IntN(3) > 0, Strict: r.IntN(3) == 0, Look: r.IntN(3) > 0,
		})
	}
	at := time.Duration(0)
	for i := range 1 + r.IntN(3) {
		f := s.fault(r, e)
		f.ID, f.At = fmt.Sprintf("f%d", i), at
		at += f.For + between(r, 0, 4*time.Second)
		e.Faults = append(e.Faults, f)
	}
	for i := range e.System.Locks {
		for _, s := range []experiments.SLO{
			{UnownedWork: experiments.AtMost(time.Duration(0))},
			{Abandonment: &experiments.AbandonmentLimits{Missed: experiments.AtMost(0), Late: experiments.AtMost(0)}},
		} {
			s.Lock = e.System.Locks[i].Name
			e.SLOs = append(e.SLOs, s)
		}
	}
	net := sim.Net{Least: between(r, 20*time.Microsecond, time.Millisecond), Late: between(r, 0, 2*time.Millisecond)}
	net.Most = net.Least + between(r, 0, 20*time.Millisecond)
	if r.IntN(3) == 0 {
		net.Loss = r.Float64() * 0.1
	}
	s.plain(e, &net)
	return e, net
}

func between(r *rand.Rand, a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(r.Int64N(int64(b-a)))
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomPolicy(r *rand.Rand, s *swarm) lockcore.Policy {
	p := lockcore.Policy{
		TTL: between(r, 400*time.Millisecond, 3*time.Second), RenewJitter: pick(r, 0, 0, 0.1),
		Class: pick(r, lockcore.Critical, lockcore.Standard, lockcore.Continuity, lockcore.LegacyCount, lockcore.LegacyWarn), MaxFailures: 1 + r.IntN(3),
	}
	if r.IntN(5) > 0 {
		p.RenewEvery = between(r, p.TTL/6, p.TTL/2)
	}
	p.OpTimeout = between(r, 50*time.Millisecond, p.TTL/2)
	p.Drift, p.StopBudget = p.TTL/100, pick(r, 0, p.TTL/20)
	p.Release = lockcore.Release{
		Mode: pick(r, lockcore.ReleaseNone, lockcore.ReleaseSingle, lockcore.ReleaseBoundedRetry), Attempts: 2, Timeout: p.OpTimeout,
		AfterAbandon: pick(r, lockcore.AfterAbandonSkip, lockcore.AfterAbandonStopped),
	}
	p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: p.OpTimeout}
	if r.IntN(3) == 0 {
		p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: p.OpTimeout, Budget: between(r, p.TTL/2, 2*p.TTL),
			Backoff: lockcore.Backoff{Mode: pick(r, lockcore.BackoffFixed, lockcore.BackoffDecorrelated), Every: between(r, 20*time.Millisecond, 200*time.Millisecond), Cap: 400 * time.Millisecond}}
	}
	s.plainly(&p)
	if err := p.Validate(); err != nil {
		panic(err)
	}
	return p
}

// randomFault is any fault of the vocabulary.
func randomFault(r *rand.Rand, e *experiments.Experiment) experiments.Fault {
	lock := pick(r, e.System.Locks...)
	long := between(r, 50*time.Millisecond, 3*lock.Policy.TTL)
	aim := pick(r, fault.Aim{HolderOf: lock.Name}, fault.Aim{HolderOf: lock.Name}, fault.Aim{Replica: "r1"}, fault.Aim{All: true})
	one := fault.Aim{HolderOf: lock.Name}
	stream := pick(r, fault.StreamUp, fault.StreamDown, fault.StreamBoth)
	f := experiments.Fault{For: long, Repeat: experiments.Repeat{Count: 1 + r.IntN(2), Settled: true}}
	switch r.IntN(16) {
	case 0, 1, 2:
		f.For = 0
		phase := pick(r, fault.RandomPhase, fault.AfterGrant, fault.Acquired)
		if lock.Policy.RenewEvery > 0 {
			phase = pick(r, phase, fault.AfterRenew, fault.BeforeRenew)
		}
		f.Spec = &fault.Kill{HolderOf: lock.Name, Phase: phase, How: "crash"}
	case 3, 4:
		f.Spec = &fault.Pause{Aim: one}
	case 5, 6, 7:
		b := &fault.Failures{Aim: aim, Mode: pick(r, fault.ModeError, fault.ModeTimeout, fault.ModeDelay, fault.ModeLostReply),
			Via: pick(r, fault.ViaWorker, fault.ViaProxy), Count: pick(r, 0, 1, 3), Share: pick(r, 0, 0, 0.5)}
		if b.Mode == fault.ModeDelay {
			b.Delay = between(r, 10*time.Millisecond, lock.Policy.TTL)
		}
		b.Of = []lockcore.Op{lockcore.OpRenew, lockcore.OpAcquire, lockcore.OpRelease}[r.IntN(3)]
		f.Spec = b
	case 8:
		f.Spec = &fault.Latency{Aim: aim, Add: between(r, 0, lock.Policy.OpTimeout*2), Jitter: between(r, 0, 50*time.Millisecond), Stream: stream}
	case 9:
		f.Spec = &fault.Jitter{Aim: aim, By: between(r, time.Millisecond, lock.Policy.OpTimeout), Stream: stream}
	case 10:
		f.Spec = &fault.Cut{Aim: aim, How: []fault.Cutting{fault.Hole, fault.Reset, fault.Down}[r.IntN(3)]}
	case 11, 12:
		f.Spec = &fault.Store{Do: pick(r, fault.StorePause, fault.StoreFreeze, fault.StoreStop, fault.StoreRestart,
			fault.StoreFlush, fault.StoreFailover), Keep: r.IntN(2) == 0, Lag: between(r, time.Millisecond, lock.Policy.TTL)}
		if f.Traits().Instant != "" {
			f.For = 0
		}
	case 13:
		f.Spec = &fault.DeleteKey{HolderOf: lock.Name, To: pick(r, "", "stranger")}
		if f.Traits().Instant != "" {
			f.For = 0
		}
	case 14:
		f.Spec = &fault.Clock{Aim: aim, Offset: between(r, -2*lock.Policy.TTL, 2*lock.Policy.TTL)}
	default:
		f.Spec = &fault.Bandwidth{Aim: aim, Rate: 1 + r.IntN(20), Stream: stream}
	}
	return f
}
