package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

func newLockKeys(t *testing.T, c *redis.Client) *LockKeys {
	p := NewLockKeys(&redis.Options{Addr: c.Options().Addr}, "run:")
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func set(t *testing.T, c *redis.Client, key, token string, ttl time.Duration) {
	t.Helper()
	testkit.Must(t, c.Set(t.Context(), key, token, ttl).Err())
}

func TestLockKeysReportsChangesOnly(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p := newLockKeys(t, c)
		p.Watch("job", "a")
		p.Watch("job", "b")
		p.Watch("other", "a") // it stays with the lock that it was watched for
		ctx, one, two := t.Context(), lockcore.Fingerprint("one"), lockcore.Fingerprint("two")
		now, was := int64(0), int64(0)
		expect := func(what, epoch string, pttl time.Duration, prev int64) {
			t.Helper()
			now++ // brackets that touch: no time need have passed, so none may be taken for granted
			events := look(t, p, at(now), false)
			if what == "" {
				if len(events) != 0 {
					t.Fatalf("at %d: got %+v, want no news", now, events)
				}
				return
			}
			if len(events) != 1 {
				t.Fatalf("%s: got %d events, want 1", what, len(events))
			}
			e := events[0]
			left := e.Look.PTTL - int64(pttl)
			if e.Key != "a" || e.Lock != "job" || e.Epoch != epoch || e.Span != at(now) || e.Look.Present != (epoch != "") ||
				left > 0 || left < -2000*ms || e.Look.Prev == nil || *e.Look.Prev != at(prev) || e.Look.Final {
				t.Errorf("%s: got %+v %+v, want epoch %q, PTTL about %s, prev %v", what, e, e.Look, epoch, pttl, at(prev))
			}
			if less := was - e.Look.PrevPTTL; less < 0 || less > 2000*ms || (e.Look.PrevPTTL > 0) != (was > 0) {
				t.Errorf("%s: the news before showed %d ns to be left, the look before this one %d", what, was, e.Look.PrevPTTL)
			}
			was = max(0, e.Look.PTTL)
			if d := time.Since(time.UnixMicro(e.Look.Server)); d.Abs() > time.Minute {
				t.Errorf("%s: the server's clock is %s off", what, d)
			}
		}
		expect("", "", 0, 0)
		set(t, c, "run:a", "one", 10*time.Second)
		set(t, c, "run:unwatched", "x", 10*time.Second)
		expect("appeared", one, 10*time.Second, 1)
		expect("", "", 0, 0)
		c.PExpire(ctx, "run:a", 20*time.Second)
		expect("extended", one, 20*time.Second, 3)
		set(t, c, "run:a", "two", 5*time.Second)
		expect("other token", two, 5*time.Second, 4)
		c.Persist(ctx, "run:a")
		expect("expiry taken off", two, -1, 5)
		expect("", "", 0, 0)
		c.Del(ctx, "run:a")
		expect("vanished", "", -2, 7)

		set(t, c, "run:b", "one", 10*time.Second)
		final := look(t, p, at(9), true)
		if len(final) != 2 || final[0].Key != "a" || final[1].Key != "b" {
			t.Fatalf("final look: got %+v, want a and b", final)
		}
		for _, e := range final {
			if !e.Look.Final || (e.Look.Prev != nil) != (e.Key == "b") {
				t.Errorf("final look of %s: %+v, want final, and prev for news only", e.Key, e.Look)
			}
		}
	})
}

// Keys of jobs that are over are read in turn: one that is taken although nobody was offered it is found, in a bracket that begins at the
// look at it before; one that somebody asks for is in the next look.
func TestKeysOfJobsThatAreOver(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p := newLockKeys(t, c)
		const n = 2*inTurn + 5
		for i := range n {
			p.Expect("job", fmt.Sprintf("k%05d", i))
		}
		p.Watch("leader", "l")
		now := int64(0)
		next := func() []history.Event {
			now++
			return look(t, p, at(now), false)
		}
		for range settle {
			if events := next(); len(events) > 0 {
				t.Fatalf("got %+v of keys that are not there", events)
			}
		}
		if all, near := p.toRead(false); near != 1 || len(all) != 1+inTurn || all[0].Key != "l" {
			t.Fatalf("a look reads %d keys, %d of them in any case, want the loop's alone and %d", len(all), near, inTurn)
		}
		set(t, c, "run:k00200", "one", time.Minute) // nobody was offered it
		for tries := 1; ; tries++ {
			events := next()
			if len(events) == 0 && tries <= n/inTurn+1 {
				continue
			}
			if len(events) != 1 || events[0].Key != "k00200" || !events[0].Look.Present || events[0].Look.Prev.From < settle*ms {
				t.Fatalf("after %d looks: got %+v, want k00200, present, and when it was looked at before", tries, events)
			}
			break
		}
		c.Del(t.Context(), "run:k00200")
		if events := next(); len(events) != 1 || events[0].Look.Present || *events[0].Look.Prev != at(now-1) {
			t.Fatalf("got %+v, want that it is gone, by the look that follows", events)
		}
		set(t, c, "run:k00201", "two", time.Minute)
		p.Asked("k00201")
		p.Asked("strange")
		if events := next(); len(events) != 1 || events[0].Key != "k00201" {
			t.Fatalf("got %+v, want k00201, which was asked for", events)
		}
		if events := look(t, p, at(now+1), true); len(events) != n+1 {
			t.Errorf("the final look has %d keys, want all %d", len(events), n+1)
		}
	})
}

func TestLockKeysManyKeysInOneLook(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p := newLockKeys(t, c)
		const n = chunk + 7 // two scripts; the embedded store is slow at them
		pipe := c.Pipeline()
		for i := range n {
			p.Watch("job", fmt.Sprintf("k%05d", i))
			pipe.Set(t.Context(), fmt.Sprintf("run:k%05d", i), fmt.Sprint("token", i), time.Hour)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		events := look(t, p, at(1), false)
		if len(events) != n {
			t.Fatalf("got %d events, want %d", len(events), n)
		}
		for i, e := range events {
			if e.Key != fmt.Sprintf("k%05d", i) || e.Epoch != lockcore.Fingerprint(fmt.Sprint("token", i)) {
				t.Fatalf("event %d is %+v: a key got another one's token", i, e)
			}
		}
	})
}

func TestHolder(t *testing.T) {
	onStores(t, func(t *testing.T, c *redis.Client) {
		p := newLockKeys(t, c)
		if _, _, held, err := p.Now(t.Context(), "job", "a"); held || err != nil {
			t.Errorf("Now of a free key = %v, %v", held, err)
		}
		set(t, c, "run:a", "one", 10*time.Second)
		now, epoch, held, err := p.Now(t.Context(), "job", "a")
		if now.Value != "one" || epoch != lockcore.Fingerprint("one") || !held || err != nil {
			t.Errorf("Now = %q, %v, %v", epoch, held, err)
		}
	})
}

// A server that refuses writes must not blind the witness.
func TestLockKeysLooksWhileWritesArePaused(t *testing.T) {
	c := startRedis(t)
	p := newLockKeys(t, c)
	p.Watch("job", "a")
	look(t, p, at(1), false)
	testkit.Must(t, c.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := p.Look(ctx, false); err != nil {
		t.Errorf("Look while writes are paused: %v", err)
	}
}

func TestLockKeysOfADeadStoreIsAnError(t *testing.T) {
	p := NewLockKeys(&redis.Options{Addr: "127.0.0.1:1"}, "run:")
	defer p.Close()
	p.Watch("job", "a")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := p.Look(ctx, true); err == nil {
		t.Error("Look succeeded without a store")
	}
}

// Whoever may not look does not see that nobody holds: neither by a look, nor when a plan asks who holds now.
func TestAKeyThatMayNotBeReadIsNotCalledFree(t *testing.T) {
	c := startRedis(t)
	set(t, c, "run:a", "token", time.Minute)
	for user, rules := range map[string][]any{
		"commands": {"~*", "-@all", "+ping", "+hello", "+client"},
		"scripts":  {"~*", "+@all", "-@scripting", "-scan"},
		"reads":    {"~*", "+@all", "-get", "-pttl", "-strlen", "-scan"},
		"keys":     {"~other:*", "+@all", "-scan"},
	} {
		testkit.Must(t, c.Do(t.Context(), append([]any{"ACL", "SETUSER", user, "on", ">pw"}, rules...)...).Err())
		o := &redis.Options{Addr: c.Options().Addr, Username: user, Password: "pw"}
		p := NewLockKeys(o, "run:")
		p.Watch("job", "a")
		_, byLook := p.Look(t.Context(), false)
		_, _, _, byNow := p.Now(t.Context(), "job", "run:a")
		_, byAny := p.Any(t.Context(), "run:")
		weak := redis.NewClient(o)
		_, _, byPeek := Peek(t.Context(), weak, "run:a")
		for what, err := range map[string]error{"look": byLook, "now": byNow, "any": byAny, "peek": byPeek} {
			if err == nil || !slices.ContainsFunc([]string{"NOPERM", "can't run this command", "can't access at least one of the keys", "has no permissions"}, // as servers of several versions say
				func(said string) bool { return strings.Contains(err.Error(), said) }) {
				t.Errorf("without leave for %s: %s: %v", user, what, err)
			}
		}
		_, _ = p.Close(), weak.Close()
	}
}

// A lease is extended when more is left than can be explained by the time between two looks, at their widest, and was renewed for less where
// far less is left.
func TestNewsOfALease(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after int64 // PTTL in ms
		from, to      history.Span
		want          bool
	}{
		{"the same, later", 1000, 990, at(0), at(10), false},
		{"less than passed surely", 1000, 992, at(0), at(10), false}, // 9 ms passed surely, 1 ms is rounding
		{"more than can be", 1000, 993, at(0), at(10), true},
		{"back to full", 600, 1000, at(0), at(400), true},
		{"a wide look hides a small one", 1000, 1000, history.Span{To: 500 * ms}, history.Span{From: 500 * ms, To: 900 * ms}, false},
		{"shortened", 1000, 100, at(0), at(10), true},
		{"less than clocks that run apart", 1000, 950, at(0), at(10), false},
		{"a wide look may have seen that pass", 1000, 100, history.Span{To: 500 * ms}, history.Span{From: 500 * ms, To: 900 * ms}, false},
		{"expiry put on", -1, 1000, at(0), at(10), true},
		{"expiry taken off", 1000, -1, at(0), at(10), true},
		{"still without", -1, -1, at(0), at(10), false},
	} {
		pttl := func(n int64) int64 {
			if n < 0 {
				return n
			}
			return n * ms
		}
		w := witness.Track{Seen: true, At: tt.from, Last: witness.State{Epoch: "t", Left: pttl(tt.before)}}
		if got := w.News(witness.State{Epoch: "t", Left: pttl(tt.after)}, tt.to); got != tt.want {
			t.Errorf("%s: news = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Keys of an observed system name their holders. Their values are shown only where the file says that they are names.
func TestLockKeysNameHolders(t *testing.T) {
	c := startRedis(t)
	p := NewLockKeys(&redis.Options{Addr: c.Options().Addr}, "")
	t.Cleanup(func() { _ = p.Close() })
	known := map[string]string{"web-1": "r1.1"}
	pod := func(named string) string { return known[strings.TrimRight(strings.SplitAfter(named, "_")[0], "_")] }
	names := witness.Names{Holder: func(u witness.Unclaimed) witness.Named { return witness.Named{Holder: pod(u.Value), By: "value"} }}
	p.Name(names)
	p.Watch("leader", "shop:leader")
	step := func(millis int64, named, holder string) {
		t.Helper()
		events := look(t, p, at(millis), false)
		if len(events) != 1 || events[0].Look.Named != named || events[0].Look.Holder != holder {
			t.Fatalf("at %d: %+v, want %q %q", millis, events, named, holder)
		}
	}
	set(t, c, "shop:leader", "web-2_secret", time.Minute)
	step(1, "", "")
	known["web-2"] = "r2.1" // it is seen later than its key
	step(2, "", "r2.1")
	known["web-2"] = "r2.2" // and its successor of the same name holds nothing yet
	if events := look(t, p, at(3), true); events[0].Look.Holder != "r2.1" {
		t.Errorf("final: %+v", events[0].Look)
	}
	p.Name(witness.Names{Holder: names.Holder, Shown: true})
	set(t, c, "shop:leader", "web-1_token", time.Minute)
	step(4, "web-1_token", "r1.1")
	c.Del(t.Context(), "shop:leader")
	step(5, "", "")
}
