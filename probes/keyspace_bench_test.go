package probes

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
	p := NewKeyspace(KeyspaceOptions{Client: newClient(&redis.Options{Addr: c.Options().Addr}), Canary: "bench:canary", Under: map[string]string{"job:": "job"}, MaxGap: time.Second, Clock: clock})
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

// BenchmarkKeyspaceBesideLoad is how many operations a service makes while its locks are watched, of those that it makes unwatched: 64 clients that each take, renew
// and give back locks below the prefix of 20,000 that are held, in windows that take turns.
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
		const window, rate = time.Second, 2000 // locks a second, as a busy scheduler takes
		var done atomic.Int64
		ctx, stop := context.WithCancel(b.Context())
		var work sync.WaitGroup
		for i := range 16 { // the rest of the service's traffic, as fast as it goes
			work.Go(func() {
				key := fmt.Sprint("cache:", i)
				for ctx.Err() == nil {
					if c.Set(ctx, key, "v", time.Minute).Err() == nil && c.Get(ctx, key).Err() == nil {
						done.Add(2)
					}
				}
			})
		}
		work.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for i := 0; ctx.Err() == nil; <-tick.C {
				pipe := c.Pipeline()
				for range rate / 100 {
					key := fmt.Sprint("job:", i%500)
					pipe.SetNX(ctx, key, i, time.Minute)
					pipe.PExpire(ctx, key, time.Minute)
					pipe.Del(ctx, key)
					i++
				}
				_, _ = pipe.Exec(ctx)
			}
		})
		origin := time.Now()
		var ratios []float64
		measure := func(p *Keyspace) float64 {
			from, began := done.Load(), time.Now()
			tick := time.NewTicker(benchEvery)
			defer tick.Stop()
			for ; time.Since(began) < window; <-tick.C {
				if p == nil {
					continue
				}
				report, err := p.Look(b.Context(), false)
				if err != nil {
					b.Fatal(err)
				}
				report(history.Span{})
			}
			return float64(done.Load()-from) / time.Since(began).Seconds()
		}
		for range 12 {
			without := measure(nil)
			p := NewKeyspace(KeyspaceOptions{Client: newClient(&redis.Options{Addr: c.Options().Addr}), Canary: "bench:canary", Under: map[string]string{"job:": "job"},
				MaxGap: time.Second, Clock: func() int64 { return int64(time.Since(origin)) }})
			if _, err := p.Look(b.Context(), false); err != nil {
				b.Fatal(err)
			}
			with := measure(p)
			_ = p.Close()
			ratios = append(ratios, with/((without+measure(nil))/2))
		}
		stop()
		work.Wait()
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "of-unwatched")
		b.ReportMetric(ratios[0], "least-of-unwatched")
		b.ReportMetric(ratios[len(ratios)-1], "most-of-unwatched")
	}
}
