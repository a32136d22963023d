package probes

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Whoever takes a lock may speak the third version of the protocol: grants and renewals are seen, and a refusal is no grant.
func TestLocksOfAClientOfRESP3(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		theirs := redis.NewClient(&redis.Options{Addr: c.Options().Addr, Protocol: 3})
		t.Cleanup(func() { _ = theirs.Close() })
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		w.step(false)
		acquire := func(token string) bool { return theirs.SetNX(t.Context(), "job:a", token, time.Minute).Val() }
		if !acquire("one") {
			t.Fatal("not granted")
		}
		w.until("a grant", isKey("job:a", "one"))
		if acquire("two") {
			t.Fatal("granted twice")
		}
		const renew = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end"
		if err := theirs.Eval(t.Context(), renew, []string{"job:a"}, "one", 90_000).Err(); err != nil {
			t.Fatal(err)
		}
		w.until("a renewal", func(e history.Event) bool {
			return isKey("job:a", "one")(e) && e.Look.Prev != nil && e.Look.PTTL > int64(80*time.Second)
		})
		for _, e := range w.events {
			if isKey("job:a", "two")(e) {
				t.Errorf("refused, and taken for a grant: %+v", e)
			}
		}
	})
}

// Redisson keeps a lock in a hash whose field names its holder: taken twice by the same one it is the same lock.
func TestALockMayBeAHash(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, way string) {
		do := func(words ...any) {
			t.Helper()
			if err := c.Do(t.Context(), words...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		const take, one = "redis.call('hincrby', KEYS[1], ARGV[1], 1) return redis.call('pexpire', KEYS[1], ARGV[2])", "5b1f:41"
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		do("HSET", "job:data", "a", 1)
		w.step(false)
		do("EVAL", take, 1, "job:a", one, 60_000)
		w.until("a grant", isKey("job:a", one))
		if now, epoch, held, err := w.Now(t.Context(), "job", "job:a"); now.Value != one || epoch != lockcore.Fingerprint(one) || !held || err != nil {
			t.Errorf("now %+v, %s, %v, %v", now, epoch, held, err)
		}
		do("EVAL", take, 1, "job:a", one, 90_000)
		w.until("a renewal", func(e history.Event) bool {
			return isKey("job:a", one)(e) && e.Look.Prev != nil && e.Look.PTTL > int64(80*time.Second)
		})
		do("EVAL", "redis.call('del', KEYS[1]) "+take, 1, "job:a", "77aa:9", 60_000)
		w.until("another holder", isKey("job:a", "77aa:9"))
		do("DEL", "job:a")
		w.until("a release", isGone("job:a"))
		for i := range 20 {
			do("HSET", "job:big", i, 1)
		}
		do("RPUSH", "job:list", "x")
		do("EXPIRE", "job:list", 60)
		set(t, c, "job:last", "x", time.Minute)
		w.until("a later key", isKey("job:last", "x"))
		for _, e := range w.events {
			if e.Key == "job:list" || e.Key == "job:big" || e.Key == "job:data" {
				t.Errorf("it is no lock: %+v", e)
			}
		}
		if w.way() != way {
			t.Errorf("by %s, want %s", w.way(), way)
		}
	})
}
