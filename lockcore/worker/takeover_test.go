package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/memstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Each published loop, at its published numbers, in virtual time: three replicas, one of them dies, another goes on.

// seenTick is an effect, as the ledger saw it.
type seenTick struct {
	at     time.Duration
	writer string
}

// crowd is the replicas of one loop on a shared store and a shared ledger.
type crowd struct {
	start  time.Time
	store  *memstore.Store
	ledger *memstore.Ledger

	mu    sync.Mutex
	dead  string
	ticks []seenTick
}

var errDead = errors.New("the replica is dead")

func (c *crowd) now() time.Duration { return time.Since(c.start) }

// Now is the clock of all replicas.
func (c *crowd) Now() lockcore.Instant {
	return lockcore.Instant{Mono: c.now(), Wall: c.now(), Boot: c.now()}
}

func (c *crowd) isDead(replica string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead == replica
}

// mortal is one replica's way to both stores: nothing of a dead one arrives.
type mortal struct {
	*crowd
	name string
}

func (m mortal) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if m.isDead(m.name) {
		return lockcore.Grant{}, errDead
	}
	return m.store.Acquire(ctx, key, token, ttl)
}

func (m mortal) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if m.isDead(m.name) {
		return errDead
	}
	return m.store.Renew(ctx, key, token, ttl)
}

func (m mortal) Release(ctx context.Context, key, token string) error {
	if m.isDead(m.name) {
		return errDead
	}
	return m.store.Release(ctx, key, token)
}

func (m mortal) Read(ctx context.Context, subject string) (lockcore.SubjectState, error) {
	return m.ledger.Read(ctx, subject)
}

func (m mortal) Write(ctx context.Context, e lockcore.Effect) (lockcore.Receipt, error) {
	if m.isDead(m.name) {
		return lockcore.Receipt{}, errDead
	}
	r, err := m.ledger.Write(ctx, e)
	if err == nil && r.Accepted {
		m.mu.Lock()
		m.ticks = append(m.ticks, seenTick{m.now(), e.Writer})
		m.mu.Unlock()
	}
	return r, err
}

// join starts a replica of the loop, and returns when ctx ends and it has stopped.
func (c *crowd) join(ctx context.Context, t *testing.T, name string, seed int64, l *experiments.Lock) {
	m := mortal{c, name}
	w := &worker{who: protocol.Configure{Name: name, Incarnation: name, Seed: seed}, ledger: m, jobs: map[string]bool{}, fail: func(error) {}}
	w.out.Writer = io.Discard
	cl, err := client.New(client.Options{Store: m, Policy: l.Policy, Lock: "loop", Source: name, Clock: c, Seed: seed})
	if err != nil {
		t.Error(err)
		return
	}
	w.runLoop(ctx, &lock{
		Lock: protocol.Lock{Name: "loop", Key: l.Key, Policy: l.Policy}, client: cl, validity: newValidity(l.Policy.TTL),
	})
	if err := cl.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// last is the latest effect, of anybody but the one named.
func (c *crowd) last(but string) (seenTick, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.ticks) - 1; i >= 0; i-- {
		if c.ticks[i].writer != but {
			return c.ticks[i], true
		}
	}
	return seenTick{}, false
}

// until waits for an effect after an instant, of anybody but the one named; it looks every step.
func (c *crowd) until(t *testing.T, after, step time.Duration, but string) seenTick {
	t.Helper()
	for limit := time.After(time.Hour); ; {
		if s, ok := c.last(but); ok && s.at >= after {
			return s
		}
		select {
		case <-time.After(step):
		case <-limit:
			t.Fatal("no effect for an hour")
		}
	}
}

// drillLoop kills the leader at about a share of the time for which it holds its key, and measures: from its last tick to its
// death, and from there to the next tick.
func drillLoop(t *testing.T, l *experiments.Lock, seed int64, share float64) (idle, takeover time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{start: time.Now(), store: memstore.NewStore(nil), ledger: memstore.NewLedger()}
		ctx, cancel := context.WithCancel(t.Context())
		var replicas sync.WaitGroup
		for i := range 3 {
			replicas.Go(func() { c.join(ctx, t, fmt.Sprintf("r%d", i+1), seed+int64(i), l) })
		}
		held, step := l.Policy.TTL, l.Policy.Loop.Tick/20
		if l.Policy.Loop.Mode == lockcore.LoopExplicit {
			held = l.Policy.Loop.Tick
		}
		leader := c.until(t, 2*l.Policy.TTL, step, "")
		<-time.After(time.Duration(share * float64(held-step)))
		c.mu.Lock()
		c.dead = leader.writer
		c.mu.Unlock()
		killed := c.now()
		idle, takeover = killed-leader.at, c.until(t, killed, step, leader.writer).at-killed
		cancel()
		replicas.Wait()
	})
	return idle, takeover
}

// TTL + poll is the upper end of each published sum; the lower end is what is left of the lease when its holder dies.
func TestPublishedLoopsTakeOverWithinTheirSum(t *testing.T) {
	seed := rand.Int64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	for _, profile := range []string{
		"cordum/scheduler-reconciler", "cordum/pending-replayer", "cordum/workflow-reconciler", "cordum/delay-poller", "cordum/snapshot-writer",
	} {
		t.Run(profile, func(t *testing.T) {
			l, err := experiments.Profile(profile)
			if err != nil {
				t.Fatal(err)
			}
			p := l.Policy
			for range 20 {
				idle, takeover := drillLoop(t, l, rng.Int64(), rng.Float64())
				if least := p.TTL - idle; takeover < least || takeover > least+p.Loop.Poll {
					t.Errorf("killed %s after its tick: takeover %s, the sum says %s to %s", idle, takeover, least, least+p.Loop.Poll)
				}
				if gap := idle + takeover; gap > p.TTL+p.Loop.Poll {
					t.Errorf("killed %s after its tick: tick gap %s, the sum says up to %s", idle, gap, p.TTL+p.Loop.Poll)
				}
			}
		})
	}
}
