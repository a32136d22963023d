package redis

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/stores"
)

// Taken fails with a HeldError where another run has the target, or has left it unfinished; so a run would be refused there. It only reads.
func Taken(ctx context.Context, r experiments.Redis) error {
	c, w, err := reach(r)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, key := range []string{stores.TurnKey, stores.OpenKey} {
		value, err := c.Get(ctx, key).Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return fmt.Errorf("read %s at %s: %w", key, target(w), err)
		default:
			return stores.HeldBy(target(w), key, value)
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

// LeadsTo refuses a proxy, which listens at addr and is said to lead to upstream, with another server at its other end.
func LeadsTo(ctx context.Context, proxy, addr, upstream string, r experiments.Redis) error {
	w, err := whereIs(r)
	if err != nil {
		return err
	}
	there := stores.EndpointOf(w)
	if host, _, err := net.SplitHostPort(there.Addr); err == nil {
		there.ServerName = host
	}
	there.Addr = addr
	o, err := endpoint.Options(there)
	if err != nil {
		return err
	}
	direct, err := Connect(w)
	if err != nil {
		return err
	}
	behind := redis.NewClient(o)
	defer func() { _ = errors.Join(direct.Close(), behind.Close()) }()
	want, err := serverInfo(ctx, direct)
	if err != nil {
		return fmt.Errorf("reach %s: %w", target(w), err)
	}
	got, err := serverInfo(ctx, behind)
	switch {
	case err != nil:
		return fmt.Errorf("reach the Redis through proxy %s, which listens on %s and leads to %s: %w", proxy, there.Addr, upstream, err)
	case got["run_id"] != want["run_id"]:
		return fmt.Errorf("proxy %s leads to %s, and that is another server than %s of the file", proxy, upstream, target(w))
	}
	return nil
}
