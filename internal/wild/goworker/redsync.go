package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func newRedsync(c *redis.Client, key, token string, ttl time.Duration) Lock {
	value := redsync.WithGenValueFunc(func() (string, error) { return token, nil }) // so that it is known before the call
	return redsyncLock{redsync.New(goredis.NewPool(c)).NewMutex(key, redsync.WithExpiry(ttl), value)}
}

// redsyncLock is a mutex as the README has it: Lock, Extend, Unlock; any other answer than true is a panic there.
type redsyncLock struct{ *redsync.Mutex }

func (m redsyncLock) Acquire(ctx context.Context) error {
	err := m.LockContext(ctx)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return errHeld
	}
	return err
}

func (m redsyncLock) Extend(ctx context.Context) error  { return taken(m.ExtendContext(ctx)) }
func (m redsyncLock) Release(ctx context.Context) error { return taken(m.UnlockContext(ctx)) }

func taken(ok bool, err error) error {
	if t := (*redsync.ErrTaken)(nil); errors.As(err, &t) || errors.Is(err, redsync.ErrLockAlreadyExpired) || !ok && err == nil {
		return errLost
	}
	return err
}
