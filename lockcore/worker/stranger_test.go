package worker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// What follows is a whole lock, without renewals and fence, for people to copy: docs/worker-protocol.md leads here.

type myLock struct {
	redis  *redis.Client
	prefix string
	tell   *worker.Teller
}

func open(_ context.Context, c protocol.Configure, t *worker.Teller) (worker.Locker, error) {
	o := &redis.Options{Addr: c.Store.Addr, MaxRetries: -1} // else a call whose answer is lost is sent twice, and told of once
	return &myLock{redis.NewClient(o), c.Store.Prefix, t}, nil
}

func (m *myLock) Acquire(ctx context.Context, w worker.Want) (worker.Held, error) {
	p, sent, token := w.Lock.Policy, time.Now(), rand.Text()
	h := &held{m, m.prefix + w.Key, token, claims.Holder{Lock: w.Lock.Name, Key: w.Key, Epoch: lockcore.Fingerprint(token)}, nil, nil}
	_, err := m.tell.Call(h.who, lockcore.OpAcquire, p.TTL, func() (int64, error) {
		taken, err := m.redis.SetNX(ctx, h.key, token, p.TTL).Result()
		if err == nil && !taken {
			err = &lockcore.HeldError{}
		}
		return 0, err
	})
	if lockcore.ResultOf(err) == lockcore.Unknown {
		err = errors.Join(err, h.giveBack(context.WithoutCancel(ctx), lockcore.OpUndo))
	}
	if err != nil {
		return nil, err
	}
	h.ctx, h.stop = context.WithDeadline(context.WithoutCancel(ctx), sent.Add(p.TTL-p.Drift-p.StopBudget))
	context.AfterFunc(h.ctx, func() {
		if errors.Is(h.ctx.Err(), context.DeadlineExceeded) {
			m.tell.Act(h.who, lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonDeadline, Working: true})
		}
	})
	return h, nil
}

type held struct {
	*myLock
	key, token string
	who        claims.Holder
	ctx        context.Context // ends with the lease
	stop       context.CancelFunc
}

var deleteOurs = redis.NewScript(`return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0`)

func (h *held) giveBack(ctx context.Context, op lockcore.Op) error {
	_, err := h.tell.Call(h.who, op, 0, func() (int64, error) {
		n, err := deleteOurs.Run(ctx, h.redis, []string{h.key}, h.token).Int()
		if err == nil && n == 0 {
			err = &lockcore.NotOwnedError{}
		}
		return 0, err
	})
	return err
}

func (h *held) Release(ctx context.Context) error {
	h.stop()
	return h.giveBack(ctx, lockcore.OpRelease)
}
func (h *held) Leave()                   { h.stop() }
func (h *held) Context() context.Context { return h.ctx }
func (h *held) Check() error             { return h.ctx.Err() }
func (h *held) Epoch() string            { return h.who.Epoch }
func (h *held) Fence() int64             { return 0 }
