package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

func newSetnx(c *redis.Client, key, token string, p Policy) Lock { return &setnx{c, key, token, p} }

// setnx is the lock that is written by hand on go-redis at its defaults: SetNX, and scripts that compare.
type setnx struct {
	c          *redis.Client
	key, token string
	p          Policy
}

func (l *setnx) Acquire(ctx context.Context) error {
	ok, err := l.c.SetNX(ctx, l.key, l.token, l.p.TTL).Result()
	if err == nil && !ok {
		return errHeld
	}
	return err
}

func (l *setnx) Extend(ctx context.Context) error  { return l.change(ctx, prolong) }
func (l *setnx) Release(ctx context.Context) error { return l.change(ctx, free) }

func (l *setnx) change(ctx context.Context, script string) error {
	n, err := l.c.Eval(ctx, script, []string{l.key}, l.token, l.p.TTL.Milliseconds()).Int()
	if err == nil && n != 1 {
		return errLost
	}
	return err
}
