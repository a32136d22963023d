// Command goworker is a lockdrill worker whose lock is a library that people use, as in `goworker redsync`. The library is used at its
// defaults and as its documents show; this program only says each call before it is made, and the engine of package worker does the rest.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// library connects to its store, and then makes a Lock for each acquisition.
type library func(ctx context.Context, c protocol.Configure) (func(h *hold) Lock, error)

var libraries = map[string]library{
	"client-go":         onLease(false),
	"client-go-release": onLease(true),
	"etcd-election":     onEtcd(newElection),
	"etcd-mutex":        onEtcd(newMutex),
	"pg-advisory":       openAdvisory,
	"redislock":         onRedis(newRedislock),
	"redsync":           onRedis(newRedsync),
	"setnx":             onRedis(newSetnx),
}

// onRedis connects a library of Redis.
func onRedis(lock func(c *redis.Client, key, token string, ttl time.Duration) Lock) library {
	return func(ctx context.Context, c protocol.Configure) (func(h *hold) Lock, error) {
		// go-redis waits 5 s for a connection and 3 s for a reply, beside redsync's lease of 8 s: in the same proportion to the TTL.
		of := func(d time.Duration) time.Duration {
			return d / 8 * (c.Locks[0].Policy.TTL / time.Millisecond) / 1000
		}
		at := redis.NewClient(&redis.Options{Addr: c.Store.Addr, DialTimeout: of(5 * time.Second), ReadTimeout: of(3 * time.Second), WriteTimeout: of(3 * time.Second)})
		return func(h *hold) Lock { return lock(at, c.Store.Prefix+h.want.Key, h.token, h.want.Lock.Policy.TTL) }, at.Ping(ctx).Err()
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name := os.Args[len(os.Args)-1]
	open, begin := libraries[name], queues[name]
	var err error
	switch {
	case begin != nil:
		err = runQueue(ctx, os.Stdin, begin)
	case open != nil:
		err = runLock(ctx, os.Stdin, open)
	default:
		fmt.Fprintln(os.Stderr, "usage: goworker LIBRARY")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runLock(ctx context.Context, in io.Reader, open library) error {
	return worker.Run(ctx, in, os.Stdout, func(ctx context.Context, c protocol.Configure, t *worker.Teller) (worker.Locker, error) {
		lock, err := open(ctx, c)
		return locker{t, lock}, err
	}, worker.Options{})
}
