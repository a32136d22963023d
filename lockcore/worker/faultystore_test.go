package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// versatile is a store that can do everything that a store may.
type versatile struct {
	*memstore.Store
	mu       sync.Mutex
	together []int // renewals in each call
}

func (v *versatile) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	v.mu.Lock()
	v.together = append(v.together, len(renewals))
	v.mu.Unlock()
	for i, r := range renewals {
		renewals[i].Err = v.Renew(ctx, r.Key, r.Token, ttl)
	}
}

func (v *versatile) Join(key string) lockcore.Place { return &spot{v, key} }

type spot struct {
	v   *versatile
	key string
}

func (p *spot) Acquire(ctx context.Context, token string, ttl time.Duration) (lockcore.Grant, error) {
	return p.v.Acquire(ctx, p.key, token, ttl)
}
func (*spot) Turn() <-chan struct{}      { return nil }
func (*spot) Quit(context.Context) error { return nil }

func TestWrappedStoreCanDoWhatTheStoreCan(t *testing.T) {
	f, _ := tellTale()
	v := &versatile{Store: memstore.NewStore(nil)}
	for name, c := range map[string]struct {
		store      lockcore.Store
		line, many bool
	}{
		"everything": {v, true, true},
		"line": {struct {
			*memstore.Store
			lockcore.Line
		}{v.Store, v}, true, false},
		"many": {struct {
			*memstore.Store
			lockcore.ManyRenewer
		}{v.Store, v}, false, true},
		"plain": {v.Store, false, false},
	} {
		s := wrapStore(c.store, "l", f)
		_, line := s.(lockcore.Line)
		_, many := s.(lockcore.ManyRenewer)
		if line != c.line || many != c.many {
			t.Errorf("%s: line %v, many %v once wrapped", name, line, many)
		}
	}
}

// Whoever stands in line is hit as anybody who asks.
func TestFaultHitsAnAcquireInLine(t *testing.T) {
	f, _ := tellTale()
	v := &versatile{Store: memstore.NewStore(nil)}
	p := wrapStore(v, "l", f).(lockcore.Line).Join("k")
	f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "acquire", Mode: "error", Lock: "l", Key: "k", Count: 1})
	if g, err := p.Acquire(t.Context(), "token", time.Minute); lockcore.ResultOf(err) != lockcore.Failed || g != (lockcore.Grant{}) {
		t.Errorf("hit: %+v, %v, want failed", g, err)
	}
	if g, err := p.Acquire(t.Context(), "token", time.Minute); err != nil || g.Fence == 0 {
		t.Errorf("afterwards: %+v, %v", g, err)
	}
}

// Among renewals that go together a fault hits those that it is aimed at; the others neither fail nor wait.
func TestFaultHitsOneOfManyRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := tellTale()
		v := &versatile{Store: memstore.NewStore(nil)}
		var mu sync.Mutex
		var events []history.Event
		c, err := client.New(client.Options{
			Store: wrapStore(v, "job", f), Policy: bubblePolicy(), Lock: "job", Source: "r1.1", Clock: &bubbleClock{start: time.Now()},
			Emit: func(e history.Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b", "c"} {
			if _, err := c.Acquire(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		f.arm(protocol.Arm{Fault: "b", Shot: 1, Op: "renew", Mode: "timeout", Key: "b", Count: 1})
		<-time.After(7500 * time.Millisecond) // two renewals of each
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		f.close()
		mu.Lock()
		defer mu.Unlock()
		asked, answered := map[string]int{}, map[string]int{}
		for _, e := range events {
			switch {
			case e.Kind == history.RenewInvoke:
				asked[e.Op]++
			case e.Kind != history.RenewReturn:
			case e.Call.Fault != "":
				if e.Key != "b" || e.Outcome != history.Unknown || e.Width() != int64(time.Second) || e.From != int64(3*time.Second) {
					t.Errorf("hit %+v %+v, want b's first renewal, unknown after a second", e, e.Call)
				}
				answered[e.Op]++
			default:
				if e.Outcome != history.OK || e.Width() != 0 {
					t.Errorf("renewal of %s: %s after %s: want ok at once", e.Key, e.Outcome, time.Duration(e.Width()))
				}
				answered[e.Op]++
			}
		}
		if len(asked) != 6 || len(answered) != 6 {
			t.Errorf("%d renewals announced, %d answered, want 6", len(asked), len(answered))
		}
		for op, n := range asked {
			if n != 1 || answered[op] != 1 {
				t.Errorf("%s was announced %d times and answered %d times", op, n, answered[op])
			}
		}
		if len(v.together) != 2 || v.together[0] != 2 || v.together[1] != 3 {
			t.Errorf("renewed together %v, want 2 beside the one that hangs, then 3", v.together)
		}
	})
}

// bubbleClock runs on a synctest bubble's time.
type bubbleClock struct{ start time.Time }

func (c *bubbleClock) Now() lockcore.Instant {
	d := time.Since(c.start)
	return lockcore.Instant{Mono: d, Boot: d, Wall: d}
}

// bubblePolicy renews at 3s, 6s ..., and fences 9s after the last success was sent.
func bubblePolicy() lockcore.Policy {
	p := jobLock().Policy
	p.TTL, p.RenewEvery, p.OpTimeout, p.Drift, p.StopBudget = 10*time.Second, 3*time.Second, time.Second, 100*time.Millisecond, 900*time.Millisecond
	return p
}
