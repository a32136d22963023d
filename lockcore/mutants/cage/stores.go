package cage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/mutants"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// storeOf is the store that an animal has in place of the core's.
func storeOf(name mutants.Store, core lockcore.Store, c *redis.Client, prefix string) lockcore.Store {
	s := scripted{core, c, prefix}
	switch name {
	case mutants.StoreBlindRelease:
		return &blindRelease{s}
	case mutants.StoreBlindRenew:
		return &blindRenew{s}
	case mutants.StoreTwoSteps:
		return &twoSteps{s}
	case mutants.StoreCounter:
		return &counter{s}
	case mutants.StoreRecreate:
		return &recreate{s}
	case mutants.StoreLonger:
		return &longer{core}
	case mutants.StoreYes:
		return &yes{core}
	case mutants.StoreOtherToken:
		return &otherToken{core}
	case mutants.StoreDeniedGrant:
		return &deniedGrant{Store: core}
	}
	return core
}

// scripted is the core's store, but for what a script of the animal's own does.
type scripted struct {
	lockcore.Store
	redis  *redis.Client
	prefix string
}

// run runs a script on a lock's key and its fence's. Where it does not answer, the effect is not known.
func (s *scripted) run(ctx context.Context, script *redis.Script, key string, args ...any) (any, error) {
	lock := s.prefix + key
	reply, err := script.Run(ctx, s.redis, []string{lock, redisstore.FenceKey(lock)}, args...).Result()
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

type blindRelease struct{ scripted }

var del = redis.NewScript(`return redis.call('DEL', KEYS[1])`)

func (s *blindRelease) Release(ctx context.Context, key, _ string) error {
	return owned(s.run(ctx, del, key))
}

type blindRenew struct{ scripted }

var pexpire = redis.NewScript(`return redis.call('PEXPIRE', KEYS[1], ARGV[1])`)

func (s *blindRenew) Renew(ctx context.Context, key, _ string, ttl time.Duration) error {
	return owned(s.run(ctx, pexpire, key, ttl.Milliseconds()))
}

type twoSteps struct{ scripted }

var setnx = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`)

func (s *twoSteps) Acquire(ctx context.Context, key, token string, _ time.Duration) (lockcore.Grant, error) {
	return granted(s.run(ctx, setnx, key, token))
}

type counter struct{ scripted }

var incr = redis.NewScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`)

func (s *counter) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return granted(s.run(ctx, incr, key, token, ttl.Milliseconds()))
}

type recreate struct{ scripted }

var setAgain = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

func (s *recreate) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return owned(s.run(ctx, setAgain, key, token, ttl.Milliseconds()))
}

type longer struct{ lockcore.Store }

func (s *longer) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return s.Store.Acquire(ctx, key, token, 2*ttl)
}

func (s *longer) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return s.Store.Renew(ctx, key, token, 2*ttl)
}

type yes struct{ core lockcore.Store }

func (s *yes) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	g, err := s.core.Acquire(ctx, key, token, ttl)
	if held := (*lockcore.HeldError)(nil); errors.As(err, &held) {
		now := time.Now()
		return lockcore.Grant{Fence: now.UnixMicro(), Server: now}, nil
	}
	return g, err
}

func (s *yes) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return agreed(s.core.Renew(ctx, key, token, ttl))
}

func (s *yes) Release(ctx context.Context, key, token string) error {
	return agreed(s.core.Release(ctx, key, token))
}

func agreed(err error) error {
	if lost := (*lockcore.NotOwnedError)(nil); errors.As(err, &lost) {
		return nil
	}
	return err
}

type otherToken struct{ core lockcore.Store }

func (s *otherToken) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	return s.core.Acquire(ctx, key, mutants.Alias(token), ttl)
}

func (s *otherToken) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return s.core.Renew(ctx, key, mutants.Alias(token), ttl)
}

func (s *otherToken) Release(ctx context.Context, key, token string) error {
	return s.core.Release(ctx, key, mutants.Alias(token))
}

type deniedGrant struct {
	lockcore.Store
	grants atomic.Int64
}

func (s *deniedGrant) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	g, err := s.Store.Acquire(ctx, key, token, ttl)
	if err != nil {
		return g, err
	}
	if n := s.grants.Add(1); n%mutants.DeniedOf == 0 {
		return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint("another " + strconv.FormatInt(n, 10)), PTTL: ttl}
	}
	return g, nil
}
