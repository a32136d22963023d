package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// The scripts of the lock. The fence is minted and kept in the script that sets the key: max(last + 1, the server's microseconds).
const (
	acquireScript = `local t = redis.call('TIME')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])} end
local fence = math.max(t[1] * 1000000 + t[2], (redis.call('GET', KEYS[2]) or 0) + 1)
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return string.format('%.0f', fence)`
	renewScript   = `local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return v or ''`
	releaseScript = `local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('DEL', KEYS[1]) end return v or ''`
)

// Linux's clocks: the first is the runner's as well, the second goes on while the machine is suspended.
const (
	monotonic = 1
	boottime  = 7
)

func clock(id uintptr) int64 {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// Hold is one acquisition of a key, from its attempt to its release.
type Hold struct {
	w            *Worker
	p            Policy
	key, fenceOf string
	token        string
	name         Event // what all of its events name
	begun        bool  // begin was written
	lost         context.Context
	giveUp       context.CancelFunc
	told         sync.Once
	ended        chan struct{} // the work has: no more renewals
	renewals     sync.WaitGroup

	mu            sync.Mutex
	valid, onBoot int64 // ends of the lease that may be relied on
}

func (w *Worker) hold(l Lock, key string) *Hold {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // a token is never used twice
	h := &Hold{w: w, p: l.Policy, key: w.store.at.Prefix + key, token: hex.EncodeToString(raw), ended: make(chan struct{})}
	h.fenceOf = "{" + h.key + "}:fence" // one slot of a cluster
	h.name = Event{Lock: l.Name, Key: key, Epoch: fingerprint(h.token)}
	h.lost, h.giveUp = context.WithCancel(context.Background())
	return h
}

func fingerprint(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])[:12]
}

// call announces, makes and reports one call.
func (h *Hold) call(what string, timeout time.Duration, script string, attempt int, args ...any) (reply any, err error) {
	e := h.name
	e.Op, e.Call = h.w.op(), &Call{Attempt: attempt, Demand: what == "acquire"}
	if what == "acquire" || what == "renew" {
		e.Call.TTL = int64(h.p.TTL)
	}
	boot := clock(boottime)
	e.From = h.w.say(what+".invoke", e)
	reply, err = h.w.store.Call(timeout, append([]any{"EVAL", script, 2, h.key, h.fenceOf, h.token}, args...)...)
	body := *e.Call
	e.Call, body.Demand = &body, false
	held, refused := reply.([]any)
	fence, granted := reply.(string)
	switch {
	case errors.Is(err, errRefused): // the script did not run, or not to its end: as bad as no answer
		e.Outcome, body.Result, body.Err = "unknown", "error", "refused by the server"
	case err != nil:
		e.Outcome, body.Result, body.Err = "unknown", "error", "no answer"
	case refused && len(held) == 2:
		e.Outcome, body.Result = "fail", "held"
		token, _ := held[0].(string)
		left, _ := held[1].(int64)
		body.Holder, body.PTTL = fingerprint(token), left*int64(time.Millisecond)
	case what == "acquire" && granted:
		e.Outcome, body.Result = "ok", "granted"
		h.name.Fence, err = strconv.ParseInt(fence, 10, 64)
		e.Fence = h.name.Fence
	case reply == int64(1):
		e.Outcome, body.Result = "ok", map[string]string{"renew": "renewed"}[what]
		if body.Result == "" {
			body.Result = "released"
		}
	default:
		e.Outcome, body.Result = "fail", "other"
		if reply == "" {
			body.Result = "absent"
		}
	}
	if e.Outcome == "ok" && body.TTL > 0 { // a lease counts from when it was asked for
		h.mu.Lock()
		h.valid, h.onBoot = e.From+int64(h.p.TTL-h.p.Drift), boot+int64(h.p.TTL-h.p.Drift)
		h.mu.Unlock()
	}
	h.w.say(what+".return", e)
	return reply, err
}

// Results of acquire.
const (
	granted = iota
	busy
	unclear
)

func (h *Hold) acquire() int {
	reply, err := h.call("acquire", h.p.Acquire.Timeout, acquireScript, 1, h.p.TTL.Milliseconds())
	if err != nil { // it may have been granted: it is given back, so that it is nobody's for the whole TTL
		for until := time.Now().Add(h.p.TTL); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			if _, err := h.call("undo", h.p.OpTimeout, releaseScript, 1); err == nil {
				break
			}
		}
		return unclear
	}
	if _, ok := reply.(string); !ok {
		return busy
	}
	h.renewals.Add(1)
	go h.keep()
	return granted
}

// left is how long the work may go on.
func (h *Hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Duration(min(h.valid-clock(monotonic), h.onBoot-clock(boottime))) - h.p.StopBudget
}

// check is asked before every effect: whoever was paused is here before the goroutine that renews.
func (h *Hold) check() bool {
	if h.lost.Err() == nil && h.left() <= 0 {
		h.lose("deadline")
	}
	return h.lost.Err() == nil
}

func (h *Hold) lose(reason string) {
	h.told.Do(func() {
		h.giveUp()
		for _, kind := range []string{"fence.observed", "abandon"} {
			e := h.name
			e.Abandon = &Abandon{Reason: reason}
			h.w.say(kind, e)
		}
	})
}

// keep renews until the work has ended, or the lock is lost, or time is up: no call outlasts what is left of the lease.
func (h *Hold) keep() {
	defer h.renewals.Done()
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
		if !h.check() {
			return
		}
		if time.Now().Before(due) {
			continue
		}
		due = time.Now().Add(every)
		reply, err := h.call("renew", min(h.p.OpTimeout, h.left()), renewScript, 1, h.p.TTL.Milliseconds())
		if err == nil && reply != int64(1) {
			h.lose("not_owned")
		}
	}
}

// release gives the key back. The work has stopped; the renewals stop first.
func (h *Hold) release() {
	close(h.ended)
	h.renewals.Wait()
	lost, r := h.lost.Err() != nil, h.p.Release
	switch {
	case lost && r.AfterAbandon != "if_work_stopped":
		h.skip("after_abandon")
		return
	case r.Mode == "none":
		h.skip("ttl_hold")
		return
	}
	for attempt := 1; attempt <= max(1, r.Attempts); attempt++ {
		if _, err := h.call("release", r.Timeout, releaseScript, attempt); err == nil {
			return
		}
	}
}

// leave is after a tick under ttl_hold: the key stays until its lease runs out.
func (h *Hold) leave() {
	close(h.ended)
	h.renewals.Wait()
	h.skip("ttl_hold")
	time.AfterFunc(h.left()+h.p.StopBudget, func() {
		e := h.name
		e.Abandon = &Abandon{Reason: "expired"}
		h.w.say("fence.observed", e)
	})
}

func (h *Hold) skip(why string) {
	e := h.name
	e.Call = &Call{Why: why}
	h.w.say("release.skipped", e)
}
