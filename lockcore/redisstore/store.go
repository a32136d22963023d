package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Store is a lockcore.Store on Redis. A lock is the plain key prefix+key whose value is the token, so that anybody's GET and
// PTTL see it; its fence is kept beside it, in the same slot of a cluster. Each call is a command of its own.
type Store struct {
	redis  redis.Scripter
	prefix string
	do     scripts
}

// NewStore returns the locks under prefix. The client should have the settings of Tune.
func NewStore(c redis.Scripter, prefix string) *Store {
	return &Store{redis: c, prefix: prefix, do: newScripts()}
}

// Acquire implements lockcore.Store.
func (s *Store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := callable(ctx, ttl); err != nil {
		return lockcore.Grant{}, err
	}
	k := keysOf(s.prefix + key)
	reply, err := s.do.acquire.Run(ctx, s.redis, []string{k.lock, k.fence}, token, millis(ttl), millis(fenceTTL(ttl))).Result()
	if err != nil {
		return lockcore.Grant{}, wrap("acquire", err)
	}
	return parseGrant(reply)
}

// Renew implements lockcore.Store.
func (s *Store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := callable(ctx, ttl); err != nil {
		return err
	}
	reply, err := s.do.renew.Run(ctx, s.redis, []string{s.prefix + key}, token, millis(ttl)).Result()
	if err != nil {
		return wrap("renew", err)
	}
	return parseOwned("renew", reply)
}

// Release implements lockcore.Store.
func (s *Store) Release(ctx context.Context, key, token string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	k := keysOf(s.prefix + key)
	reply, err := s.do.release.Run(ctx, s.redis, []string{k.lock, k.turn, k.line}, token, turnWindow, lineKeep).Result()
	if err != nil {
		return wrap("release", err)
	}
	return parseOwned("release", reply)
}

func callable(ctx context.Context, ttl time.Duration) error {
	if err := lockcore.CheckTTL(ttl); err != nil {
		return err
	}
	return alive(ctx)
}

// alive refuses a call whose context has ended before it began.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return nil
}
