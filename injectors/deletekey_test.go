package injectors

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/stores"
)

// What is left of a lock whose key was taken: its fence, and a stranger that goes by itself. The next holder is never touched, whoever
// undoes it.
func TestTheNextHolderOfAKeyThatWasTaken(t *testing.T) {
	for _, to := range []string{"", FormStranger} {
		w := newWorld(t)
		c := w.lock()
		w.lasts = time.Minute
		s, _, err := w.strike(&fault.DeleteKey{To: to})
		if err != nil {
			t.Fatal(err)
		}
		switch v, ttl := c.Get(t.Context(), "p:job").Val(), c.PTTL(t.Context(), "p:job").Val(); {
		case v != s.Rec.Key.Token || (v != "") != (to != ""):
			t.Errorf("to %q: the key carries %q", to, v)
		case to != "" && (ttl <= 0 || ttl > time.Minute):
			t.Errorf("it stays for %s: a dead runner must leave no stranger for ever", ttl)
		}
		fence, err := c.Get(t.Context(), "{p:job}:fence").Int64()
		if err != nil {
			t.Fatalf("to %q: the fence is gone: %v", to, err)
		}
		if err := c.Del(t.Context(), "p:job").Err(); err != nil {
			t.Fatal(err)
		}
		if g, err := redisstore.NewStore(c, "p:").Acquire(t.Context(), "job", "next", time.Minute); err != nil || g.Fence <= fence {
			t.Errorf("to %q: the next holder's fence is %d after %d, %v", to, g.Fence, fence, err)
		}
		if _, err := s.Revert(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.elsewhere(); err != nil {
			t.Error(err)
		}
		if v := c.Get(t.Context(), "p:job").Val(); v != "next" {
			t.Errorf("to %q: the next holder's key carries %q after the end of the fault", to, v)
		}
	}
}

// A lock that is a hash, as Redisson's, is taken like a text, and a stranger's is a hash too: its clients must not stumble over another type.
func TestTheKeyOfALockThatIsAHash(t *testing.T) {
	for _, to := range []string{"", FormStranger} {
		w := newWorld(t)
		c := w.lock()
		c.Del(t.Context(), "p:job")
		c.HSet(t.Context(), "p:job", "tok", 1)
		c.PExpire(t.Context(), "p:job", time.Minute)
		w.lasts = time.Minute
		s, _, err := w.strike(&fault.DeleteKey{To: to})
		if err != nil {
			t.Fatalf("to %q: %v", to, err)
		}
		fields := c.HKeys(t.Context(), "p:job").Val()
		if free := c.Exists(t.Context(), "p:job").Val() == 0; free != (to == "") || !free && (len(fields) != 1 || fields[0] != s.Rec.Key.Token || c.PTTL(t.Context(), "p:job").Val() <= 0) {
			t.Errorf("to %q: the key has the fields %q", to, fields)
		}
		if _, err := s.Revert(t.Context()); err != nil || c.Exists(t.Context(), "p:job").Val() != 0 {
			t.Errorf("to %q: the stranger is still there (%v)", to, err)
		}
	}
}

func TestAKeyThatChangedHandsIsLeftAlone(t *testing.T) {
	for _, value := range []string{"", "another"} {
		w := newWorld(t)
		c := w.lock()
		s := w.prepare(&fault.DeleteKey{})
		c.Del(t.Context(), "p:job")
		if value != "" {
			c.Set(t.Context(), "p:job", value, 0)
		}
		if _, err := s.Inject(t.Context()); voidOf(err) != "moved" {
			t.Errorf("key %q: inject: %v, want moved", value, err)
		}
		if _, err := w.prepared(s.Spec); voidOf(err) != "moved" {
			t.Errorf("key %q: prepare: %v, want moved", value, err)
		}
		if v := c.Get(t.Context(), "p:job").Val(); v != value {
			t.Errorf("key carries %q, want %q", v, value)
		}
	}
}

// A write into another database, say, does nothing to the lock: the look from outside shows it.
func TestAKeyThatIsStillTheHoldersIsVoid(t *testing.T) {
	for _, to := range []string{"", FormStranger} {
		w := newWorld(t)
		w.lock()
		if _, _, err := w.prepare(&fault.DeleteKey{To: to}).confirm(history.At(monotime.Now())); voidOf(err) != "unconfirmed" {
			t.Errorf("to %q: %v, want a void shot", to, err)
		}
	}
}

// elsewhereKept is a store that is no Redis.
type elsewhereKept struct{ stores.Outside }

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
		reach := &Reach{Store: idle{}, Open: func(undo.Store) (stores.Outside, error) { return elsewhereKept{}, nil }, Clock: monotime.Now}
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
