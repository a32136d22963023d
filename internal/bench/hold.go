package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

const (
	heldLocks = 100_000
	heldTTL   = 3 * time.Second
	heldEvery = heldTTL / 3
	latest    = 500 // ms: what is later counts as this late
)

// watched is a store that notes how late each renewal's answer comes after it was due: the due times of a key are its grant and
// whole intervals. It sees every renewal, so what it costs is part of what is measured.
type watched struct {
	*redisstore.Batched
	start   time.Time
	granted []atomic.Int64 // by lock: ns since start
	late    [latest + 1]atomic.Int64
	failed  atomic.Int64
}

// RenewMany implements lockcore.ManyRenewer.
func (w *watched) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	w.Batched.RenewMany(ctx, ttl, renewals)
	now := time.Since(w.start)
	for i := range renewals {
		w.note(renewals[i].Key, now, renewals[i].Err)
	}
}

// Renew implements lockcore.Store.
func (w *watched) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	err := w.Batched.Renew(ctx, key, token, ttl)
	w.note(key, time.Since(w.start), err)
	return err
}

func (w *watched) note(key string, now time.Duration, err error) {
	if err != nil {
		w.failed.Add(1)
		return
	}
	i, _ := strconv.Atoi(key)
	late := (now - time.Duration(w.granted[i].Load())) % heldEvery
	w.late[min(late.Milliseconds(), latest)].Add(1)
}

// reset forgets what was seen so far.
func (w *watched) reset() {
	w.failed.Store(0)
	for i := range w.late {
		w.late[i].Store(0)
	}
}

// percentile is the lateness that so many per cent stay below, in ms, and how many renewals there were.
func (w *watched) percentile(p float64) (ms int, n int64) {
	for i := range w.late {
		n += w.late[i].Load()
	}
	seen := int64(0)
	for ms = range w.late {
		if seen += w.late[ms].Load(); float64(seen) >= float64(n)*p/100 {
			break
		}
	}
	return ms + 1, n
}

// hold keeps 100,000 locks with a TTL of 3 s, renewed every second, in one process.
func hold(ctx context.Context, cfg config) error {
	length := time.Minute
	if cfg.short {
		length = 5 * time.Second
	}
	rc := redisstore.NewClient(cfg.addr)
	defer rc.Close()
	w := &watched{Batched: redisstore.NewBatched(rc, ""), start: time.Now(), granted: make([]atomic.Int64, heldLocks)}
	defer w.Close()
	empty := memory()
	c, err := client.New(client.Options{Store: w, Policy: lockcore.Policy{
		TTL: heldTTL, RenewEvery: heldEvery, Class: lockcore.Standard, OpTimeout: 900 * time.Millisecond,
		StopBudget: 100 * time.Millisecond, Drift: heldTTL / 100,
		Release: lockcore.Release{Mode: lockcore.ReleaseNone},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: timeout},
	}})
	if err != nil {
		return err
	}
	handles, err := takeAll(ctx, c, w)
	if err != nil {
		return errors.Join(err, c.Close(ctx))
	}
	w.reset()
	cpu, server, start := ownCPU(), serverCPU(cfg.pid), time.Now()
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
	took := time.Since(start)
	cpu, server = ownCPU()-cpu, serverCPU(cfg.pid)-server
	lost := 0
	for _, h := range handles {
		if h.Check() != nil {
			lost++
		}
	}
	used := memory() - empty
	p50, n := w.percentile(50)
	p99, _ := w.percentile(99)
	most, _ := w.percentile(100)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d locks\tmeasured\tgoal\t\n", heldLocks)
	fmt.Fprintf(t, "renewals in %s\t%d\t\t\n", took.Round(time.Second), n)
	fmt.Fprintf(t, "failed renewals, lost locks\t%d, %d\t0, 0\t\n", w.failed.Load(), lost)
	fmt.Fprintf(t, "client, of a core\t%.1f%%\t15%%\t\n", 100*float64(cpu)/float64(took))
	fmt.Fprintf(t, "server, of a core\t%.1f%%\t\t\n", 100*float64(server)/float64(took))
	fmt.Fprintf(t, "answer after due: p50, p99, max below\t%d, %d, %d ms\t-, 15 ms, -\t\n", p50, p99, most)
	fmt.Fprintf(t, "memory a lock\t%d B\t1000 B\t\n", used/heldLocks)
	_ = t.Flush()
	return c.Close(ctx)
}

// takeAll acquires all locks, spread over one interval: their renewals then are too.
func takeAll(ctx context.Context, c *client.Client, w *watched) ([]*client.Handle, error) {
	const takers = 64
	handles := make([]*client.Handle, heldLocks)
	errs := make(chan error, takers)
	for taker := range takers {
		go func() {
			for i := taker; i < heldLocks; i += takers {
				h, err := c.Acquire(ctx, strconv.Itoa(i))
				if err != nil {
					errs <- err
					return
				}
				w.granted[i].Store(int64(time.Since(w.start)))
				handles[i] = h
			}
			errs <- nil
		}()
	}
	var all []error
	for range takers {
		all = append(all, <-errs)
	}
	return handles, errors.Join(all...)
}

// memory is what the process uses after a collection, heap and stacks.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
