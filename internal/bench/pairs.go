package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"
)

// round is one contestant's turn.
type round struct{ perSecond, p99, allocs, cpu, server float64 }

// pairs prints acquire and release pairs a second on distinct keys: medians of interleaved rounds.
func pairs(ctx context.Context, cfg config) error {
	rounds, length := 5, 700*time.Millisecond
	if cfg.short {
		rounds, length = 1, 200*time.Millisecond
	}
	all, done, err := contestants(cfg.addr)
	if err != nil {
		return err
	}
	defer done()
	for _, callers := range []int{1, 16, 128} {
		results := make([][]round, len(all))
		var ceilings []float64
		for turns := range rounds {
			for n := range all {
				i := (n + turns) % len(all) // nobody always comes after the same one
				c := all[i]
				served := serverCPU(cfg.pid)
				r, err := turn(ctx, c, callers, length)
				if err != nil {
					return fmt.Errorf("%s at %d: %w", c.name, callers, err)
				}
				r.server = float64((serverCPU(cfg.pid) - served).Microseconds()) / (r.perSecond * length.Seconds())
				results[i] = append(results[i], r)
			}
			top, err := ceiling(ctx, cfg.addr, length)
			if err != nil {
				return fmt.Errorf("ceiling: %w", err)
			}
			ceilings = append(ceilings, top)
		}
		printPairs(callers, all, results, median(ceilings))
	}
	return nil
}

// turn lets callers make pairs for so long, each on a key of its own.
func turn(ctx context.Context, c contestant, callers int, length time.Duration) (round, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.pair(ctx, "warm"); err != nil {
		return round{}, err
	}
	took := make([][]float64, callers)
	errs := make([]error, callers)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, start := ownCPU(), time.Now()
	end := start.Add(length)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			key := "lock:" + strconv.Itoa(i)
			mine := make([]float64, 0, 1<<14)
			for at := time.Now(); at.Before(end) && errs[i] == nil; {
				errs[i] = c.pair(ctx, key)
				now := time.Now()
				mine = append(mine, float64(now.Sub(at).Microseconds()))
				at = now
			}
			took[i] = mine
		})
	}
	all.Wait()
	length = time.Since(start)
	cpu = ownCPU() - cpu
	runtime.ReadMemStats(&after)
	for _, err := range errs {
		if err != nil {
			return round{}, err
		}
	}
	micros := slices.Concat(took...)
	n := float64(len(micros))
	slices.Sort(micros)
	return round{
		perSecond: n / length.Seconds(), p99: micros[len(micros)*99/100],
		allocs: float64(after.Mallocs-before.Mallocs) / n, cpu: float64(cpu.Microseconds()) / n,
	}, nil
}

func printPairs(callers int, all []contestant, results [][]round, top float64) {
	of := func(i int, get func(round) float64) float64 {
		values := make([]float64, 0, len(results[i]))
		for _, r := range results[i] {
			values = append(values, get(r))
		}
		return median(values)
	}
	rate := func(r round) float64 { return r.perSecond }
	best := 0.0
	for i, c := range all {
		if c.peer {
			best = max(best, of(i, rate))
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%d goroutines\tpairs/s\tof best peer\tof ceiling\tp99 us\tallocs/pair\tclient us/pair\tserver us/pair\t\n", callers)
	for i, c := range all {
		v := of(i, rate)
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.0f\t%.1f\t%.1f\t%.1f\t\n", c.name, v, v/best, v/top,
			of(i, func(r round) float64 { return r.p99 }), of(i, func(r round) float64 { return r.allocs }), of(i, func(r round) float64 { return r.cpu }),
			of(i, func(r round) float64 { return r.server }))
	}
	fmt.Fprintf(w, "ceiling: our scripts by hand\t%.0f\t%.2f\t1.00\t\t\t\t\t\n", top, top/best)
	_ = w.Flush()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
