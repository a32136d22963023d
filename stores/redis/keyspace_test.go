package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// watching is a Keyspace under test: a look at a time, and what all looks so far have told.
type watching struct {
	*Keyspace
	t      *testing.T
	events []history.Event
}

func newKeyspace(t *testing.T, o KeyspaceOptions) *watching {
	origin := time.Now()
	o.Canary, o.Clock = "lockdrill:test:canary", func() int64 { return int64(time.Since(origin)) }
	if o.MaxGap == 0 {
		o.MaxGap = time.Minute
	}
	if o.Under == nil {
		o.Under = map[string]string{"job:*": "job"}
	}
	w := &watching{Keyspace: NewKeyspace(o), t: t}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// probing is a connection as a probe has it.
func probing(addr string) *redis.Client {
	return endpoint.Client(&redis.Options{Addr: addr}, 2*time.Second)
}

// step makes a look, and gives what it told.
func (w *watching) step(final bool) []history.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	report, err := w.Look(ctx, final)
	for testkit.Timeout(err) && ctx.Err() == nil {
		report, err = w.Look(ctx, final)
	}
	if err != nil {
		w.t.Fatalf("look: %v", err)
	}
	events := report(history.Span{})
	for _, e := range events {
		e.N = 1
		if err := e.Check(); err != nil {
			w.t.Errorf("event %+v: %v", e, err)
		}
	}
	w.events = append(w.events, events...)
	return events
}

// until looks until an event fits.
func (w *watching) until(what string, fits func(history.Event) bool) history.Event {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		report, err := w.Look(ctx, false)
		cancel()
		if err != nil {
			continue
		}
		events := report(history.Span{})
		w.events = append(w.events, events...)
		for _, e := range events {
			if fits(e) {
				return e
			}
		}
	}
	w.t.Fatalf("%s was not told of; events: %+v", what, w.events)
	return history.Event{}
}

func (w *watching) way() string { return w.Observer(w.t.Context()).Way }

func isKey(key, token string) func(history.Event) bool {
	return func(e history.Event) bool {
		return e.Look != nil && e.Key == key && e.Epoch == lockcore.Fingerprint(token)
	}
}

func isGone(key string) func(history.Event) bool {
	return func(e history.Event) bool { return e.Look != nil && e.Key == key && !e.Look.Present }
}

func isGap(e history.Event) bool { return e.Kind == history.GapKind }

// both runs f where the server tells of changes, and where it does not.
func both(t *testing.T, f func(t *testing.T, c *redis.Client, way string)) {
	for way, flags := range map[string]string{history.ByEvents: "Kg$", history.ByPolling: ""} {
		t.Run(way, func(t *testing.T) {
			f(t, redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", flags)), way)
		})
	}
}

// Events by the names of commands alone, and those of some classes alone, do not tell of all changes: the keys are read in turn, and the
// report says what the server would have to tell.
func TestEventsThatDoNotTellAllAreNotBelieved(t *testing.T) {
	for flags, want := range map[string]string{"EA": history.ByPolling, "Kg": history.ByPolling, "Kx$": history.ByPolling, "KEg$": history.ByEvents} {
		t.Run(flags, func(t *testing.T) {
			c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", flags))
			w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
			w.step(false)
			set(t, c, "job:a", "one", 200*time.Millisecond)
			w.until("a grant", isKey("job:a", "one"))
			w.until("its end", isGone("job:a"))
			if o := w.Observer(t.Context()); o.Way != want || (want == history.ByPolling) != strings.Contains(o.Why, "notify-keyspace-events needs K, g and $") {
				t.Errorf("by %s (%s), want %s", o.Way, o.Why, want)
			}
		})
	}
}

func TestKeysAreFoundUnderTheirPrefix(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, way string) {
		ctx := t.Context()
		set(t, c, "job:early", "zero", time.Minute)
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr), Exact: map[string]string{"leader": "leader"}})
		if events := w.step(false); len(events) != 1 || events[0].Key != "job:early" || events[0].Look.Prev != nil {
			t.Fatalf("first look: %+v, want the key that was there, without a look before", events)
		}
		if w.way() != way {
			t.Fatalf("keys are looked at by %s, want %s", w.way(), way)
		}
		set(t, c, "job:a", "one", time.Minute)
		set(t, c, "other:a", "x", time.Minute)
		e := w.until("a new key", isKey("job:a", "one"))
		if e.Lock != "job" || e.Look.Prev == nil || e.Look.PTTL < int64(50*time.Second) {
			t.Errorf("got %+v %+v, want a key of lock job that was not there before", e, e.Look)
		}
		set(t, c, "job:a", "two", 300*time.Millisecond)
		if e := w.until("a theft", isKey("job:a", "two")); e.Look.PrevPTTL < int64(50*time.Second) {
			t.Errorf("got %+v, want what was left to the owner before", e.Look)
		}
		expired := w.until("an expiry", isGone("job:a"))
		if left := expired.Look.PrevPTTL; left <= 0 || left > int64(300*time.Millisecond) {
			t.Errorf("expiry: %+v, want what was left when it was last seen", expired.Look)
		}
		c.Del(ctx, "job:early")
		w.until("a release", isGone("job:early"))
		set(t, c, "leader", "me", time.Minute)
		if e := w.until("a key by its name", isKey("leader", "me")); e.Lock != "leader" {
			t.Errorf("got lock %s, want leader", e.Lock)
		}
		if now, epoch, held, err := w.Now(ctx, "leader", "leader"); now.Value != "me" || epoch != lockcore.Fingerprint("me") || !held || err != nil {
			t.Errorf("Now = %q, %v, %v", epoch, held, err)
		}
		final := w.step(true)
		seen := map[string]bool{}
		for _, e := range final {
			seen[e.Key] = e.Look.Final
		}
		if len(seen) != 3 || !seen["job:a"] || !seen["job:early"] || !seen["leader"] {
			t.Errorf("final look: %v, want each key that was ever seen", seen)
		}
		for _, e := range w.events {
			if strings.HasPrefix(e.Key, "other:") || e.Kind == history.GapKind {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// Truth against measured: whatever happens between looks, the bracket of each change that is told of contains one that was made, and at the end each key is
// known as it is.
func TestKeyspaceBracketsContainTheTruth(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		w.step(false)
		clock, tokens := w.o.Clock, map[string]string{}
		type made struct {
			at    history.Span
			epoch string
		}
		truth := map[string][]made{}
		for i := range 1500 {
			key, token := fmt.Sprintf("job:%d", rng.IntN(20)), fmt.Sprint("t", i)
			at := history.At(clock())
			switch rng.IntN(3) {
			case 0:
				c.Del(t.Context(), key)
				token = ""
			case 1:
				set(t, c, key, token, time.Hour)
			default:
				set(t, c, key, token, time.Duration(1+rng.IntN(30))*time.Millisecond)
			}
			at.To = clock()
			truth[key] = append(truth[key], made{at, lockcore.Fingerprint(token)})
			tokens[key] = token
			if rng.IntN(3) == 0 {
				w.step(false)
			}
		}
		w.step(true)
		for _, e := range w.events {
			if e.Look == nil {
				t.Fatalf("got %+v", e)
			}
			if !e.Look.Present || e.Look.Final {
				continue
			}
			found := false
			for _, m := range truth[e.Key] {
				found = found || m.epoch == e.Epoch && m.at.From <= e.To && (e.Look.Prev == nil || e.Look.Prev.From <= m.at.To)
			}
			if !found {
				t.Errorf("%s at %v after %v: no such change was made: %+v", e.Epoch, e.Span, e.Look.Prev, truth[e.Key])
			}
		}
	})
}

func TestAServerThatRefusesSubscriptionsIsPolled(t *testing.T) {
	for name, rules := range map[string][]any{
		"subscribe": {"+@all", "-psubscribe", "-config"},
		"channels":  {"+@all", "resetchannels", "-config"},
		"canary":    {"+@all", "-set", "-config"},
		"info too":  {"+@all", "-psubscribe", "-info", "-config"},
	} {
		t.Run(name, func(t *testing.T) {
			c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
			rule := append([]any{"ACL", "SETUSER", "looker", "on", ">secret", "~*", "&*"}, rules...)
			testkit.Must(t, c.Do(t.Context(), rule...).Err())
			o := &redis.Options{Addr: c.Options().Addr, Username: "looker", Password: "secret"}
			w := newKeyspace(t, KeyspaceOptions{Client: endpoint.Client(o, looksWithin)})
			w.step(false)
			if o := w.Observer(t.Context()); o.Way != history.ByPolling || o.Why == "" || strings.Contains(o.Why, "secret") {
				t.Fatalf("looks by %s (%s), want polling, and why", o.Way, o.Why)
			}
			set(t, c, "job:a", "one", 200*time.Millisecond)
			w.until("a new key", isKey("job:a", "one"))
			w.until("its expiry", isGone("job:a"))
		})
	}
}

// A server that stops telling of changes is found out by its canary, and what may have escaped is a gap.
func TestEventsThatAreSwitchedOffAreAGap(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
	w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
	w.step(false)
	off := w.o.Clock()
	c.ConfigSet(t.Context(), "notify-keyspace-events", "")
	w.until("a gap", func(e history.Event) bool {
		return isGap(e) && e.From <= off && e.To >= off && e.Coverage.Probe == "lock_keys"
	})
	if w.way() != history.ByPolling {
		t.Error("a server that does not tell of changes is believed")
	}
	set(t, c, "job:a", "one", time.Minute)
	w.until("what was not told", isKey("job:a", "one"))
}

// A connection that was cut has lost what was told meanwhile: the next look begins anew, and finds it.
func TestALostSubscriptionIsMadeUpFor(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
	w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
	set(t, c, "job:gone", "zero", time.Minute)
	w.step(false)
	testkit.Must(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	set(t, c, "job:a", "one", time.Minute)
	c.Del(t.Context(), "job:gone")
	if _, err := w.Look(t.Context(), false); err == nil {
		t.Error("a look without its subscription succeeded")
	}
	for _, what := range []func(history.Event) bool{isKey("job:a", "one"), isGone("job:gone")} {
		if !anyOf(w.events, what) {
			w.until("what happened meanwhile", what)
		}
	}
	if w.way() != history.ByEvents {
		t.Error("the subscription was not made anew")
	}
}

func anyOf(events []history.Event, fits func(history.Event) bool) bool {
	for _, e := range events {
		if fits(e) {
			return true
		}
	}
	return false
}

// A server that takes no writes for a while, and so no canaries, is looked at all the same.
func TestKeyspaceLooksWhileWritesArePaused(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
	w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
	w.step(false)
	testkit.Must(t, c.Do(t.Context(), "CLIENT", "PAUSE", 1500, "WRITE").Err())
	for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := w.Look(ctx, false); err != nil {
			t.Fatalf("look while writes are paused: %v", err)
		}
		cancel()
	}
}

// A database that is emptied tells of none of its keys: the sweep misses them, and that is a gap.
func TestTheSweepFindsWhatNoEventToldOf(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t, "--notify-keyspace-events", "KA"))
	w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
	set(t, c, "job:a", "one", time.Minute)
	w.step(false)
	c.FlushDB(t.Context())
	e := w.until("the loss", isGone("job:a"))
	if gap := w.until("a gap", isGap); gap.From > e.From || gap.To < e.To {
		t.Errorf("gap %v, want that it contains the loss %v", gap.Span, e.Span)
	}
}

// What is no string below a prefix is no lock, and blinds nobody.
func TestKeysThatAreNoLocksAreLeftOut(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		c.HSet(t.Context(), "job:index", "a", "1")
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		w.step(false)
		c.RPush(t.Context(), "job:queue", "a")
		set(t, c, "job:a", "one", time.Minute)
		w.until("a lock", isKey("job:a", "one"))
		for _, e := range w.events {
			if e.Key != "job:a" {
				t.Errorf("got %+v %+v", e, e.Look)
			}
		}
	})
}

func TestManyExpiriesAreAllSeen(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		const n = 3000
		pipe := c.Pipeline()
		key := func(i int) string { return fmt.Sprintf("job:%05d", i) }
		for i := range n {
			pipe.Set(t.Context(), key(i), fmt.Sprint("t", i), time.Hour)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		there, gone := 0, 0
		see := func(enough func() bool) {
			for end := time.Now().Add(time.Minute); !enough() && time.Now().Before(end); {
				for _, e := range w.step(false) {
					switch {
					case e.Look == nil:
						t.Fatalf("got %+v", e)
					case e.Look.Present && e.Look.Prev == nil:
						there++
					case !e.Look.Present && e.Look.Prev != nil:
						gone++
					}
				}
			}
		}
		see(func() bool { return there >= n })
		for i := range n / 2 {
			pipe.PExpire(t.Context(), key(2*i), time.Duration(1+rand.IntN(1000))*time.Millisecond)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		see(func() bool { return gone >= n/2 })
		if gone != n/2 {
			t.Errorf("%d of %d expiries were seen", gone, n/2)
		}
	})
}

// Who holds a key may be known later than the key: it is said then, though the key has not changed.
func TestHoldersThatAreKnownLater(t *testing.T) {
	both(t, func(t *testing.T, c *redis.Client, _ string) {
		w := newKeyspace(t, KeyspaceOptions{Client: probing(c.Options().Addr)})
		known := ""
		w.Name(witness.Names{Holder: func(u witness.Unclaimed) witness.Named { return witness.Named{Holder: known} }})
		set(t, c, "job:a", "one", time.Minute)
		if e := w.until("a key", isKey("job:a", "one")); e.Look.Holder != "" {
			t.Errorf("got %+v", e.Look)
		}
		known = "r1.1"
		w.until("its holder", func(e history.Event) bool { return e.Look.Holder == "r1.1" && e.Key == "job:a" })
	})
}

func TestADeadServerIsAnError(t *testing.T) {
	w := newKeyspace(t, KeyspaceOptions{Client: probing("127.0.0.1:1")})
	if _, err := w.Look(t.Context(), true); err == nil || errors.Is(err, ErrNotYet) {
		t.Errorf("look without a server: %v", err)
	}
}
