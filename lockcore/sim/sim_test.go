package sim

import (
	"math"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// renewed is a leader loop with the published timings, kept and renewed until its holder dies.
func renewed() Config {
	return Config{Net: DefaultNet(), Locks: []Lock{{Name: "leader", Key: "leader", Policy: lockcore.Policy{
		TTL: 60 * time.Second, RenewEvery: 20 * time.Second, Class: lockcore.LegacyCount, MaxFailures: 3, OpTimeout: 2 * time.Second,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone}, Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: 2 * time.Second},
		Loop: &lockcore.Loop{Poll: 30 * time.Second, Mode: lockcore.LoopRenewed, Tick: 5 * time.Millisecond},
	}}}}
}

var names = []string{"r1", "r2", "r3"}

// drill starts a leader, then, at phases that have nothing to do with its own, two more replicas; kills the leader at a random
// instant, and gives the time until the next leader's first effect.
func drill(w *World, c Config, seed uint64) time.Duration {
	c.Seed = seed
	w.Reset(c)
	pass := func(until int64) {
		for !w.Advance(until) { // it stops wherever something was emitted
		}
	}
	w.Start(names[0], names[0])
	pass(int64(40 * time.Second))
	for _, n := range names[1:] {
		w.Start(n, n)
	}
	killed := int64(100*time.Second) + w.Random(int64(60*time.Second))
	pass(killed)
	k := w.keys["leader"]
	if w.expire(k); k.holder == 0 || !w.Kill(w.truth.Epochs[k.holder-1].Replica) {
		panic("nobody leads")
	}
	writes := len(w.truth.Writes)
	for limit := killed + int64(10*time.Minute); len(w.truth.Writes) == writes; {
		at, some := w.queue.next()
		if !some || at > limit {
			panic("nobody took over")
		}
		m := w.queue.pop()
		w.now = max(w.now, at)
		w.happen(&m)
	}
	return time.Duration(w.truth.Writes[writes].At - killed)
}

// Mean takeover of a random kill is TTL - renew/2 + poll/N, for renewed loops with independent polls and without a replacement.
func TestMeanTakeoverIsTheClosedForm(t *testing.T) {
	w, c := New(Config{}), renewed()
	const drills = 40_000
	var sum float64
	for seed := range uint64(drills) {
		sum += drill(w, c, seed).Seconds()
	}
	p := &c.Locks[0].Policy
	want := (p.TTL - p.RenewEvery/2 + p.Loop.Poll/time.Duration(len(names))).Seconds()
	if got := sum / drills; math.Abs(got-want) > want/100 {
		t.Errorf("mean takeover %.2fs, the closed form says %.2fs", got, want)
	}
}

// Whether anybody records changes nothing of what happens.
func TestRecordingChangesNothing(t *testing.T) {
	for seed := range uint64(200) {
		c := renewed()
		a, b := New(Config{}), New(Config{})
		drill(a, c, seed)
		n := 0
		c.Emit = func(e history.Event) {
			n++
			if err := e.Check(); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, e.Kind, err)
			}
		}
		c.Looks.Keys.Every, c.Looks.Ledger.Every = 5*time.Millisecond, 5*time.Millisecond
		drill(b, c, seed)
		if x, y := a.Truth(), b.Truth(); !reflect.DeepEqual(x, y) || n == 0 {
			t.Fatalf("seed %d: the truth of a recorded world (%d events, %d acquires) is another than of one that was not (%d)", seed, n, len(y.Epochs), len(x.Epochs))
		}
	}
}

// The queue gives what is planned in the order of time, and of planning.
func TestQueue(t *testing.T) {
	var q queue
	r := rng(1)
	for i := range uint32(1000) {
		q.push(&moment{at: r.below(50), seq: i})
	}
	var last moment
	for i := range 1000 {
		m := q.pop()
		if i > 0 && (m.at < last.at || m.at == last.at && m.seq < last.seq) {
			t.Fatalf("%d/%d after %d/%d", m.at, m.seq, last.at, last.seq)
		}
		last = m
	}
}

// Once its memory has grown, a world allocates nothing for what happens in it.
func TestNothingIsAllocatedForAMoment(t *testing.T) {
	w, c := New(Config{}), renewed()
	seed := uint64(0)
	one := func() { drill(w, c, seed); seed++ }
	for range 200 {
		one()
	}
	if n := testing.AllocsPerRun(200, one); n > 0 || w.moments() < 40 {
		t.Errorf("%g allocations in a drill of %d moments", n, w.moments())
	}
}

// processorTime is what this process has used so far: on a machine that others use too, the wall clock says more about them.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDrill(b *testing.B) {
	w, c := New(Config{}), renewed()
	b.ReportAllocs()
	began := processorTime(b)
	for i := range b.N {
		drill(w, c, uint64(i))
	}
	b.ReportMetric(float64(b.N)/(processorTime(b)-began).Seconds(), "drills/core-s")
	b.ReportMetric(float64(w.moments()), "moments/drill")
}

// moments is how many things have happened so far.
func (w *World) moments() int64 { return w.events }
