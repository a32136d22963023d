package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
)

// The tests run a real client in a synctest bubble, where time is exact, on a store in memory whose calls can be made to go wrong.

type clock struct{ start time.Time }

func (c clock) Now() lockcore.Instant {
	mono := time.Since(c.start)
	return lockcore.Instant{Mono: mono, Boot: mono, Wall: mono}
}

// store lets hook decide what the client sees of a call.
type store struct {
	lockcore.Store
	mu     sync.Mutex
	hook   func(op lockcore.Op, do func() error) error
	fences []int64 // given out instead of the store's, in turn
	tokens []string
}

func (s *store) call(op lockcore.Op, do func() error) error {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return do()
	}
	return hook(op, do)
}

func (s *store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (g lockcore.Grant, err error) {
	err = s.call(lockcore.OpAcquire, func() (err error) { g, err = s.Store.Acquire(ctx, key, token, ttl); return err })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, token)
	if len(s.fences) > 0 {
		g.Fence, s.fences = s.fences[0], s.fences[1:]
	}
	return g, err
}

func (s *store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return s.call(lockcore.OpRenew, func() error { return s.Store.Renew(ctx, key, token, ttl) })
}

func (s *store) Release(ctx context.Context, key, token string) error {
	return s.call(lockcore.OpRelease, func() error { return s.Store.Release(ctx, key, token) })
}

// set makes the calls of one operation go wrong from now on; nil = none.
func (s *store) set(op lockcore.Op, wrong func(do func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = func(called lockcore.Op, do func() error) error {
		if called != op || wrong == nil {
			return do()
		}
		return wrong(do)
	}
}

var errLost = errors.New("connection reset")

func failing(func() error) error      { return errLost }
func lostReply(do func() error) error { _ = do(); return errLost }

// bench is a client with instruments.
type bench struct {
	*client.Client
	t     *testing.T
	store *store
	reg   *prometheus.Registry
}

func (b *bench) acquire() *client.Handle {
	b.t.Helper()
	h, err := b.Acquire(client.WithClass(b.t.Context(), "small"), "k")
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// steal takes the key away, or gives it to somebody else.
func (b *bench) steal(other bool) {
	b.t.Helper()
	if err := b.store.Store.Release(b.t.Context(), "k", b.store.tokens[len(b.store.tokens)-1]); err != nil {
		b.t.Fatal(err)
	}
	if other {
		if _, err := b.store.Store.Acquire(b.t.Context(), "k", "theirs", time.Hour); err != nil {
			b.t.Fatal(err)
		}
	}
}

// pass lets time pass in the bubble, and all that it sets off.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
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
		want, err := toFloat(pairs[i+1])
		if err != nil {
			b.t.Fatal(err)
		}
		if !ok || math.Abs(v-want) > 1e-6 {
			b.t.Errorf("%s is %v (there: %t), want %v", name, v, ok, want)
		}
	}
}

func toFloat(v any) (float64, error) {
	switch x := v.(type) {
	case int:
		return float64(x), nil
	case float64:
		return x, nil
	}
	return 0, fmt.Errorf("%v is no number", v)
}

// policy: renewals at 3s, 6s, 9s; validity ends 9.9s after the last success was sent.
func policy() lockcore.Policy {
	return lockcore.Policy{
		TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Class: lockcore.Standard, OpTimeout: time.Second,
		Drift: 100 * time.Millisecond, StopBudget: 900 * time.Millisecond,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonSkip},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second},
	}
}

func class(c lockcore.Class, failures int) lockcore.Policy {
	p := policy()
	p.Class, p.MaxFailures = c, failures
	return p
}

// unundone is a policy that leaves what an acquire may have got.
func unundone() lockcore.Policy {
	p := policy()
	p.Acquire.Undo = lockcore.UndoNone
	return p
}

func TestInstruments(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy lockcore.Policy
		play   func(*bench)
	}{
		{"a job without trouble", policy(), func(b *bench) {
			h := b.acquire()
			b.want("holders", 1, "acquire_total{mode=try,result=granted}", 1, "wait_seconds_count{class=small}", 1)
			pass(4 * time.Second)
			if err := h.Release(b.t.Context()); err != nil {
				b.t.Error(err)
			}
			b.want("holders", 0, "held_seconds_sum{class=small}", 4, "renew_total{result=renewed}", 1, "renew_rtt_seconds_count", 1,
				"fence_margin_seconds_count", 1, "fence_margin_seconds_sum", 8.9, "release_total{result=released}", 1,
				"abandoned_total{reason=deadline}", 0, "debt_seconds_count{cause=release_failed}", 0, "unowned_work_seconds_total", 0)
		}},
		{"busy", policy(), func(b *bench) {
			if _, err := b.store.Store.Acquire(b.t.Context(), "k", "theirs", time.Minute); err != nil {
				b.t.Fatal(err)
			}
			if _, err := b.Acquire(b.t.Context(), "k"); !errors.Is(err, client.ErrBusy) {
				b.t.Errorf("acquire: %v", err)
			}
			b.want("acquire_total{mode=try,result=held}", 1, "wait_seconds_count{class=}", 1, "holders", 0)
		}},
		{"given up at the deadline, stopped too late", policy(), func(b *bench) {
			h := b.acquire()
			b.store.set(lockcore.OpRenew, failing)
			pass(9*time.Second + time.Millisecond)
			b.want("abandoned_total{reason=deadline}", 1, "holders", 0)
			pass(3*time.Second - time.Millisecond) // at 12s
			_ = h.Release(b.t.Context())
			// The renewal sent at 6s may have been applied: the key may stay until 16s.
			b.want("renew_total{result=unknown}", 2, "fence_margin_seconds_sum", -2.1, "unowned_work_seconds_total", 2.1,
				"release_total{result=skipped}", 1, "debt_seconds_sum{cause=release_skipped_after_abandon}", 4)
		}},
		{"given up by count", class(lockcore.LegacyCount, 2), func(b *bench) {
			h := b.acquire()
			b.store.set(lockcore.OpRenew, failing)
			pass(6*time.Second + time.Millisecond)
			_ = h.Release(b.t.Context())
			b.want("abandoned_total{reason=count}", 1, "renew_total{result=unknown}", 2)
		}},
		{"the key is gone", policy(), func(b *bench) {
			h := b.acquire()
			b.steal(false)
			pass(4 * time.Second)
			b.want("not_owned_total{kind=absent,op=renew}", 1, "abandoned_total{reason=not_owned}", 1, "renew_total{result=absent}", 1, "unowned", 1)
			_ = h.Release(b.t.Context())
			b.want("unowned", 0, "unowned_work_seconds_total", 1, "debt_seconds_count{cause=release_skipped_after_abandon}", 0)
		}},
		{"the key is another's at the release", policy(), func(b *bench) {
			h := b.acquire()
			b.steal(true)
			_ = h.Release(b.t.Context())
			b.want("not_owned_total{kind=other,op=release}", 1, "release_total{result=other}", 1)
		}},
		{"the caller's context ends", policy(), func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			_ = b.Do(ctx, "k", func(ctx context.Context, _ *client.Handle) error {
				cancel()
				<-ctx.Done()
				return nil
			})
			b.want("abandoned_total{reason=context}", 1)
		}},
		{"an orphan that is given back", policy(), func(b *bench) {
			b.store.set(lockcore.OpAcquire, lostReply)
			_, _ = b.Acquire(b.t.Context(), "k")
			pass(time.Second)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 1, "debt_seconds_count{cause=orphan_acquire}", 1,
				"debt_seconds_sum{cause=orphan_acquire}", 0)
		}},
		{"an orphan that stays", policy(), func(b *bench) {
			b.store.hook = func(op lockcore.Op, do func() error) error { _ = op; return errLost }
			_, _ = b.Acquire(b.t.Context(), "k")
			pass(time.Minute)
			b.want("orphan_acquire_total", 1, "debt_seconds_sum{cause=orphan_acquire}", 10)
		}},
		{"an orphan that nobody gives back, as published", unundone(), func(b *bench) {
			b.store.set(lockcore.OpAcquire, lostReply)
			_, _ = b.Acquire(b.t.Context(), "k")
			pass(time.Minute)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 1, "debt_seconds_sum{cause=orphan_acquire}", 10)
		}},
		{"a lock that was granted is no orphan", unundone(), func(b *bench) {
			h := b.acquire()
			h.Leave()
			pass(time.Minute)
			b.want("orphan_acquire_total", 0)
		}},
		{"no orphan after all", policy(), func(b *bench) {
			b.store.set(lockcore.OpAcquire, failing)
			_, _ = b.Acquire(b.t.Context(), "k")
			pass(time.Second)
			b.want("acquire_total{mode=try,result=unknown}", 1, "orphan_acquire_total", 0, "not_owned_total{kind=absent,op=undo}", 1)
		}},
		{"a release that fails", policy(), func(b *bench) {
			h := b.acquire()
			b.store.set(lockcore.OpRelease, failing)
			pass(time.Second)
			_ = h.Release(b.t.Context())
			b.want("release_total{result=unknown}", 1, "debt_seconds_sum{cause=release_failed}", 9)
		}},
		{"a fence that goes back", policy(), func(b *bench) {
			b.store.fences = []int64{7, 7}
			_ = b.acquire().Release(b.t.Context())
			b.want("fence_regression_total", 0)
			_ = b.acquire().Release(b.t.Context())
			b.want("fence_regression_total", 1)
		}},
		{"parity of a policy that only warns", class(lockcore.LegacyWarn, 0), func(b *bench) {
			h := b.acquire()
			b.store.set(lockcore.OpRenew, failing)
			pass(12*time.Second + time.Millisecond) // three failures are what the TTL has room for; a fourth finds the validity over
			b.want("renew_budget_exceeded_total", 1, "abandoned_total{reason=count}", 0, "unowned", 1, "holders", 1)
			b.store.set(lockcore.OpRenew, nil)
			_, _ = b.store.Store.Acquire(b.t.Context(), "k", b.store.tokens[0], time.Minute) // the store still knows it
			pass(3 * time.Second)                                                            // at 15s it is renewed
			b.want("unowned", 0, "unowned_work_seconds_total", 5.1)
			_ = h.Release(b.t.Context())
		}},
		{"a policy that works on, and says so", class(lockcore.Continuity, 0), func(b *bench) {
			h := b.acquire()
			b.store.set(lockcore.OpRenew, failing)
			pass(11 * time.Second)
			b.want("unowned", 1, "renew_budget_exceeded_total", 1)
			_ = h.Release(b.t.Context())
			b.want("unowned", 0, "unowned_work_seconds_total", 1.1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.policy)
				c.play(b)
			})
		})
	}
}

func newBench(t *testing.T, p lockcore.Policy) *bench {
	t.Helper()
	b := &bench{t: t, store: &store{Store: memstore.NewStore(nil)}, reg: prometheus.NewRegistry()}
	m, err := metrics.New(b.reg)
	if err != nil {
		t.Fatal(err)
	}
	b.Client, err = client.New(client.Options{
		Store: b.store, Policy: p, Clock: clock{time.Now()}, Seed: 1,
		Metrics: m.For(metrics.Labels{Namespace: "job", Profile: "p", Policy: string(p.Class)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Every series carries whose it is, and nothing that grows with keys or jobs.
func TestLabels(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	k := m.For(metrics.Labels{Namespace: "job", Profile: "cordum/scheduler-job", Policy: "legacy_count"})
	k.Sought(client.Seeking{Key: "secret-key", Class: "small", Mode: lockcore.AcquireTry, Result: lockcore.OK, Fence: 1})
	k.Stopped(client.Stopping{Class: "small"})
	k.StaleWrite(true)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 17 {
		t.Errorf("%d instruments, want the 17 of the design", len(families))
	}
	allowed := []string{"namespace", "profile", "policy", "class", "mode", "result", "reason", "op", "kind", "cause", "outcome"}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lockcore_") {
			t.Errorf("%s has not the prefix", f.GetName())
		}
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
				if !slices.Contains(allowed, l.GetName()) || strings.Contains(l.GetValue(), "secret") {
					t.Errorf("%s carries %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
			if has["namespace"] != "job" || has["profile"] != "cordum/scheduler-job" || has["policy"] != "legacy_count" {
				t.Errorf("%s carries %v", f.GetName(), has)
			}
		}
	}
}

func TestNamesAreTaken(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := metrics.New(reg); err != nil {
		t.Fatal(err)
	}
	if _, err := metrics.New(reg); err == nil {
		t.Error("registered twice")
	}
}
