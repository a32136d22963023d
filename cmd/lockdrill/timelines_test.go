package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// stress is one drill of the stress test: everything about it follows from its seed.
type stress struct {
	seed       uint64
	e          *experiments.Experiment
	theirRedis bool // the locks live in a Redis that the test starts
	theirProxy bool // the ways go by a Toxiproxy that the test starts

	end   ending
	after time.Duration // from the start to what ends it, at the latest
	lines int           // or, if not 0, until the journal has so many lines
	again time.Duration // from the first interrupt to the second; from the runner's death to its watchdog's
}

// ending is how a run of the stress test comes to its end.
type ending string

const (
	endsAlone       ending = "alone"
	endsByInterrupt ending = "interrupt"
	endsByTwo       ending = "two interrupts"
	endsByKill      ending = "kill -9, the watchdog undoes"
	endsByRace      ending = "kill -9, watchdog and recover undo at once"
	endsByBoth      ending = "kill -9 of watchdog and runner, recover undoes"
	endsByUndoing   ending = "kill -9 of runner, and of the watchdog while it undoes, recover undoes"
)

// stressBed is what the faults of a timeline strike: a loop that is held throughout, and jobs.
const stressBed = `apiVersion: lockdrill/v1
kind: Experiment
name: stress
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 3
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 800ms
        renew_every: 200ms
        class: standard
        op_timeout: 100ms
        stop_budget: 20ms
        release: {mode: single, timeout: 100ms}
        acquire: {mode: try, timeout: 100ms}
        loop: {poll: 50ms, mode: renewed, tick: 10ms}
` + jobLock + jobWork + `steady_state: {for: 200ms, timeout: 5s}
faults:
  - {id: placeholder, at: 0s, kill: {holder_of: loop}}
probes:
  lock_keys: {every: 20ms, max_gap: 1s}
  ledger: {every: 20ms, max_gap: 1s}
limits: {max_kills: 100, max_run: 30s}
slos:
  - {lock: loop, overlap: {level: effect, max: 0}}
  - {lock: job, duplicate_terminal_states: {max: 0}}
`

// somewhere stands for an address until the test has started what is there.
const somewhere = "127.0.0.1:1"

// dice make a timeline.
type dice struct {
	*rand.Rand
	longest time.Duration // a fault lasts at most so long
	theirs  bool          // the Redis is not the run's own
	ways    bool          // one fault at least is of the network
}

// timelineOf is the timeline of a seed.
func timelineOf(t *testing.T, seed uint64) stress {
	t.Helper()
	e, err := experiments.Parse("stress.yaml", []byte(stressBed))
	if err != nil {
		t.Fatal(err)
	}
	d := dice{Rand: rand.New(rand.NewPCG(seed, 4)), longest: 1500 * time.Millisecond}
	l := stress{seed: seed, e: e, end: endsAlone, theirRedis: d.IntN(3) == 0, theirProxy: d.IntN(3) == 0}
	if d.IntN(4) > 0 {
		l.end = one(d, endsByInterrupt, endsByTwo, endsByKill, endsByRace, endsByBoth, endsByUndoing)
		if l.after = d.between(0, 4*time.Second); d.IntN(2) == 0 {
			l.lines, l.after = 1+d.IntN(40), 6*time.Second
		}
		if l.again = d.between(0, 400*time.Millisecond); d.IntN(2) == 0 {
			l.again /= 20
		}
		if d.IntN(2) == 0 { // what is undone too late would not end by itself
			d.longest = 20 * time.Second
		}
	}
	if d.theirs, d.ways = l.theirRedis, l.theirProxy; l.theirRedis {
		e.Redis = experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + somewhere, Allow: []string{"pause", "flush", "delete_key"}}
	}
	if l.theirProxy {
		e.Proxy = experiments.Proxy{Mode: experiments.ProxyExternal, URL: "http://" + somewhere}
	}
	e.System.Replicas = 2 + d.IntN(2)
	e.System.Locks[0].Policy.TTL = d.between(600*time.Millisecond, time.Second)
	e.Seed = 1 + int64(d.IntN(1<<30))
	e.Faults = d.faults(2+d.IntN(3), e.System.Replicas)
	for i := range e.Faults {
		for j := range i {
			e.AllowOverlap = append(e.AllowOverlap, [2]string{e.Faults[j].ID, e.Faults[i].ID})
		}
	}
	return l
}

// faults are so many that can be in effect together.
func (d dice) faults(n, replicas int) []experiments.Fault {
	var all []experiments.Fault
	for len(all) < n {
		f := d.fault(fmt.Sprintf("f%d", len(all)+1), replicas)
		if d.ways && len(all) == 0 && !f.Net() {
			continue
		}
		if !slices.ContainsFunc(all, func(o experiments.Fault) bool { return fault.Collide(o.Spec, f.Spec) != "" }) {
			all = append(all, f)
		}
	}
	return all
}

func (d dice) fault(id string, replicas int) experiments.Fault {
	f := experiments.Fault{
		ID: id, At: d.between(0, time.Second), For: d.between(200*time.Millisecond, d.longest),
		Repeat: experiments.Repeat{Count: 1, Settled: true},
	}
	aim := one(d, fault.Aim{HolderOf: one(d, "loop", "job")}, fault.Aim{All: true},
		fault.Aim{Replica: fmt.Sprintf("r%d", 1+d.IntN(replicas))})
	stream := one(d, fault.StreamUp, fault.StreamDown, fault.StreamBoth)
	switch d.IntN(12) {
	case 0:
		f.Spec, f.For = d.kill(), 0
		f.Repeat.Count = 1 + d.IntN(2)
	case 1:
		if aim.All {
			aim = fault.Aim{HolderOf: "loop"}
		}
		f.Spec = &fault.Pause{Aim: aim}
	case 2:
		f.Spec = d.failures(&f, lockcore.OpRenew, aim)
	case 3:
		f.Spec = d.failures(&f, lockcore.OpAcquire, aim)
	case 4:
		f.Spec = d.failures(&f, lockcore.OpRelease, aim)
	case 5, 6, 7:
		d.network(&f, aim, stream)
	case 8, 9:
		f.Spec = d.store(&f)
	case 10:
		f.Spec = &fault.DeleteKey{HolderOf: one(d, "loop", "job"), To: one(d, "", "stranger")}
		if f.Traits().Instant != "" {
			f.For = 0
		}
	case 11:
		f.Spec = &fault.Clock{Aim: aim, Offset: one(d, time.Duration(-1), 1) * d.between(100*time.Millisecond, 10*time.Second)}
	}
	return f
}

func (d dice) kill() *fault.Kill {
	k := &fault.Kill{HolderOf: "loop", How: "crash"}
	k.Phase = one(d, fault.AfterGrant, fault.AfterRenew, fault.BeforeRenew, fault.RandomPhase)
	if d.IntN(3) == 0 {
		k.HolderOf, k.Phase, k.On = "job", "", fault.Acquired
	}
	return k
}

func (d dice) failures(f *experiments.Fault, of lockcore.Op, aim fault.Aim) *fault.Failures {
	b := &fault.Failures{
		Aim: aim, Of: of, Via: one(d, fault.ViaWorker, fault.ViaProxy),
		Mode: one(d, fault.ModeError, fault.ModeTimeout, fault.ModeDelay, fault.ModeLostReply),
	}
	if b.Mode == fault.ModeDelay {
		b.Delay = d.between(time.Millisecond, 150*time.Millisecond)
	}
	switch d.IntN(3) {
	case 0:
		b.Count = 1 + d.IntN(3)
	case 1:
		b.Share = 0.5
	}
	if aim.HolderOf == "" && d.IntN(2) == 0 {
		b.Lock = one(d, "loop", "job")
	}
	if f.For < b.Delay*2 {
		f.For = b.Delay * 2
	}
	return b
}

func (d dice) network(f *experiments.Fault, aim fault.Aim, stream fault.Stream) {
	switch d.IntN(7) {
	case 0:
		late := &fault.Latency{Aim: aim, Add: d.between(10*time.Millisecond, 200*time.Millisecond), Stream: stream}
		if d.IntN(2) == 0 {
			late.Jitter = late.Add / 2
		}
		f.Spec = late
	case 1:
		f.Spec = &fault.Jitter{Aim: aim, By: d.between(10*time.Millisecond, 100*time.Millisecond), Stream: stream}
	case 2:
		f.Spec = &fault.Bandwidth{Aim: aim, Rate: 1 + d.IntN(20), Stream: stream}
	case 3:
		f.Spec = &fault.SlowClose{Aim: aim, Delay: d.between(50*time.Millisecond, 500*time.Millisecond), Stream: stream}
	case 4:
		f.Spec = &fault.Cut{Aim: aim, How: fault.Hole}
	case 5:
		f.Spec = &fault.Cut{Aim: aim, How: fault.Reset}
	case 6:
		f.Spec = &fault.Cut{Aim: aim, How: fault.Down}
	}
}

func (d dice) store(f *experiments.Fault) *fault.Store {
	s := &fault.Store{Do: one(d, fault.StorePause, fault.StoreFlush)}
	if !d.theirs {
		s.Do = one(d, fault.StorePause, fault.StoreFreeze, fault.StoreRestart, fault.StoreStop,
			fault.StoreFlush, fault.StoreFailover)
	}
	switch s.Do {
	case fault.StoreRestart:
		s.Keep, f.For = d.IntN(2) == 0, 0
	case fault.StoreStop:
		s.Keep = d.IntN(2) == 0
	case fault.StoreFlush:
		f.For = 0
	case fault.StoreFailover:
		s.Lag, f.For = d.between(50*time.Millisecond, 300*time.Millisecond), 0
	}
	return s
}

// between is a whole number of milliseconds from lo to hi.
func (d dice) between(lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(d.Int64N(int64(hi-lo)))).Round(time.Millisecond)
}

func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// The stress test makes every fault in every form, and nothing that a file may not say.
func TestLiveTimelinesAreLegalAndMakeEverything(t *testing.T) {
	t.Parallel()
	made := map[string]int{}
	for seed := range uint64(300) {
		l := timelineOf(t, seed)
		data, err := experiments.Marshal(l.e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := experiments.Parse("stress.yaml", data); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, data)
		}
		for i := range l.e.Faults {
			f := &l.e.Faults[i]
			made[fmt.Sprintf("%s %s %s", f.Kind(), f.Form(), f.Traits().Via)]++
		}
		made[string(l.end)]++
	}
	want := []string{"kill crash ", "pause  ", "black_hole  ", "reset  ", "down  ", "delete_key vanish ", "delete_key stranger ", "clock  ",
		string(endsAlone), string(endsByInterrupt), string(endsByTwo), string(endsByKill), string(endsByRace), string(endsByBoth), string(endsByUndoing)}
	for _, kind := range []string{"latency", "jitter", "bandwidth", "slow_close"} {
		for _, stream := range []string{"upstream", "downstream", "both"} {
			want = append(want, kind+" "+stream+" ")
		}
	}
	for _, do := range []string{"pause", "freeze", "restart", "stop", "flush", "failover"} {
		want = append(want, "store "+do+" ")
	}
	for _, kind := range []string{"renew_failures", "acquire_failures", "release_failures"} {
		for _, mode := range []string{"error", "timeout", "delay", "lost_reply"} {
			want = append(want, kind+" "+mode+" worker", kind+" "+mode+" proxy")
		}
	}
	for _, w := range want {
		if made[w] == 0 {
			t.Errorf("no %q in 300 timelines", w)
		}
	}
}
