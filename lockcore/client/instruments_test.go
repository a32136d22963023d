package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
)

// What package metrics shows of a client that runs in a bubble.

// bench is a client with instruments.
type bench struct {
	*rig
	t   *testing.T
	reg *prometheus.Registry
}

func newBench(t *testing.T, p lockcore.Policy) *bench {
	t.Helper()
	b := &bench{t: t, reg: prometheus.NewRegistry()}
	m, err := metrics.New(b.reg)
	if err != nil {
		t.Fatal(err)
	}
	store := newFaulty()
	b.rig = joinRigOn(t, p, store, store, func(o *client.Options) {
		o.Metrics = m.For(metrics.Labels{Namespace: "job", Profile: "p", Policy: string(p.Class)})
	})
	return b
}

func (b *bench) acquire() *client.Handle {
	b.t.Helper()
	h, err := b.Acquire(client.WithClass(b.t.Context(), "small"), "k")
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// read flattens what a scrape would show, without the labels that all series share: "renew_total{result=renewed}".
func (b *bench) read() map[string]float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var own []string
			for _, l := range m.GetLabel() {
				if !slices.Contains([]string{"namespace", "profile", "policy"}, l.GetName()) {
					own = append(own, l.GetName()+"="+l.GetValue())
				}
			}
			name, labels := strings.TrimPrefix(f.GetName(), "lockcore_"), ""
			if len(own) > 0 {
				labels = "{" + strings.Join(own, ",") + "}"
			}
			switch {
			case m.GetHistogram() != nil:
				all[name+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				all[name+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			case m.GetGauge() != nil:
				all[name+labels] = m.GetGauge().GetValue()
			default:
				all[name+labels] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// want holds series against values: "name{labels}", value, ...
func (b *bench) want(pairs ...any) {
	b.t.Helper()
	all := b.read()
	for i := 0; i+1 < len(pairs); i += 2 {
		name := pairs[i].(string)
		v, ok := all[name]
		want, err := strconv.ParseFloat(fmt.Sprint(pairs[i+1]), 64)
		if err != nil {
			b.t.Fatal(err)
		}
		if !ok || math.Abs(v-want) > 1e-6 {
			b.t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
		}
	}
}

func TestInstruments(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy func(*lockcore.Policy)
		play   func(*bench)
	}{
		{"a job without trouble", nil, func(b *bench) {
			h := b.acquire()
			b.want("holders", 1, "acquire_total{mode=try,result=granted}", 1, "wait_seconds_count{class=small}", 1)
			settle(4 * time.Second)
			if err := h.Release(b.t.Context()); err != nil {
				b.t.Error(err)
			}
			b.want("holders", 0, "held_seconds_sum{class=small}", 4, "renew_total{result=renewed}", 1, "renew_rtt_seconds_count", 1,
				"fence_margin_seconds_count", 1, "fence_margin_seconds_sum", 8.9, "release_total{result=released}", 1,
				"abandoned_total{reason=deadline}", 0, "debt_seconds_count{cause=release_failed}", 0, "unowned_work_seconds_total", 0)
		}},
		{"busy", nil, func(b *bench) {
			if _, err := b.store.Store.Acquire(b.t.Context(), "k", "theirs", time.Minute); err != nil {
				b.t.Fatal(err)
			}
			if _, err := b.Acquire(b.t.Context(), "k"); !errors.Is(err, client.ErrBusy) {
				b.t.Errorf("acquire: %v", err)
			}
			b.want("acquire_total{mode=try,result=held}", 1, "wait_seconds_count{class=}", 1, "holders", 0)
		}},
		{"given up at the deadline, stopped too late", nil, func(b *bench) {
			h := b.acquire()
			b.store.set(only(lockcore.OpRenew, failing))
			settle(9*time.Second + time.Millisecond)
			b.want("abandoned_total{reason=deadline}", 1, "holders", 0)
			settle(3*time.Second - time.Millisecond) // at 12s
			_ = h.Release(b.t.Context())
			// The renewal sent at 6s may have been applied: the key may stay until 16s.
			b.want("renew_total{result=unknown}", 2, "fence_margin_seconds_sum", -2.1, "unowned_work_seconds_total", 2.1,
				"release_total{result=skipped}", 1, "debt_seconds_sum{cause=release_skipped_after_abandon}", 4)
		}},
		{"given up by count", func(p *lockcore.Policy) { p.Class, p.MaxFailures = lockcore.LegacyCount, 2 }, func(b *bench) {
			h := b.acquire()
			b.store.set(only(lockcore.OpRenew, failing))
			settle(6*time.Second + time.Millisecond)
			_ = h.Release(b.t.Context())
			b.want("abandoned_total{reason=count}", 1, "renew_total{result=unknown}", 2)
		}},
		{"the key is gone", nil, func(b *bench) {
			h := b.acquire()
			b.store.vanish(b.t, "k")
			settle(4 * time.Second)
			b.want("not_owned_total{kind=absent,op=renew}", 1, "abandoned_total{reason=not_owned}", 1, "renew_total{result=absent}", 1, "unowned", 1)
			_ = h.Release(b.t.Context())
			b.want("unowned", 0, "unowned_work_seconds_total", 1, "debt_seconds_count{cause=release_skipped_after_abandon}", 0)
		}},
		{"the key is another's at the release", nil, func(b *bench) {
			h := b.acquire()
			b.store.vanish(b.t, "k")
			if _, err := b.store.Store.Acquire(b.t.Context(), "k", "theirs", time.Hour); err != nil {
				b.t.Fatal(err)
			}
			_ = h.Release(b.t.Context())
			b.want("not_owned_total{kind=other,op=release}", 1, "release_total{result=other}", 1)
		}},
		{"the caller's context ends", nil, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			_ = b.Do(ctx, "k", func(ctx context.Context, _ *client.Handle) error {
				cancel()
				<-ctx.Done()
				return nil
			})
			b.want("abandoned_total{reason=context}", 1)
		}},
		{"an orphan that is given back", nil, func(b *bench) {
			b.store.set(only(lockcore.OpAcquire, lostReply))
			_, _ = b.Acquire(b.t.Context(), "k")
			settle(time.Second)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 1, "debt_seconds_count{cause=orphan_acquire}", 1,
				"debt_seconds_sum{cause=orphan_acquire}", 0)
		}},
		{"an orphan that stays", nil, func(b *bench) {
			b.store.set(func(context.Context, lockcore.Op, func() error) error { return errLost })
			_, _ = b.Acquire(b.t.Context(), "k")
			settle(time.Minute)
			b.want("orphan_acquire_total", 1, "debt_seconds_sum{cause=orphan_acquire}", 10)
		}},
		{"an orphan that nobody gives back, as published", func(p *lockcore.Policy) { p.Acquire.Undo = lockcore.UndoNone }, func(b *bench) {
			b.store.set(only(lockcore.OpAcquire, lostReply))
			_, _ = b.Acquire(b.t.Context(), "k")
			settle(time.Minute)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 1, "debt_seconds_sum{cause=orphan_acquire}", 10)
		}},
		{"a lock that was granted is no orphan", func(p *lockcore.Policy) { p.Acquire.Undo = lockcore.UndoNone }, func(b *bench) {
			h := b.acquire()
			h.Leave()
			settle(time.Minute)
			b.want("orphan_acquire_total", 0)
		}},
		{"no orphan after all", nil, func(b *bench) {
			b.store.set(only(lockcore.OpAcquire, failing))
			_, _ = b.Acquire(b.t.Context(), "k")
			settle(time.Second)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 0, "not_owned_total{kind=absent,op=undo}", 1)
		}},
		{"a release that fails", nil, func(b *bench) {
			h := b.acquire()
			b.store.set(only(lockcore.OpRelease, failing))
			settle(time.Second)
			_ = h.Release(b.t.Context())
			b.want("release_total{result=unknown}", 1, "debt_seconds_sum{cause=release_failed}", 9)
		}},
		{"parity of a policy that only warns", func(p *lockcore.Policy) { p.Class, p.MaxFailures = lockcore.LegacyWarn, 0 }, func(b *bench) {
			h := b.acquire()
			b.store.set(only(lockcore.OpRenew, failing))
			settle(12*time.Second + time.Millisecond) // three failures are what the TTL has room for; a fourth finds the validity over
			b.want("renew_budget_exceeded_total", 1, "abandoned_total{reason=count}", 0, "unowned", 1, "holders", 1)
			b.store.set(nil)
			_, _ = b.store.Store.Acquire(b.t.Context(), "k", b.store.tokens[0], time.Minute) // the store still knows it
			settle(3 * time.Second)                                                          // at 15s it is renewed
			b.want("unowned", 0, "unowned_work_seconds_total", 5.1)
			_ = h.Release(b.t.Context())
		}},
		{"a policy that works on, and says so", func(p *lockcore.Policy) { p.Class, p.MaxFailures = lockcore.Continuity, 0 }, func(b *bench) {
			h := b.acquire()
			b.store.set(only(lockcore.OpRenew, failing))
			settle(11 * time.Second)
			b.want("unowned", 1, "renew_budget_exceeded_total", 1)
			_ = h.Release(b.t.Context())
			b.want("unowned", 0, "unowned_work_seconds_total", 1.1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy()
				if p.Release.Attempts, p.Release.AfterAbandon = 2, lockcore.AfterAbandonSkip; c.policy != nil {
					c.policy(&p)
				}
				c.play(newBench(t, p))
			})
		})
	}
}
