package probes

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

func TestAKeyAnswersWhatItIsAsked(t *testing.T) {
	redistest.OnStores(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		for _, err := range []error{
			c.Set(ctx, "text", "12345", 0).Err(), c.RPush(ctx, "list", 1, 2, 3).Err(), c.HSet(ctx, "hash", "a", 1).Err(),
			c.ZAdd(ctx, "zset", redis.Z{Member: "a"}, redis.Z{Member: "b"}).Err(), c.SAdd(ctx, "set", "a").Err(),
			c.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"a", "b"}}).Err(),
		} {
			testkit.Must(t, err)
		}
		read := func(key string, ask Question) history.Sample {
			t.Helper()
			p := NewKeyMetric("backlog", endpoint.Client(&redis.Options{Addr: c.Options().Addr}, 2*time.Second), key, ask)
			t.Cleanup(func() { _ = p.Close() })
			events := look(t, p, at(1), true)
			if len(events) != 1 || events[0].Kind != history.SampleKind {
				t.Fatalf("%s %s: %+v", ask, key, events)
			}
			return *events[0].Sample
		}
		for key, want := range map[string]float64{"text": 5, "list": 3, "hash": 1, "zset": 2, "set": 1, "stream": 1, "nothing": 0} {
			if s := read(key, Length); len(s.Values) != 1 || float64(s.Values[0].Value) != want || s.Gone != "" {
				t.Errorf("length of %s: %+v, want %v", key, s, want)
			}
		}
		for key, want := range map[string]float64{"text": 1, "nothing": 0} {
			if s := read(key, Exists); len(s.Values) != 1 || float64(s.Values[0].Value) != want {
				t.Errorf("%s exists: %+v, want %v", key, s, want)
			}
		}
		if s := read("text", Idle); len(s.Values) != 1 || s.Values[0].Value < 0 || s.Values[0].Value > 5 {
			t.Errorf("idle time of a key just written: %+v", s)
		}
		if s := read("nothing", Idle); len(s.Values) != 0 || s.Gone != "" {
			t.Errorf("idle time of no key: %+v, want no value: an absent key is not one just used", s)
		}
	})
}

func TestAStoreThatIsAwayIsNoAnswer(t *testing.T) {
	p := NewKeyMetric("backlog", endpoint.Client(&redis.Options{Addr: "127.0.0.1:1"}, 2*time.Second), "k", Length)
	t.Cleanup(func() { _ = p.Close() })
	if e := look(t, p, at(1), false); len(e) != 1 || e[0].Sample.Gone != history.GoneRefused {
		t.Errorf("%+v", e)
	}
}

// With another eviction policy a server does not keep what is asked for: that is said, and is no 0.
func TestAnIdleTimeThatIsNotKept(t *testing.T) {
	c := redistest.Dial(t, redistest.Start(t))
	for _, err := range []error{c.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lfu").Err(), c.Set(t.Context(), "k", 1, 0).Err()} {
		testkit.Must(t, err)
	}
	p := NewKeyMetric("age", endpoint.Client(&redis.Options{Addr: c.Options().Addr}, 2*time.Second), "k", Idle)
	t.Cleanup(func() { _ = p.Close() })
	if e := look(t, p, at(1), false); len(e) != 1 || e[0].Sample.Gone != history.GoneUnreadable || len(e[0].Sample.Values) != 0 {
		t.Errorf("%+v", e)
	}
}

const ms = testkit.MS

var look, at = testkit.Look, testkit.At
