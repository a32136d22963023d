package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func newRedislock(c *redis.Client, key, token string, ttl time.Duration) Lock {
	return &redislockLock{c: redislock.New(c), key: key, token: token, ttl: ttl}
}

// redislockLock obtains once (the default), refreshes as the caller must by its documents, and is released in the end.
type redislockLock struct {
	c          *redislock.Client
	key, token string
	ttl        time.Duration
	lock       *redislock.Lock
}

func (l *redislockLock) Acquire(ctx context.Context) (err error) {
	l.lock, err = l.c.Obtain(ctx, l.key, l.ttl, &redislock.Options{Token: l.token})
	if errors.Is(err, redislock.ErrNotObtained) {
		return errHeld
	}
	return err
}

func (l *redislockLock) Extend(ctx context.Context) error {
	err := l.lock.Refresh(ctx, l.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errLost
	}
	return err
}

func (l *redislockLock) Release(ctx context.Context) error {
	err := l.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return errLost
	}
	return err
}
