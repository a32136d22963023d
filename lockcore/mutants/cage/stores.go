package cage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// store is the core's, but for what scripts of the animal's own do, and for calls that it answers without sending them.
type store struct {
	lockcore.Store
	feigns func(lockcore.Op) bool
	lua    map[lockcore.Op]*redis.Script
	redis  *redis.Client
	prefix string
}

func (s *store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	script := s.lua[lockcore.OpAcquire]
	if script == nil {
		return s.Store.Acquire(ctx, key, token, ttl)
	}
	return granted(s.run(ctx, script, key, token, ttl))
}

func (s *store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return s.change(ctx, lockcore.OpRenew, key, token, ttl, func() error { return s.Store.Renew(ctx, key, token, ttl) })
}

func (s *store) Release(ctx context.Context, key, token string) error {
	return s.change(ctx, lockcore.OpRelease, key, token, 0, func() error { return s.Store.Release(ctx, key, token) })
}

func (s *store) change(ctx context.Context, op lockcore.Op, key, token string, ttl time.Duration, core func() error) error {
	if s.feigns(op) {
		return nil
	}
	if script := s.lua[op]; script != nil {
		return owned(s.run(ctx, script, key, token, ttl))
	}
	return core()
}

// run runs a script on a lock's key and its fence's. Where it does not answer, the effect is not known.
func (s *store) run(ctx context.Context, script *redis.Script, key, token string, ttl time.Duration) (any, error) {
	lock := s.prefix + key
	reply, err := script.Run(ctx, s.redis, []string{lock, redisstore.FenceKey(lock)}, token, ttl.Milliseconds()).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// owned reads 1, 0 (absent) or the other holder's token.
func owned(reply any, err error) error {
	switch r := reply.(type) {
	case int64:
		if err != nil || r == 1 {
			return err
		}
		return &lockcore.NotOwnedError{}
	case string:
		return &lockcore.NotOwnedError{Other: true, Holder: lockcore.Fingerprint(r)}
	}
	return err
}

// granted reads a fence, or the holder's token and what is left to it.
func granted(reply any, err error) (lockcore.Grant, error) {
	switch r := reply.(type) {
	case int64:
		return lockcore.Grant{Fence: r, Server: time.Now()}, err
	case []any:
		if len(r) == 2 && err == nil {
			holder, _ := r[0].(string)
			left, _ := r[1].(int64)
			return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint(holder), PTTL: time.Duration(left) * time.Millisecond}
		}
	}
	if err == nil {
		err = fmt.Errorf("acquire: reply %v", reply)
	}
	return lockcore.Grant{}, err
}
