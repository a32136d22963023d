package testbed

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
)

// Taken fails with a HeldError where another run has the target, or has left it unfinished; so a run would be refused there. It only reads.
func Taken(ctx context.Context, r experiments.Redis) error {
	c, w, err := reach(r)
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

// Reach makes connections to a Redis that the run did not start; it does not dial yet.
func Reach(r experiments.Redis) (redis.UniversalClient, error) {
	c, _, err := reach(r)
	return c, err
}

// reach is Reach, and says where that is.
func reach(r experiments.Redis) (c redis.UniversalClient, w undo.Store, err error) {
	if w, err = whereIs(r); err == nil {
		c, err = Connect(w)
	}
	return c, w, err
}

// OptionsOf are the options of connections to a Redis that the run did not start.
func OptionsOf(r experiments.Redis) (*redis.Options, error) {
	w, err := whereIs(r)
	if err != nil {
		return nil, err
	}
	return optionsOf(w)
}
