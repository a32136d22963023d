package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// Waiters of one key, in two processes, take turns: while one stands in line each other one is granted the key at most once, and the
// server is asked at most three times a grant (stand in line, take it, release it), however many wait. Nothing here is timed: asking
// without being told is put off for longer than the test may take, and who is slow to come back has not stood in line.
func TestWaitersTakeTurns(t *testing.T) {
	for _, waiters := range []int{16, 128} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			c, _ := startRedis(t)
			stores := []*redisstore.Batched{newBatched(t, c, ""), newBatched(t, c, "")}
			const rounds = 10
			var order grants
			var all sync.WaitGroup
			begin := make(chan struct{})
			for i := range waiters {
				all.Go(func() { takeTurns(t, &watched{stores[i%2], t, &order, waiters}, i, rounds, &order, begin) })
			}
			if _, err := stores[0].Acquire(t.Context(), "k", "holder", time.Hour); err != nil {
				t.Fatal(err)
			}
			close(begin)
			awaitLine(t, c, "{k}:line", waiters)
			if err := stores[0].Release(t.Context(), "k", "holder"); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			if len(order.who) != waiters*rounds {
				t.Fatalf("%d grants, want %d", len(order.who), waiters*rounds)
			}
			// one more where the turn's message and the asking cross, as for one grant in six on a busy machine
			if calls, most := scripts(t, c), 3*len(order.who)+len(order.who)/2; calls > most {
				t.Errorf("%d scripts for %d grants, want at most %d", calls, len(order.who), most)
			}
		})
	}
}

// grants is who got the key, in order.
type grants struct {
	mu  sync.Mutex
	who []int
}

func (g *grants) add(who int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.who = append(g.who, who)
}

func (g *grants) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.who)
}

// watched is a store that counts who is granted the key while one stands in line.
type watched struct {
	*redisstore.Batched
	t       *testing.T
	order   *grants
	waiters int
}

func (w *watched) Join(key string) lockcore.Place {
	return &watchedPlace{Place: w.Batched.Join(key), w: w, since: -1}
}

type watchedPlace struct {
	lockcore.Place
	w     *watched
	since int // grants before it surely stood in line
}

func (p *watchedPlace) Acquire(ctx context.Context, token string, ttl time.Duration) (lockcore.Grant, error) {
	g, err := p.Place.Acquire(ctx, token, ttl)
	switch held := new(lockcore.HeldError); {
	case errors.As(err, &held) && p.since < 0:
		p.since = p.w.order.len()
	case err == nil && p.since >= 0: // whoever held before has added its grant before it released
		if others := p.w.order.len() - p.since; others > p.w.waiters {
			p.w.t.Errorf("%d others were granted the key while one of %d stood in line", others, p.w.waiters)
		}
	}
	return g, err
}

// takeTurns acquires and releases the key as a client of its own.
func takeTurns(t *testing.T, s lockcore.Store, who, rounds int, order *grants, begin <-chan struct{}) {
	c, err := client.New(client.Options{Store: s, Policy: lockcore.Policy{
		TTL: time.Hour, Class: lockcore.LegacyWarn,
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: 10 * time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireWait, Timeout: 10 * time.Second, Budget: time.Minute,
			Backoff: lockcore.Backoff{Mode: lockcore.BackoffWake, Every: time.Millisecond, Cap: 50 * time.Second}},
	}})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	<-begin
	for range rounds {
		h, err := c.Acquire(t.Context(), "k")
		if err != nil {
			t.Errorf("waiter %d: %v", who, err)
			return
		}
		order.add(who)
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("waiter %d: %v", who, err)
		}
	}
}

func awaitLine(t *testing.T, c *redis.Client, line string, n int) {
	t.Helper()
	poll, limit := time.NewTicker(2*time.Millisecond), time.After(20*time.Second)
	defer poll.Stop()
	for c.LLen(t.Context(), line).Val() < int64(n) {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("%d stand in line, want %d", c.LLen(t.Context(), line).Val(), n)
		}
	}
}

// scripts is how many the server has run: who asks for one before it is loaded asks again, with its text.
func scripts(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+),.*failed_calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		calls, _ := strconv.Atoi(m[1])
		unloaded, _ := strconv.Atoi(m[2])
		n += calls - unloaded
	}
	if n == 0 {
		t.Fatalf("no figures of scripts in:\n%s", info)
	}
	return n
}
