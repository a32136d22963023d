package rehearsal

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// oneKill is one kill of a renewed leader's holder at the published timings.
func oneKill(b testing.TB) *experiments.Experiment {
	e, err := experiments.Parse("bench", []byte(`apiVersion: lockdrill/v1
kind: Experiment
name: bench
system:
  mode: embedded
  replicas: 3
  locks:
    - name: leader
      key: leader
      policy:
        ttl: 60s
        renew_every: 20s
        class: standard
        op_timeout: 2s
        release: {mode: single, timeout: 2s, after_abandon: skip}
        acquire: {mode: try, timeout: 2s}
        loop: {poll: 30s, mode: renewed, tick: 5ms}
steady_state: {for: 1s, timeout: 5m}
limits: {max_run: 1h}
faults:
  - {id: kill, at: 0s, kill: {holder_of: leader}}
slos:
  - {lock: leader, takeover: {max: 95s}}
`))
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// rehearse plays one seed, and gives the number of its events.
func rehearse(t testing.TB, r *Rehearser, seed int64) int {
	t.Helper()
	d, err := r.Run(context.Background(), seed)
	if err != nil {
		t.Fatal(err)
	}
	return len(d.History.Events)
}

// Once the memory has grown, nothing is allocated for an event: an hour more of the same drill costs events and no allocation.
func TestNothingIsAllocatedForAnEvent(t *testing.T) {
	short, long := oneKill(t), oneKill(t)
	long.SteadyState.For, long.SteadyState.Timeout, long.Limits.MaxRun = time.Hour, 2*time.Hour, 3*time.Hour
	measure := func(e *experiments.Experiment) (allocs float64, events int) {
		r := New(e, sim.DefaultNet())
		events = rehearse(t, r, 1)
		return testing.AllocsPerRun(50, func() { rehearse(t, r, 1) }), events
	}
	few, n := measure(short)
	many, m := measure(long)
	if m < n+1000 || many > few+5 {
		t.Errorf("%g allocations for %d events, %g for %d", few, n, many, m)
	}
}

// The memory that rehearsing and judging need does not grow with the number of seeds.
func TestMemoryIsFlatInTheNumberOfSeeds(t *testing.T) {
	e := oneKill(t)
	r, judger := New(e, sim.DefaultNet()), analysis.NewJudger(e)
	all := forecast.NewRehearsed(e)
	seed := int64(0)
	heapAfter := func(seeds int64) uint64 {
		for range seeds {
			seed++
			d, err := r.Run(context.Background(), seed)
			if err != nil {
				t.Fatal(err)
			}
			all.Add(seed, judger.Judge(d.History), d.History)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	few := heapAfter(500)
	many := heapAfter(3000)
	if many > few+few/10 {
		t.Errorf("%d kB in use after 500 seeds, %d kB after 3500", few/1000, many/1000)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(judger)
}

// processorTime is what this process has used so far, all its cores together: on a machine that others use too, the wall clock says
// more about them.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRehearsal is one drill from the steady state to the final reads, with its full history, judged or not.
func BenchmarkRehearsal(b *testing.B) {
	e := oneKill(b)
	for _, judged := range []bool{false, true} {
		b.Run(map[bool]string{false: "history", true: "judged"}[judged], func(b *testing.B) {
			r, judger := New(e, sim.DefaultNet()), analysis.NewJudger(e)
			b.ReportAllocs()
			events, began := 0, processorTime(b)
			for i := range b.N {
				d, err := r.Run(context.Background(), int64(i))
				if err != nil {
					b.Fatal(err)
				}
				if events = len(d.History.Events); judged {
					judger.Judge(d.History)
				}
			}
			b.ReportMetric(float64(b.N)/(processorTime(b)-began).Seconds(), "drills/core-s")
			b.ReportMetric(float64(events), "events/drill")
		})
	}
}

// BenchmarkMany is what the command does, on as many cores as -cpu says.
func BenchmarkMany(b *testing.B) {
	e, began := oneKill(b), processorTime(b)
	if _, err := Many(context.Background(), e, sim.DefaultNet(), int64(b.N), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "drills/s")
	b.ReportMetric(float64(b.N)/(processorTime(b)-began).Seconds(), "drills/core-s")
}
