package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// contestant makes one acquire and release of key.
type contestant struct {
	name string
	peer bool
	pair func(ctx context.Context, key string) error
}

const (
	ttl     = time.Minute
	timeout = 2 * time.Second
)

// unlock is the release that every peer uses: no fence, no server time.
const unlock = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

var errNotReleased = errors.New("not released")

func token() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// contestants are the peers as they are (no fence), and ours; done closes what they opened.
func contestants(addr string) (all []contestant, done func(), err error) {
	plain := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 128, MaxRetries: -1, DisableIdentity: true})
	single, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, nil, fmt.Errorf("open rueidis: %w", err)
	}
	one, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true, PipelineMultiplex: -1})
	if err != nil {
		return nil, nil, fmt.Errorf("open rueidis: %w", err)
	}
	own := redisstore.NewClient(addr)
	simple, batched := redisstore.NewStore(own, ""), redisstore.NewBatched(own, "")
	locks, err := client.New(client.Options{Store: batched, Policy: tryOnce()})
	if err != nil {
		return nil, nil, err
	}
	acquire, release, err := loadScripts(context.Background(), addr)
	if err != nil {
		return nil, nil, err
	}
	all = []contestant{
		{"go-redis", true, goRedis(plain)},
		{"redsync", true, redsyncPair(plain)},
		{"redislock", true, redislockPair(plain)},
		{"rueidis", true, rueidisPair(single)},
		{"rueidis, 1 connection", true, rueidisPair(one)},
		{"our scripts on rueidis, 1 connection", false, scriptsPair(one, acquire, release)},
		{"ours: plain store", false, storePair(simple)},
		{"ours: batched store", false, storePair(batched)},
		{"ours: client on it", false, clientPair(locks)},
	}
	return all, func() {
		_ = locks.Close(context.Background())
		_ = batched.Close()
		_, _ = own.Close(), plain.Close()
		single.Close()
		one.Close()
	}, nil
}

func tryOnce() lockcore.Policy {
	return lockcore.Policy{
		TTL: ttl, RenewEvery: ttl / 3, Class: lockcore.Standard, OpTimeout: timeout, StopBudget: time.Second, Drift: ttl / 100,
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: timeout, AfterAbandon: lockcore.AfterAbandonStopped},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: timeout},
	}
}

func goRedis(c *redis.Client) func(context.Context, string) error {
	release := redis.NewScript(unlock)
	return func(ctx context.Context, key string) error {
		t := token()
		if ok, err := c.SetNX(ctx, key, t, ttl).Result(); err != nil || !ok {
			return errors.Join(err, client.ErrBusy)
		}
		n, err := release.EvalSha(ctx, c, []string{key}, t).Int()
		if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			n, err = release.Eval(ctx, c, []string{key}, t).Int()
		}
		if err != nil || n != 1 {
			return errors.Join(err, errNotReleased)
		}
		return nil
	}
}

func redsyncPair(c *redis.Client) func(context.Context, string) error {
	rs := redsync.New(redsyncpool.NewPool(c))
	return func(ctx context.Context, key string) error {
		m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1))
		if err := m.LockContext(ctx); err != nil {
			return err
		}
		if ok, err := m.UnlockContext(ctx); err != nil || !ok {
			return errors.Join(err, errNotReleased)
		}
		return nil
	}
}

func redislockPair(c *redis.Client) func(context.Context, string) error {
	locks := redislock.New(c)
	return func(ctx context.Context, key string) error {
		l, err := locks.Obtain(ctx, key, ttl, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}

func rueidisPair(c rueidis.Client) func(context.Context, string) error {
	release := rueidis.NewLuaScript(unlock)
	return func(ctx context.Context, key string) error {
		t := token()
		if err := c.Do(ctx, c.B().Set().Key(key).Value(t).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error(); err != nil {
			return err
		}
		n, err := release.Exec(ctx, c, []string{key}, []string{t}).AsInt64()
		if err != nil || n != 1 {
			return errors.Join(err, errNotReleased)
		}
		return nil
	}
}

// scriptsPair is what the fastest peer makes of our own two scripts: how much of a difference is theirs, and how much the client's.
func scriptsPair(c rueidis.Client, acquire, release string) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		t := token()
		args := pairArgs(key, t)
		if err := c.Do(ctx, c.B().Evalsha().Sha1(acquire).Numkeys(2).Key(args.acquire[:2]...).Arg(args.acquire[2:]...).Build()).Error(); err != nil {
			return err
		}
		n, err := c.Do(ctx, c.B().Evalsha().Sha1(release).Numkeys(3).Key(args.release[:3]...).Arg(args.release[3:]...).Build()).AsInt64()
		if err != nil || n != 1 {
			return errors.Join(err, errNotReleased)
		}
		return nil
	}
}

func storePair(s lockcore.Store) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		t := token()
		if _, err := s.Acquire(ctx, key, t, ttl); err != nil {
			return err
		}
		return s.Release(ctx, key, t)
	}
}

func clientPair(c *client.Client) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		h, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return h.Release(ctx)
	}
}
