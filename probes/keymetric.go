package probes

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
)

// Question is what is asked of a key.
type Question string

const (
	Idle   Question = "idle"   // seconds since it was last used; an absent key has none. The question itself is no use of it
	Length Question = "length" // bytes of a string, entries of anything else; 0 where it is absent
	Exists Question = "exists" // 1 or 0
)

// NewKeyMetric returns a probe of one number of one key, by a connection of its own. Its only target is called "locks".
func NewKeyMetric(name string, c redis.UniversalClient, key string, ask Question) *Metrics {
	k := &keyMetric{redis: c, key: key, ask: ask}
	return &Metrics{
		metric: Metric{Name: name}, seen: map[string]*scraped{}, read: k.read, close: k.redis.Close,
		targets: func() []Target { return []Target{{Name: "locks", URL: key}} },
	}
}

// keyMetric reads a key of the locks' store.
type keyMetric struct {
	redis redis.UniversalClient
	key   string
	ask   Question
}

func (k *keyMetric) read(ctx context.Context, _ string, into *history.Sample) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeWithin)
	defer cancel()
	v, absent, err := k.value(ctx)
	var said redis.Error
	switch {
	case errors.As(err, &said):
		return &answered{said.Error()}
	case err != nil:
		return err
	case !absent:
		into.Values, into.Type = []history.Value{{Value: history.Number(v)}}, "gauge"
	}
	return nil
}

func (k *keyMetric) value(ctx context.Context) (v float64, absent bool, err error) {
	switch k.ask {
	case Exists:
		n, err := k.redis.Exists(ctx, k.key).Result()
		return float64(n), false, err
	case Idle:
		n, err := k.redis.Exists(ctx, k.key).Result() // stores differ in what they answer for a key that is not there
		if err != nil || n == 0 {
			return 0, true, err
		}
		d, err := k.redis.ObjectIdleTime(ctx, k.key).Result()
		if errors.Is(err, redis.Nil) { // it went meanwhile
			return 0, true, nil
		}
		return d.Seconds(), false, err
	}
	kind, err := k.redis.Type(ctx, k.key).Result()
	if err != nil {
		return 0, false, err
	}
	count, known := map[string]func(context.Context, string) *redis.IntCmd{
		"string": k.redis.StrLen, "list": k.redis.LLen, "hash": k.redis.HLen, "set": k.redis.SCard, "zset": k.redis.ZCard, "stream": k.redis.XLen,
	}[kind]
	if !known {
		if kind == "none" {
			return 0, false, nil
		}
		return 0, false, &answered{"that the key is a " + kind}
	}
	n, err := count(ctx, k.key).Result()
	return float64(n), false, err
}
