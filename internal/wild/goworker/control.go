package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func newControl(c *redis.Client, key, token string, p Policy) Lock {
	return &control{c: c, keys: []string{key, "{" + key + "}:fence"}, token: token, p: p}
}

// control is a lock that does what docs/worker-protocol.md asks for: a drill must accuse it of nothing. It bounds each call, has a fence,
// counts its lease from when it asked, and gives back what it may have got.
type control struct {
	c     *redis.Client
	keys  []string
	token string
	p     Policy
	fence int64

	mu    sync.Mutex
	valid int64 // of CLOCK_MONOTONIC, ns
}

const (
	take = `local t = redis.call('TIME')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return '' end
local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return string.format('%.0f', fence)`
	prolong = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
	free    = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

// ask makes one call, once: go-redis would repeat a SET NX whose answer was lost, and take the refusal for the answer.
func (l *control) ask(ctx context.Context, script string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, l.p.OpTimeout)
	defer cancel()
	return once(l.c).Eval(ctx, script, l.keys, l.token, l.p.TTL.Milliseconds()).Result()
}

var (
	onceClient *redis.Client
	onceOpen   sync.Once
)

func once(c *redis.Client) *redis.Client {
	onceOpen.Do(func() {
		onceClient = redis.NewClient(&redis.Options{Addr: c.Options().Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	})
	return onceClient
}

func (l *control) extended(from int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.valid = from + int64(l.p.TTL-l.p.StopBudget)
}

func (l *control) Acquire(ctx context.Context) error {
	from := now()
	reply, err := l.ask(ctx, take)
	if err != nil {
		return err
	}
	if reply == "" {
		return errHeld
	}
	l.extended(from)
	l.fence, err = strconv.ParseInt(reply.(string), 10, 64)
	return err
}

func (l *control) change(ctx context.Context, script string) error {
	reply, err := l.ask(ctx, script)
	if err == nil && reply != int64(1) {
		return errLost
	}
	return err
}

func (l *control) Extend(ctx context.Context) error {
	from := now()
	err := l.change(ctx, prolong)
	if err == nil {
		l.extended(from)
	}
	return err
}

func (l *control) Release(ctx context.Context) error { return l.change(ctx, free) }
func (l *control) Undo(ctx context.Context) error    { return l.change(ctx, free) }
func (l *control) Fence() int64                      { return l.fence }

func (l *control) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.valid - now())
}
