package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit/storetest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// opener opens a store on one of the two paths.
type opener func(t testing.TB, c redis.UniversalClient, prefix string) lockcore.Store

// onBothPaths runs a test on the plain store and on the batched one, whose calls go alone or with others: all make the same promises.
func onBothPaths(t *testing.T, test func(t *testing.T, open opener)) {
	t.Run("plain", func(t *testing.T) {
		test(t, func(_ testing.TB, c redis.UniversalClient, prefix string) lockcore.Store {
			return redisstore.NewStore(c, prefix)
		})
	})
	t.Run("batched", func(t *testing.T) {
		test(t, func(t testing.TB, c redis.UniversalClient, prefix string) lockcore.Store {
			return newBatched(t, c, prefix)
		})
	})
	t.Run("batched together", func(t *testing.T) {
		test(t, func(t testing.TB, c redis.UniversalClient, prefix string) lockcore.Store {
			s := newBatched(t, c, prefix)
			redisstore.TravelTogether(s)
			return s
		})
	})
}

func newBatched(t testing.TB, c redis.UniversalClient, prefix string) *redisstore.Batched {
	s := redisstore.NewBatched(c, prefix)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStoreOnRedis(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		storetest.Store(t,
			func(t *testing.T) lockcore.Store { return open(t, c, t.Name()+":") },
			func(d time.Duration) { <-time.After(d) }) // the server's clock cannot be moved
	})
}

func TestLedgerOnRedis(t *testing.T) {
	c, _ := startRedis(t)
	storetest.Ledger(t, func(t *testing.T) lockcore.Ledger { return redisstore.NewLedger(c, t.Name()+":") })
}

// Anybody's GET and PTTL must see a lock as it stands, whatever this package keeps beside it.
func TestLockIsAPlainKey(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		s := open(t, c, "lockdrill:r1:")
		g, err := s.Acquire(t.Context(), "job:7", "secret", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if v := c.Get(t.Context(), "lockdrill:r1:job:7").Val(); v != "secret" {
			t.Errorf("value %q, want the token", v)
		}
		if d := c.PTTL(t.Context(), "lockdrill:r1:job:7").Val(); d <= 50*time.Second || d > time.Minute {
			t.Errorf("pttl %s, want nearly a minute", d)
		}
		fence := "{lockdrill:r1:job:7}:fence"
		if v := c.Get(t.Context(), fence).Val(); v != fmt.Sprint(g.Fence) {
			t.Errorf("fence key %q, want %d", v, g.Fence)
		}
		if d := c.TTL(t.Context(), fence).Val(); d < 23*time.Hour || d > 24*time.Hour {
			t.Errorf("fence key expires in %s, want about a day", d)
		}
	})
}

// A flush loses the counter; the server's microseconds take over.
func TestFenceGrowsAcrossFlush(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		s := open(t, c, "")
		before, err := s.Acquire(t.Context(), "k", "one", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		after, err := s.Acquire(t.Context(), "k", "two", time.Minute)
		if err != nil || after.Fence <= before.Fence {
			t.Errorf("fence %d after %d, %v: must grow across a flush", after.Fence, before.Fence, err)
		}
	})
}

// Keys of one lock must share a slot: Redis Cluster refuses a script otherwise.
func TestKeysShareASlot(t *testing.T) {
	c, _ := startRedis(t, "--cluster-enabled", "yes")
	slot := func(key string) int64 {
		n, err := c.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for lock, fence := range map[string]string{
		"cordum:job:7":     "{cordum:job:7}:fence",
		"a:{tag}:b":        "a:{tag}:b:fence",
		"lone{brace":       "{lone{brace}:fence",
		"{all of the key}": "{all of the key}:fence",
	} {
		if slot(lock) != slot(fence) {
			t.Errorf("%q and %q are in different slots", lock, fence)
		}
	}
	keys := redisstore.KeysOf("lockdrill:r1:").List()
	for _, k := range keys {
		if slot(k) != slot(keys[0]) {
			t.Errorf("ledger keys %q and %q are in different slots", k, keys[0])
		}
	}
}

// The scripts survive SCRIPT FLUSH: EVALSHA falls back to EVAL.
func TestScriptsAreLoadedAgain(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		s := open(t, c, "")
		for i := range 2 {
			if err := c.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			token := fmt.Sprint(i)
			if _, err := s.Acquire(t.Context(), "k", token, time.Minute); err != nil {
				t.Fatalf("acquire without the script loaded: %v", err)
			}
			if err := s.Release(t.Context(), "k", token); err != nil {
				t.Fatalf("release without the script loaded: %v", err)
			}
		}
	})
}

func TestRefusalsHadNoEffect(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		s := open(t, c, "")
		config := func(name, value string) {
			t.Helper()
			if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		try := func(why string) {
			t.Helper()
			if _, err := s.Acquire(t.Context(), "k", "one", time.Minute); !errors.Is(err, lockcore.ErrNotSent) {
				t.Errorf("%s: %v, want an error that wraps ErrNotSent", why, err)
			}
			if n := c.Exists(t.Context(), "k", "{k}:fence").Val(); n != 0 {
				t.Errorf("%s: %d keys were written", why, n)
			}
		}
		config("maxmemory", "1")
		try("out of memory")
		config("maxmemory", "0")
		if err := c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
		try("read-only replica")
	})
}

func TestRefusedDialIsNotSent(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		var dials atomic.Int64
		c := redis.NewClient(redisstore.Tune(&redis.Options{Addr: redistest.Nobody(t), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}))
		defer c.Close()
		_, err := open(t, c, "").Acquire(t.Context(), "k", "one", time.Minute)
		if !errors.Is(err, lockcore.ErrNotSent) {
			t.Errorf("acquire: %v, want an error that wraps ErrNotSent", err)
		}
		if n := dials.Load(); n == 0 || n > 2 { // of a pipeline go-redis asks its pool for pipelines, then the common one
			t.Errorf("%d dials: a refused one was retried", n)
		}
	})
}

// A server that accepts and never answers: the context's deadline counts, and the effect is unknown.
func TestNoReplyIsUnknown(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c := redisstore.NewClient(l.Addr().String())
		defer c.Close()
		s := open(t, c, "")
		start := time.Now()
		err = written(t, func(ctx context.Context) error { return s.Renew(ctx, "k", "one", time.Minute) })
		if got := lockcore.ResultOf(err); got != lockcore.Unknown {
			t.Errorf("renew: %v is %s, want unknown", err, got)
		}
		if d := time.Since(start); d > 20*time.Second { // what a call may take at most is far more
			t.Errorf("a call with a deadline took %s", d)
		}
	})
}

// written makes a call that nobody answers, which ends with its context, until one was not too late to be written: a machine that is
// busy may take all of a short time.
func written(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	for limit := 50 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := call(ctx)
		cancel()
		if lockcore.ResultOf(err) != lockcore.Failed || !errors.Is(err, context.DeadlineExceeded) || limit > 5*time.Second {
			return err
		}
	}
}

// An error that the server gives for another reason says nothing about the effect.
func TestOtherErrorRepliesAreUnknown(t *testing.T) {
	onBothPaths(t, func(t *testing.T, open opener) {
		c, _ := startRedis(t)
		if err := c.RPush(t.Context(), "k", "a list").Err(); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, c, "").Acquire(t.Context(), "k", "one", time.Minute)
		if got := lockcore.ResultOf(err); got != lockcore.Unknown {
			t.Errorf("acquire of a list: %v is %s, want unknown", err, got)
		}
	})
}

// TestEntries pins what a probe reads and what a foreign worker sends: the contract of effect.lua, on both servers.
func TestEntries(t *testing.T) {
	servers := map[string]func(*testing.T) *redis.Client{
		"redis":     func(t *testing.T) *redis.Client { c, _ := startRedis(t); return c },
		"miniredis": func(t *testing.T) *redis.Client { c, _, _ := startMini(t); return c },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) { entries(t, start(t)) })
	}
}

func entries(t *testing.T, c *redis.Client) {
	keys := redisstore.KeysOf("p:")
	write := func(lock []string, args ...any) []any {
		t.Helper()
		r, err := c.Eval(t.Context(), redisstore.EffectScript(), append(keys.List(), lock...), args...).Slice()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if err := c.Set(t.Context(), "lock", "secret", 0).Err(); err != nil {
		t.Fatal(err)
	}
	const fence = 1790000000123457
	got := write(nil, "k", "job-1", 0, "begin", 0, "abc", fence, "op1", "r1.1", 0, 0)
	wantReply(t, got, 1, 1, "", "", 0, 0)
	got = write([]string{"lock"}, "k", "job-1", 0, "done", 1, "abc", fence, "op2", "r1.1", 0, 0, "secret")
	wantReply(t, got, 2, 1, "", "", 0, 0)
	got = write([]string{"lock"}, "k", "job-1", 0, "done", 1, "abc", fence-1, "op3", "r1.1", 0, 0, "stale")
	wantReply(t, got, 3, 0, "fenced", "done", 1, fence)
	got = write([]string{"gone"}, "k", "loop", 1, "tick", 0, "abc", fence, "op4", "r1.1", 0, 0, "secret")
	wantReply(t, got, 4, 1, "", "", 0, 0)
	got = write(nil, "k", "job-1", 0, "done", 1, "abc", fence, "op2", "r1.1", 0, 0)
	wantReply(t, got, 2, 1, "replay", "", 0, 0)

	stream, err := c.XRange(t.Context(), keys.Entries, "-", "+").Result()
	if err != nil || len(stream) != 4 {
		t.Fatalf("%d entries, %v; want 4: a replay is none", len(stream), err)
	}
	var named []string
	for i, m := range stream {
		if want := fmt.Sprintf("%d-0", i+1); m.ID != want {
			t.Errorf("entry %s, want %s", m.ID, want)
		}
		named = append(named, m.Values["named"].(string))
	}
	if got := strings.Join(named, ","); got != ",self,other,none" {
		t.Errorf("named %q", got)
	}
	want := map[string]any{
		"key": "k", "subject": "job-1", "loop": "0", "state": "done", "terminal": "1", "epoch": "abc", "fence": "1790000000123456",
		"op": "op3", "writer": "r1.1", "accepted": "0", "reason": "fenced", "named": "other",
	}
	if got := stream[2].Values; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("entry 3 is\n%v, want\n%v", got, want)
	}
}

func wantReply(t *testing.T, got []any, pos, accepted int64, reason, state string, terminal, fence int64) {
	t.Helper()
	if want := []any{pos, accepted, reason, state, terminal, fence}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("reply %v, want %v", got, want)
	}
}
