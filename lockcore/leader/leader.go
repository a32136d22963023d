// Package leader runs loops that one replica at a time may do: at every poll, whoever gets the key does a tick.
//
// There are two loops with one configuration. Run is for use: the context of its tick ends before the lease does, and its handle has the
// fence that every write should carry. RunLeaderLoop is the loop that is commonly published, as it behaves there: nothing ends a tick
// whose lock is lost, and nothing fences what it writes, so that a tick which stalls for longer than its lease has two leaders at work.
// It is here so that a program written that way can be drilled as it is, and be compared.
//
//	store := redisstore.NewStore(redisstore.NewClient("127.0.0.1:6379"), "app:")
//	cfg := leader.LeaderLoopConfig{PollInterval: 5 * time.Second, LockTTL: 10 * time.Second, HoldUntilTTL: true}
//	err := leader.Run(ctx, store, "reconciler", cfg, func(ctx context.Context, h *client.Handle) error {
//		return reconcile(ctx, h.Fence())
//	})
//
// The package knows no store, no job and no drill. Its one invariant: a tick is done only after a grant of the key, and never two at
// once by one loop.
package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// LeaderLoopConfig says when a loop polls, and what becomes of its lock.
type LeaderLoopConfig struct {
	PollInterval time.Duration // between two polls; a longer tick delays the next one, and none are made up for
	LockTTL      time.Duration // of the key at its store
	RenewEvery   time.Duration // while a tick lasts; 0 = the key is never renewed
	HoldUntilTTL bool          // the key stays until its TTL after a tick; else it is released
}

// LockStore is a store of locks as RunLeaderLoop takes it. Locks makes one of a lockcore.Store.
type LockStore interface {
	// TryAcquireLock asks once, and gives the token that the key then carries; "" without an error = another has the key.
	TryAcquireLock(ctx context.Context, key string, ttl time.Duration) (token string, err error)
	// RenewLock prolongs the key to ttl from now, if it carries the token.
	RenewLock(ctx context.Context, key, token string, ttl time.Duration) error
	// ReleaseLock deletes the key, if it carries the token.
	ReleaseLock(ctx context.Context, key, token string) error
}

// Limits that Run keeps to, where the published loop has none.
const (
	mostCall = 2 * time.Second // of one call to the store, and at most a fifth of the TTL
	mostStop = time.Second     // that is left for a tick to stop in, and at most a tenth of the TTL
)

// Policy is what Run follows: calls have a limit, a tick is ended before its lease is over, and the lease counts from the sending of the
// last call that succeeded. lockcore.Policy says what each field means, and its Lints what it costs.
func (cfg LeaderLoopConfig) Policy() lockcore.Policy {
	call := min(mostCall, cfg.LockTTL/5)
	p := lockcore.Policy{
		TTL: cfg.LockTTL, RenewEvery: cfg.RenewEvery, Class: lockcore.Standard, OpTimeout: call,
		Drift: cfg.LockTTL / 100, StopBudget: min(mostStop, cfg.LockTTL/10),
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: call},
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: call, AfterAbandon: lockcore.AfterAbandonStopped},
	}
	if cfg.HoldUntilTTL {
		p.Release = lockcore.Release{Mode: lockcore.ReleaseNone}
	}
	return p
}

// Run leads a loop, or waits to, until ctx ends, and returns its cause; an error before that is a configuration that cannot be followed.
//
// tick's context ends with ctx, and before the lock may not be relied on any more: tick must return then. Its handle says for how long the
// lock is good (Remaining, Check) and which fence to write with (Fence): the ledger, or whatever is written to, must refuse lower ones,
// because no clock helps a process that stands still between its last look and its write. An error of tick is logged.
func Run(ctx context.Context, store lockcore.Store, key string, cfg LeaderLoopConfig, tick func(ctx context.Context, h *client.Handle) error) error {
	if cfg.PollInterval <= 0 {
		return errors.New("leader: PollInterval must be above 0")
	}
	c, err := client.New(client.Options{Store: store, Policy: cfg.Policy()})
	if err != nil {
		return fmt.Errorf("leader: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // nothing is held any more
	each(ctx, cfg.PollInterval, func() {
		h, err := c.Acquire(ctx, key)
		if err != nil {
			return // another leads, or the store does not answer: the next poll asks again
		}
		if err := under(ctx, h, tick); err != nil {
			slog.WarnContext(ctx, "tick failed", "lock", key, "error", err)
		}
		if cfg.HoldUntilTTL && h.Check() == nil {
			h.Leave()
			return
		}
		_ = h.Release(context.WithoutCancel(ctx)) // where it fails, the key stays until its TTL
	})
	return context.Cause(ctx)
}

// under does a tick whose context ends with the lock.
func under(ctx context.Context, h *client.Handle, tick func(context.Context, *client.Handle) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(h.Context(), func() { end(context.Cause(h.Context())) })()
	return tick(ctx, h)
}

// RunLeaderLoop leads a loop, or waits to, until ctx ends, as it is commonly published. Its calls have no limit of time but ctx, errors
// of tick are dropped, a failed renewal is logged and no more, and tick does not learn that its lock is lost. PollInterval must be above 0:
// it panics otherwise, as the published loop does. Before you rely on it, see what it does under a pause (lockdrill run published-loop-pause),
// and drill it with the class legacy_warn and without fences. Run is the loop that does not need that.
func RunLeaderLoop(ctx context.Context, store LockStore, lockKey string, cfg LeaderLoopConfig, tick func(context.Context) error) {
	var renewals sync.WaitGroup
	defer renewals.Wait()
	each(ctx, cfg.PollInterval, func() {
		token, err := store.TryAcquireLock(ctx, lockKey, cfg.LockTTL)
		if err != nil || token == "" {
			return
		}
		renewing, stop := context.WithCancel(ctx)
		if cfg.RenewEvery > 0 {
			renewals.Go(func() {
				each(renewing, cfg.RenewEvery, func() {
					if err := store.RenewLock(ctx, lockKey, token, cfg.LockTTL); err != nil {
						slog.WarnContext(ctx, "lock renewal failed", "lock", lockKey, "error", err)
					}
				})
			})
		}
		_ = tick(ctx)
		stop() // a renewal in flight goes on: nothing waits for it before the release, nor before the next poll
		if !cfg.HoldUntilTTL {
			_ = store.ReleaseLock(context.WithoutCancel(ctx), lockKey, token)
		}
	})
}

// each does something at every beat until ctx ends. Beats that come while it is done are dropped.
func each(ctx context.Context, every time.Duration, do func()) {
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			do()
		}
	}
}

// Errors of what Locks returns.
var (
	ErrTokenRequired = errors.New("lock token required") // of a release; a renewal without a token is told ErrNotOwned
	ErrNotOwned      = errors.New("lock not owned")      // wraps the store's *lockcore.NotOwnedError
)

// Locks gives a store of the lock core the methods of a LockStore. Each acquire has a token of its own.
func Locks(s lockcore.Store) LockStore { return locks{s} }

type locks struct{ store lockcore.Store }

func (l locks) TryAcquireLock(ctx context.Context, key string, ttl time.Duration) (string, error) {
	token := rand.Text()
	_, err := l.store.Acquire(ctx, key, token, ttl)
	switch lockcore.ResultOf(err) {
	case lockcore.OK:
		return token, nil
	case lockcore.Held:
		return "", nil
	}
	return "", err
}

func (l locks) RenewLock(ctx context.Context, key, token string, ttl time.Duration) error {
	return owned(l.store.Renew(ctx, key, token, ttl))
}

func (l locks) ReleaseLock(ctx context.Context, key, token string) error {
	if token == "" {
		return ErrTokenRequired
	}
	return owned(l.store.Release(ctx, key, token))
}

func owned(err error) error {
	if _, lost := errors.AsType[*lockcore.NotOwnedError](err); lost {
		return fmt.Errorf("%w: %w", ErrNotOwned, err)
	}
	return err
}
