package injectors

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// heldLock is a lock that is really held, and the fault that takes its key away.
func heldLock(t *testing.T, form string) (*redis.Client, *stepping, history.Event) {
	t.Helper()
	addr := redistest.Start(t)
	c := redisstore.NewClient(addr)
	t.Cleanup(func() { _ = c.Close() })
	if _, err := redisstore.NewStore(c, "p:").Acquire(t.Context(), "job", "tok", time.Minute); err != nil {
		t.Fatal(err)
	}
	d := steps(&fault.DeleteKey{To: strings.TrimPrefix(form, "vanish")}, &Reach{Open: RedisFromOutside(dial), Store: idle{undo.Store{Addr: addr}}, Keys: "p:", Clock: monotime.Now})
	return c, d, history.Event{Key: "job", Epoch: lockcore.Fingerprint("tok"),
		Fault: &history.Fault{ID: "d", Shot: 1, Kind: "delete_key", Form: form, Declared: int64(time.Minute)}}
}

func TestTheKeyOfAHeldLockVanishes(t *testing.T) {
	c, d, shot := heldLock(t, "vanish")
	r, err := d.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	applied, err := d.Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, seen, err := d.Confirm(t.Context(), r, applied); err != nil || seen.Hits != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	if n, _ := c.Exists(t.Context(), "p:job").Result(); n != 0 {
		t.Error("the key is still there")
	}
	fence, err := c.Get(t.Context(), "{p:job}:fence").Int64()
	if err != nil {
		t.Fatalf("the fence is gone: %v", err)
	}
	g, err := redisstore.NewStore(c, "p:").Acquire(t.Context(), "job", "next", time.Minute)
	if err != nil || g.Fence <= fence {
		t.Errorf("the next holder's fence is %d after %d, %v", g.Fence, fence, err)
	}
	if _, err := d.Revert(t.Context(), r); err != nil {
		t.Error(err)
	}
	if v, _ := c.Get(t.Context(), "p:job").Result(); v != "next" {
		t.Errorf("the next holder's key carries %q after the end of the fault", v)
	}
}

func TestAStrangerHasTheKeyUntilTheEnd(t *testing.T) {
	c, d, shot := heldLock(t, FormStranger)
	r, err := d.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	applied, err := d.Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, seen, err := d.Confirm(t.Context(), r, applied); err != nil || seen.Hits != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	if v, _ := c.Get(t.Context(), "p:job").Result(); v == "tok" || v != r.Key.Token {
		t.Errorf("the key carries %q", v)
	}
	if ttl, _ := c.PTTL(t.Context(), "p:job").Result(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("it stays for %s: a dead runner must leave no stranger for ever", ttl)
	}
	for range 2 {
		if err := elsewhere(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if n, _ := c.Exists(t.Context(), "p:job").Result(); n != 0 {
		t.Error("the stranger still has the key")
	}
	if err := c.Set(t.Context(), "p:job", "next", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := elsewhere(t.Context(), r); err != nil {
		t.Error(err)
	}
	if v, _ := c.Get(t.Context(), "p:job").Result(); v != "next" {
		t.Error("another holder's key was removed")
	}
}

func TestAKeyThatChangedHandsIsLeftAlone(t *testing.T) {
	for _, value := range []string{"", "another"} {
		c, d, shot := heldLock(t, "vanish")
		r, err := d.Prepare(t.Context(), shot)
		if err != nil {
			t.Fatal(err)
		}
		r.Shot = shot
		c.Del(t.Context(), "p:job")
		if value != "" {
			c.Set(t.Context(), "p:job", value, 0)
		}
		if _, err := d.Inject(t.Context(), r); voidOf(err) != "moved" {
			t.Errorf("key %q: inject: %v, want moved", value, err)
		}
		if _, err := d.Prepare(t.Context(), shot); voidOf(err) != "moved" {
			t.Errorf("key %q: prepare: %v, want moved", value, err)
		}
		if v, _ := c.Get(t.Context(), "p:job").Result(); v != value {
			t.Errorf("key carries %q, want %q", v, value)
		}
	}
}

// A write into another database, say, does nothing to the lock: the look from outside shows it.
func TestAKeyThatIsStillTheHoldersIsVoid(t *testing.T) {
	for _, form := range []string{"vanish", FormStranger} {
		_, d, shot := heldLock(t, form)
		r, err := d.Prepare(t.Context(), shot)
		if err != nil {
			t.Fatal(err)
		}
		r.Shot = shot
		if _, _, err := d.Confirm(t.Context(), r, history.At(monotime.Now())); voidOf(err) != "unconfirmed" {
			t.Errorf("%s: %v, want a void shot", form, err)
		}
	}
}

// elsewhereKept is a store that is no Redis.
type elsewhereKept struct{ Outside }

func (elsewhereKept) Close() error { return nil }

// named is a store that names who holds its locks.
type named struct{ idle }

func (named) Holder(context.Context, string) (name, epoch, token string, err error) {
	return "k", "e", "", nil
}
func (named) End(context.Context, string, string) (bool, error)   { return false, nil }
func (named) Lives(context.Context, string, string) (bool, error) { return false, nil }

// A key of another store than a Redis is taken by its holder's name, where the store knows that; else nothing is done to it.
func TestTheKeyOfAnotherStore(t *testing.T) {
	for _, to := range []string{"", FormStranger} {
		f, shot := &fault.DeleteKey{To: to}, history.Event{Op: "d#1", Key: "job", Epoch: "e", Fault: &history.Fault{ID: "d", Shot: 1, Kind: "delete_key"}}
		reach := &Reach{Store: idle{}, Open: func(undo.Store) (Outside, error) { return elsewhereKept{}, nil }, Clock: monotime.Now}
		if _, err := reach.Prepare(t.Context(), f, shot); err == nil || !strings.Contains(err.Error(), "a Redis only") {
			t.Errorf("to %q: %v", to, err)
		}
		reach.Store = named{}
		h, err := reach.Prepare(t.Context(), f, shot)
		if err != nil || h.Record().Key.Name != "k" {
			t.Errorf("to %q, of a store that names holders: %+v, %v", to, h.Record().Key, err)
		}
	}
}
