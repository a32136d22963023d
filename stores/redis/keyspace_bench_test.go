package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// The yardstick of Keyspace: 100,000 keys below a prefix, of which 50,000 expire within 20 s.
const (
	benchKeys     = 100_000
	benchExpiring = 50_000
	benchSpread   = 20 * time.Second
	benchEvery    = 2 * time.Millisecond // as observed drills look
)

// BenchmarkKeyspaceExpiries says how late each expiry is seen, and what Redis spends meanwhile, with the watching and without. One of each: -benchtime 1x.
func BenchmarkKeyspaceExpiries(b *testing.B) {
	for range b.N {
		idle, _ := expiries(b, false)
		watched, late := expiries(b, true)
		slices.Sort(late)
		if len(late) != benchExpiring {
			b.Errorf("%d of %d expiries were seen", len(late), benchExpiring)
		}
		at := func(p float64) float64 { return float64(late[int(p*float64(len(late)-1))]) / 1e6 }
		b.ReportMetric(float64(len(late)), "expiries")
		b.ReportMetric(at(0.5), "ms-p50")
		b.ReportMetric(at(0.99), "ms-p99")
		b.ReportMetric(at(1), "ms-max")
		b.ReportMetric(100*idle, "%core-unwatched")
		b.ReportMetric(100*watched, "%core-watched")
	}
}

// expiries lets the keys expire, and gives the share of a core that Redis used, and how late each end was seen.
func expiries(b *testing.B, watch bool) (share float64, late []int64) {
	c := redis.NewClient(&redis.Options{Addr: redistest.Start(b, "--notify-keyspace-events", "Kg$"), DisableIdentity: true, PoolSize: 64})
	defer c.Close()
	origin := time.Now()
	clock := func() int64 { return int64(time.Since(origin)) }
	ends := map[string]int64{} // by the clock of this host, which is the server's
	for from := 0; from < benchKeys; from += 1000 {
		pipe := c.Pipeline()
		for i := from; i < from+1000; i++ {
			key, end := fmt.Sprintf("job:%06d", i), origin.Add(time.Hour)
			if i < benchExpiring { // the first 5 s are for filling and for the first sweep
				end = origin.Add(5*time.Second + benchSpread*time.Duration(i)/benchExpiring).Truncate(time.Millisecond)
				ends[key] = int64(end.Sub(origin))
			}
			pipe.Do(b.Context(), "SET", key, "token-"+strconv.Itoa(i), "PXAT", end.UnixMilli())
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	p := NewKeyspace(KeyspaceOptions{Client: endpoint.Client(&redis.Options{Addr: c.Options().Addr}, 2*time.Second), Canary: "bench:canary", Under: map[string]string{"job:*": "job"}, MaxGap: time.Second, Clock: clock})
	defer p.Close()
	if watch {
		if _, err := p.Look(b.Context(), false); err != nil {
			b.Fatal(err)
		}
	}
	<-time.After(time.Until(origin.Add(4500 * time.Millisecond))) // a bench: the first expiry is due then
	before, began := cpuOf(b, c), time.Now()
	tick := time.NewTicker(benchEvery)
	defer tick.Stop()
	for end := origin.Add(6*time.Second + benchSpread); time.Now().Before(end); <-tick.C {
		if !watch {
			continue
		}
		report, err := p.Look(b.Context(), false)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range report(history.Span{}) {
			if e.Look != nil && !e.Look.Present {
				late = append(late, e.To-ends[e.Key])
			}
			if e.Kind == history.GapKind {
				b.Errorf("a gap: %s", e.Coverage.Why)
			}
		}
	}
	return (cpuOf(b, c) - before) / time.Since(began).Seconds(), late
}

// cpuOf is the processor time of a server so far, in seconds.
func cpuOf(b *testing.B, c *redis.Client) float64 {
	info, err := c.InfoMap(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sys, _ := strconv.ParseFloat(info["CPU"]["used_cpu_sys"], 64)
	user, _ := strconv.ParseFloat(info["CPU"]["used_cpu_user"], 64)
	return sys + user
}

// BenchmarkKeyspaceBesideLoad is how many calls a service makes while its locks are watched, of those that it makes unwatched: clients that
// take, renew and give back locks below the prefix of 20,000 that are held, beside others that make what calls they can. Windows take turns,
// unwatched, watched, watched, unwatched, so that what else the machine does befalls both; the median of the rounds counts. The same ratio by
// the processor time that the server spent on a call does not know of that at all.
func BenchmarkKeyspaceBesideLoad(b *testing.B) {
	for range b.N {
		c := redis.NewClient(&redis.Options{Addr: redistest.Start(b, "--notify-keyspace-events", "Kg$"), DisableIdentity: true, PoolSize: 64})
		defer c.Close()
		pipe := c.Pipeline()
		for i := range 20_000 {
			pipe.Set(b.Context(), fmt.Sprintf("job:held:%06d", i), "t", time.Hour)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
		calls, stop := busy(b, c)
		var ratios []float64
		var all [2]effort // unwatched, watched
		for range benchRounds {
			var round [2]effort
			for _, watched := range []int{0, 1, 1, 0} {
				e := beside(b, c, calls, watched == 1)
				round[watched].add(e)
				all[watched].add(e)
			}
			ratios = append(ratios, round[1].rate()/round[0].rate())
		}
		stop()
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/4], "of-unwatched-p25")
		b.ReportMetric(ratios[len(ratios)/2], "of-unwatched-p50")
		b.ReportMetric(ratios[3*len(ratios)/4], "of-unwatched-p75")
		b.ReportMetric(all[0].cpu/all[0].calls/(all[1].cpu/all[1].calls), "of-unwatched-by-cpu")
	}
}

const (
	benchRounds = 20
	benchWindow = 400 * time.Millisecond
)

// effort is what a service has done, and what its Redis has spent on it.
type effort struct{ calls, seconds, cpu float64 }

func (e *effort) add(x effort) {
	e.calls, e.seconds, e.cpu = e.calls+x.calls, e.seconds+x.seconds, e.cpu+x.cpu
}
func (e *effort) rate() float64 { return e.calls / e.seconds }

// busy is a service: it takes, renews and gives back 2,000 locks a second, and makes what other calls it can, which are counted.
func busy(b *testing.B, c *redis.Client) (calls *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	calls = &atomic.Int64{}
	var work sync.WaitGroup
	for i := range 16 {
		work.Go(func() {
			key := fmt.Sprint("cache:", i)
			for ctx.Err() == nil {
				if c.Set(ctx, key, "v", time.Minute).Err() == nil && c.Get(ctx, key).Err() == nil {
					calls.Add(2)
				}
			}
		})
	}
	work.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; <-tick.C {
			pipe := c.Pipeline()
			for range 20 {
				key := fmt.Sprint("job:", i%500)
				pipe.SetNX(ctx, key, i, time.Minute)
				pipe.PExpire(ctx, key, time.Minute)
				pipe.Del(ctx, key)
				i++
			}
			_, _ = pipe.Exec(ctx)
		}
	})
	return calls, func() { cancel(); work.Wait() }
}

// beside is one window of it. The first sweep of a watch comes before.
func beside(b *testing.B, c *redis.Client, calls *atomic.Int64, watched bool) effort {
	origin := time.Now()
	p := NewKeyspace(KeyspaceOptions{Client: endpoint.Client(&redis.Options{Addr: c.Options().Addr}, 2*time.Second), Canary: "bench:canary", Under: map[string]string{"job:*": "job"},
		MaxGap: time.Second, Clock: func() int64 { return int64(time.Since(origin)) }})
	defer p.Close()
	look := func() {
		report, err := p.Look(b.Context(), false)
		if err != nil {
			b.Fatal(err)
		}
		report(history.Span{})
	}
	if watched {
		look()
	}
	cpu, done, began := cpuOf(b, c), calls.Load(), time.Now()
	tick := time.NewTicker(benchEvery)
	defer tick.Stop()
	for ; time.Since(began) < benchWindow; <-tick.C {
		if watched {
			look()
		}
	}
	return effort{float64(calls.Load() - done), time.Since(began).Seconds(), cpuOf(b, c) - cpu}
}
