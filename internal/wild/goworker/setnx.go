package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

func newSetnx(c *redis.Client, key, token string, ttl time.Duration) Lock {
	return &setnx{c, key, token, ttl}
}

const (
	prolong = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
	free    = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

// setnx is the lock that is written by hand on go-redis at its defaults: SetNX, and scripts that compare.
type setnx struct {
	c          *redis.Client
	key, token string
	ttl        time.Duration
}

func (l *setnx) Acquire(ctx context.Context) error {
	ok, err := l.c.SetNX(ctx, l.key, l.token, l.ttl).Result()
	if err == nil && !ok {
		return errHeld
	}
	return err
}

func (l *setnx) Extend(ctx context.Context) error  { return l.change(ctx, prolong) }
func (l *setnx) Release(ctx context.Context) error { return l.change(ctx, free) }

func (l *setnx) change(ctx context.Context, script string) error {
	n, err := l.c.Eval(ctx, script, []string{l.key}, l.token, l.ttl.Milliseconds()).Int()
	if err == nil && n != 1 {
		return errLost
	}
	return err
}
