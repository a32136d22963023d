package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Peeked is what one key of a Redis showed.
type Peeked struct {
	Holder string        // fingerprint of the token; "" = nobody holds the key
	TTL    time.Duration // what is left of the lease; below 0 = it has no end
}

// Taken fails with a HeldError where another run has the target, or has left it unfinished; so a run would be refused there. It only reads.
func Taken(ctx context.Context, r experiments.Redis) error {
	w, err := whereIs(r)
	if err != nil {
		return err
	}
	c, err := Connect(w)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range []string{leaseKey, openKey} {
		value, err := c.Get(ctx, key).Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return fmt.Errorf("read %s at %s: %w", key, target(w), err)
		default:
			return heldBy(w, key, value)
		}
	}
	return nil
}

// Peek reads keys of a Redis that the run did not start, as they stand there, and changes nothing. The result is in the order of keys.
func Peek(ctx context.Context, r experiments.Redis, keys []string) ([]Peeked, error) {
	w, err := whereIs(r)
	if err != nil {
		return nil, err
	}
	c, err := Connect(w)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	out := make([]Peeked, len(keys))
	for i, key := range keys {
		token, err := c.Get(ctx, key).Result()
		switch {
		case errors.Is(err, redis.Nil):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s at %s: %w", key, target(w), err)
		}
		if out[i].TTL, err = c.PTTL(ctx, key).Result(); err != nil {
			return nil, fmt.Errorf("read the TTL of %s at %s: %w", key, target(w), err)
		}
		out[i].Holder = lockcore.Fingerprint(token)
	}
	return out, nil
}

// OptionsOf are the options of connections to a Redis that the run did not start.
func OptionsOf(r experiments.Redis) (*redis.Options, error) {
	w, err := whereIs(r)
	if err != nil {
		return nil, err
	}
	return optionsOf(w)
}
