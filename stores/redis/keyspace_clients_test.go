package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
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
		testkit.Must(t, theirs.Eval(t.Context(), renew, []string{"job:a"}, "one", 90_000).Err())
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
			testkit.Must(t, c.Do(t.Context(), words...).Err())
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

// What a pattern ends with tells locks from their neighbours. A hash without expiry is a lock where that, or the whole name, is said, and below
// a prefix alone it is some record.
func TestKeysArePartedByTheirEnds(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr), Exact: map[string]string{"leader": "leader"},
			Under: map[string]string{"q:{x}:*:lock": "job", "q:*": "other"}})
		set(t, c, "q:{x}:early:lock", "zero", time.Minute)
		set(t, c, "q:{x}:early:stalled", "zero", time.Minute)
		w.step(false)
		set(t, c, "q:{x}:1:lock", "one", time.Minute)
		if e := w.until("a lock", isKey("q:{x}:1:lock", "one")); e.Lock != "job" {
			t.Errorf("it is of lock %q", e.Lock)
		}
		c.HSet(t.Context(), "q:{x}:1", "record", "x")
		c.HSet(t.Context(), "q:{x}:2:lock", "me", "x")
		e := w.until("a hash without expiry", isKey("q:{x}:2:lock", "me"))
		if e.Look.PTTL != witness.Endless || !e.Look.Hash {
			t.Errorf("%+v, want a lock without an end", e.Look)
		}
		now, _, held, err := w.Now(t.Context(), "job", "q:{x}:2:lock")
		if _, _, record, errRecord := w.Now(t.Context(), "other", "q:{x}:1"); now.Value != "me" || !held || err != nil || record || errRecord != nil {
			t.Errorf("now %+v, %v, %v; the record is held: %v, %v", now, held, err, record, errRecord)
		}
		c.HDel(t.Context(), "q:{x}:2:lock", "me")
		w.until("a release", isGone("q:{x}:2:lock"))
		c.HSet(t.Context(), "leader", "me", "x")
		w.until("a hash by its name", isKey("leader", "me"))
		c.HSet(t.Context(), "leader", "others", "y")
		w.until("another holder", isKey("leader", "me\nothers"))
		w.step(true)
		for _, e := range w.events {
			if want := map[bool]string{true: "job", false: "other"}[strings.HasSuffix(e.Key, ":lock")]; e.Key != "leader" && e.Lock != want || e.Key == "q:{x}:1" && e.Look.Present {
				t.Errorf("got %+v %+v", e, e.Look)
			}
		}
	})
}
