package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Batched is Store for many goroutines and many locks: the same scripts, keys and answers, but what several goroutines ask at
// the same time travels in one pipeline; renewals have a lane of their own, so that they never stand behind other calls. It is
// also a lockcore.ManyRenewer and a lockcore.Line. Close it.
type Batched struct {
	redis  redis.UniversalClient
	prefix string
	do     scripts
	calls  *lane
	renews *lane
	turns  *turns
	single bool // one server: keys of one script need not share a slot
}

// lanes are the pipelines of each kind under way at once: while one is at the server, the next is being written.
const lanes = 2

// NewBatched returns the locks under prefix. The client must have the settings of Tune: a pipeline that go-redis repeats by itself
// would break what locks stand on. Closing the store leaves it open.
func NewBatched(c redis.UniversalClient, prefix string) *Batched {
	_, single := c.(*redis.Client)
	s := &Batched{redis: c, prefix: prefix, do: newScripts(), single: single, turns: newTurns(c, prefix)}
	s.calls, s.renews = &lane{redis: c, max: lanes}, &lane{redis: c, max: lanes}
	if single {
		s.calls.many = s.do.many
	}
	return s
}

// Close refuses further calls and waits for those under way: each is bounded by its context.
func (s *Batched) Close() error {
	s.calls.close()
	s.renews.close()
	return s.turns.close()
}

// Acquire implements lockcore.Store.
func (s *Batched) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := callable(ctx, ttl); err != nil {
		return lockcore.Grant{}, err
	}
	k := keysOf(s.prefix + key)
	c := newCall(s.do.acquire, k.lock, k.fence)
	c.kind = kindAcquire
	c.text(token)
	c.num(millis(ttl))
	c.num(millis(fenceTTL(ttl)))
	reply, err := s.calls.do(ctx, c)
	if err != nil {
		return lockcore.Grant{}, wrap("acquire", err)
	}
	return parseGrant(reply)
}

// Renew implements lockcore.Store.
func (s *Batched) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := callable(ctx, ttl); err != nil {
		return err
	}
	c := newCall(s.do.renew, s.prefix+key)
	c.text(token)
	c.num(millis(ttl))
	reply, err := s.renews.do(ctx, c)
	if err != nil {
		return wrap("renew", err)
	}
	return parseOwned("renew", reply)
}

// Release implements lockcore.Store.
func (s *Batched) Release(ctx context.Context, key, token string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	k := keysOf(s.prefix + key)
	c := newCall(s.do.release, k.lock, k.turn, k.line)
	c.kind = kindRelease
	c.text(token)
	c.num(turnWindow)
	c.num(lineKeep)
	reply, err := s.calls.do(ctx, c)
	if err != nil {
		return wrap("release", err)
	}
	return parseOwned("release", reply)
}
