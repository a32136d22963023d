package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// contend lets waiters take turns on one key: how long they wait, and what that costs the server.
func contend(ctx context.Context, cfg config) error {
	length := 5 * time.Second
	if cfg.short {
		length = time.Second
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "waiters\tback-off\tgrants/s\twait p50 ms\tp99 ms\tp99/p50\tfewest, most grants\tscripts/grant\t")
	for _, waiters := range []int{16, 128} {
		for _, mode := range []lockcore.BackoffMode{lockcore.BackoffDecorrelated, lockcore.BackoffWake} {
			if err := contest(ctx, cfg.addr, waiters, mode, length, t); err != nil {
				return fmt.Errorf("%d waiters, %s: %w", waiters, mode, err)
			}
		}
	}
	return t.Flush()
}

func contest(ctx context.Context, addr string, waiters int, mode lockcore.BackoffMode, length time.Duration, t *tabwriter.Writer) error {
	rc := redisstore.NewClient(addr)
	defer rc.Close()
	store := redisstore.NewBatched(rc, "")
	defer store.Close()
	p := tryOnce()
	p.Acquire = lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: timeout, Budget: 30 * time.Second,
		Backoff: lockcore.Backoff{Mode: mode, Every: time.Millisecond, Cap: time.Second}}
	key := fmt.Sprint(mode, waiters)
	before, err := scriptCalls(ctx, rc)
	if err != nil {
		return err
	}
	waits := make([][]float64, waiters)
	errs := make([]error, waiters)
	var all sync.WaitGroup
	start := time.Now()
	end := start.Add(length)
	for i := range waiters {
		all.Go(func() { waits[i], errs[i] = takeTurns(ctx, store, p, key, end) })
	}
	all.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	calls, err := scriptCalls(ctx, rc)
	if err != nil {
		return err
	}
	fewest, most := len(waits[0]), 0
	for _, w := range waits {
		fewest, most = min(fewest, len(w)), max(most, len(w))
	}
	ms := slices.Sorted(slices.Values(slices.Concat(waits...)))
	p50, p99 := ms[len(ms)/2], ms[len(ms)*99/100]
	fmt.Fprintf(t, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%d, %d\t%.1f\t\n", waiters, mode, float64(len(ms))/took.Seconds(), p50, p99, p99/p50,
		fewest, most, float64(calls-before)/float64(len(ms)))
	return nil
}

// takeTurns acquires and releases one key again and again, as a client of its own, and returns the waits in ms.
func takeTurns(ctx context.Context, store lockcore.Store, p lockcore.Policy, key string, end time.Time) (waits []float64, err error) {
	c, err := client.New(client.Options{Store: store, Policy: p})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	for time.Now().Before(end) {
		began := time.Now()
		h, err := c.Acquire(ctx, key)
		if err != nil {
			return waits, err
		}
		waits = append(waits, float64(time.Since(began).Microseconds())/1000)
		if err := h.Release(ctx); err != nil {
			return waits, err
		}
	}
	return waits, nil
}
