package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

// The scripts of the lock. The fence is minted and kept in the script that sets the key: max(last + 1, the server's microseconds).
var (
	acquireScript = redis.NewScript(`local t = redis.call('TIME')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} end
local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return string.format('%.0f', fence)`)
	renewScript   = redis.NewScript(`local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return v or ''`)
	releaseScript = redis.NewScript(`local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('DEL', KEYS[1]) end return v or ''`)
)

// hold is one acquisition of a key, from its attempt to its release.
type hold struct {
	*locks
	p        lockcore.Policy
	key      string
	token    string
	who      claims.Holder // whom its events name
	lost     context.Context
	giveUp   context.CancelFunc
	told     sync.Once
	ended    chan struct{} // the work has: no more renewals
	renewals sync.WaitGroup

	mu    sync.Mutex
	valid time.Time // until when the lease may be relied on
}

// Acquire seeks the key as its policy says. Every attempt has a token of its own.
func (l *locks) Acquire(ctx context.Context, w worker.Want) (worker.Held, error) {
	p := w.Lock.Policy
	for until := time.Now().Add(p.Acquire.Budget); ; {
		token := rand.Text()
		h := &hold{locks: l, p: p, key: l.prefix + w.Key, token: token, ended: make(chan struct{})}
		h.who = claims.Holder{Lock: w.Lock.Name, Key: w.Key, Epoch: lockcore.Fingerprint(token)}
		err := h.acquire(ctx)
		if err == nil {
			return h, nil
		}
		if p.Acquire.Mode != lockcore.AcquireWait || time.Now().Add(p.Acquire.Backoff.Every).After(until) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(p.Acquire.Backoff.Every):
		}
	}
}

func (h *hold) acquire(ctx context.Context) error {
	fence, err := h.call(ctx, lockcore.OpAcquire, h.p.Acquire.Timeout, acquireScript)
	if err != nil {
		if lockcore.ResultOf(err) == lockcore.Unknown { // it may have been granted: given back, it is nobody's for the whole TTL
			h.undo(context.WithoutCancel(ctx))
		}
		return err
	}
	h.who.Fence = fence
	h.lost, h.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	h.renewals.Go(h.keep)
	return nil
}

// undo is tried until the key would be free by itself, since a release may be lost as well.
func (h *hold) undo(ctx context.Context) {
	for until := time.Now().Add(h.p.TTL); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if _, err := h.call(ctx, lockcore.OpUndo, h.p.OpTimeout, releaseScript); lockcore.ResultOf(err) != lockcore.Unknown {
			return
		}
	}
}

// call makes one call to the store, announced before. A lease that it brings counts from when it was asked for.
func (h *hold) call(ctx context.Context, op lockcore.Op, timeout time.Duration, script *redis.Script) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var ttl time.Duration
	if op == lockcore.OpAcquire || op == lockcore.OpRenew {
		ttl = h.p.TTL
	}
	asked := time.Now()
	fence, err := h.tell.Call(h.who, op, ttl, func() (int64, error) {
		reply, err := script.Eval(ctx, h.redis, []string{h.key, "{" + h.key + "}:fence"}, h.token, ttl.Milliseconds()).Result()
		if err != nil {
			return 0, err
		}
		return answer(op, reply)
	})
	if err == nil && ttl > 0 {
		h.mu.Lock()
		h.valid = asked.Add(h.p.TTL - h.p.Drift)
		h.mu.Unlock()
	}
	return fence, err
}

// answer reads what a script says: the fence of a grant, 1, who has the key and for how long, or who has it instead ("" = nobody).
func answer(op lockcore.Op, reply any) (fence int64, err error) {
	switch r := reply.(type) {
	case int64:
		if r == 1 {
			return 0, nil
		}
	case []any:
		if len(r) == 2 {
			token, _ := r[0].(string)
			left, _ := r[1].(int64)
			return 0, &lockcore.HeldError{Holder: lockcore.Fingerprint(token), PTTL: time.Duration(left) * time.Millisecond}
		}
	case string:
		switch {
		case op == lockcore.OpAcquire:
			return strconv.ParseInt(r, 10, 64)
		case r == "":
			return 0, &lockcore.NotOwnedError{}
		}
		return 0, &lockcore.NotOwnedError{Other: true, Holder: lockcore.Fingerprint(r)}
	}
	return 0, errors.New("the store answered something else")
}

// left is how long the work may go on. The wall clock (Round takes the monotonic one away) goes on while the machine is suspended.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(time.Until(h.valid), time.Until(h.valid.Round(0))) - h.p.StopBudget
}

// Check is asked before every effect: whoever was paused is here before the goroutine that renews.
func (h *hold) Check() error {
	if h.left() <= 0 {
		h.lose(lockcore.ReasonDeadline)
	}
	return h.lost.Err()
}

func (h *hold) lose(why lockcore.Reason) {
	h.told.Do(func() {
		h.giveUp()
		h.tell.Act(h.who, lockcore.Action{Kind: lockcore.ActFence, Reason: why, Working: true})
	})
}

// keep renews until the work has ended, or the lock is lost, or time is up: no call outlasts what is left of the lease.
func (h *hold) keep() {
	every := h.p.RenewEvery
	if every == 0 {
		every = h.p.TTL
	}
	for due := time.Now().Add(every); ; {
		select {
		case <-h.ended:
			return
		case <-h.lost.Done():
			return
		case <-time.After(min(time.Until(due), h.left())):
		}
		if h.Check() != nil {
			return
		}
		if time.Now().Before(due) {
			continue
		}
		due = time.Now().Add(every)
		_, err := h.call(h.lost, lockcore.OpRenew, min(h.p.OpTimeout, h.left()), renewScript)
		if lockcore.ResultOf(err) == lockcore.Other || lockcore.ResultOf(err) == lockcore.Absent {
			h.lose(lockcore.ReasonNotOwned)
		}
	}
}

// stop ends the renewals: the work has stopped.
func (h *hold) stop() {
	close(h.ended)
	h.renewals.Wait()
}

// Release gives the key back.
func (h *hold) Release(ctx context.Context) error {
	h.stop()
	r := h.p.Release
	if h.lost.Err() != nil && r.AfterAbandon != lockcore.AfterAbandonStopped {
		h.skip(lockcore.ReasonAfterAbandon)
		return nil
	}
	if r.Mode == lockcore.ReleaseNone {
		h.skip(lockcore.ReasonTTLHold)
		return nil
	}
	for try := 1; ; try++ {
		_, err := h.call(ctx, lockcore.OpRelease, r.Timeout, releaseScript)
		if lockcore.ResultOf(err) != lockcore.Unknown || try >= r.Attempts {
			return err
		}
	}
}

// Leave leaves the key to its TTL, and says when that is over.
func (h *hold) Leave() {
	h.stop()
	h.skip(lockcore.ReasonTTLHold)
	time.AfterFunc(h.left()+h.p.StopBudget, func() {
		h.tell.Act(h.who, lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonExpired})
	})
}

func (h *hold) skip(why lockcore.Reason) {
	h.tell.Act(h.who, lockcore.Action{Kind: lockcore.ActSkip, Reason: why})
}

func (h *hold) Context() context.Context { return h.lost }
func (h *hold) Epoch() string            { return h.who.Epoch }
func (h *hold) Fence() int64             { return h.who.Fence }
