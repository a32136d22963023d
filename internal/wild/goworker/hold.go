package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Lock is one acquisition by a library. An error that is none of those below leaves open whether the call took effect.
type Lock interface {
	Acquire(ctx context.Context) error
	Extend(ctx context.Context) error
	Release(ctx context.Context) error
}

var (
	errHeld = errors.New("held by another")
	errLost = errors.New("not ours any more")
	errGone = fmt.Errorf("%w: nobody has it", errLost)
	errSure = errors.New("surely without effect")
)

// Fenced is a Lock with a fence; Named is one whose grant the store names (empty: not known); Leased is one that knows how long it may be relied on; Kept is one
// that renews itself, and says each renewal; Undoer is one that gives an unclear acquire back; Ender is one that
// gives back by itself, and says so.
type (
	Fenced interface{ Fence() int64 }
	Named  interface{ ID() string }
	Leased interface{ Left() time.Duration }
	Kept   interface {
		Lost() <-chan struct{}
		Owed() time.Duration // after a grant or a renewal, what may be relied on: who has waited has a lease that is partly over
	}
	Undoer interface {
		Undo(ctx context.Context) error
	}
	Ender interface{ End() }
)

// hold is one acquisition, from its attempt to its release.
type hold struct {
	w      *worker
	l      lock
	lib    Lock
	token  string
	named  atomic.Pointer[event] // see name
	begun  any                   // the epoch of which the first effect was written
	asks   *claim                // its acquire, until that is over
	lost   context.Context
	lose   context.CancelFunc
	told   sync.Once
	ended  context.Context
	end    context.CancelFunc
	keeper sync.WaitGroup
}

// name is what its events are called by: its lock, its epoch and, where it has one, its fence.
func (h *hold) name() event { return *h.named.Load() }

// another is the name of a new epoch, and the token that it stands for.
func (l lock) another() (name event, token string) {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	token = hex.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	return event{"lock": l.Name, "key": l.Key, "epoch": hex.EncodeToString(sum[:])[:12]}, token
}

// claim is a call that was announced.
type claim struct {
	what, op string
	name     event
	from     int64
	body     event
}

func (h *hold) announce(what string, name event) *claim {
	c := &claim{what: what, op: h.w.op(), name: name, body: event{"attempt": 1}}
	if what == "acquire" || what == "renew" {
		c.body["ttl"] = int64(h.l.Policy.TTL)
	}
	if what == "acquire" {
		c.body["demand"] = true
	}
	c.from = h.w.say(what+".invoke", 0, name, event{"op": c.op, "call": c.body})
	delete(c.body, "demand")
	return c
}

func (h *hold) report(c *claim, err error) {
	if k, ok := h.lib.(Kept); ok && c.body["ttl"] != nil {
		c.body["ttl"] = int64(k.Owed())
	}
	outcome := "ok"
	switch {
	case err == nil:
		c.body["result"] = map[string]string{"acquire": "granted", "renew": "renewed"}[c.what]
		if c.what == "release" || c.what == "undo" {
			c.body["result"] = "released"
		}
		if f, ok := h.lib.(Fenced); ok && c.what == "acquire" {
			c.name["fence"] = f.Fence()
		}
	case errors.Is(err, errHeld):
		outcome, c.body["result"] = "fail", "held"
	case errors.Is(err, errGone):
		outcome, c.body["result"] = "fail", "absent"
	case errors.Is(err, errLost):
		outcome, c.body["result"] = "fail", "other"
	default:
		outcome, c.body["result"], c.body["err"] = "unknown", "error", err.Error()
		if errors.Is(err, errSure) {
			outcome = "fail"
		}
	}
	if n, ok := h.lib.(Named); ok && c.what == "acquire" {
		c.body["id"] = n.ID()
	}
	h.w.say(c.what+".return", c.from, c.name, event{"op": c.op, "outcome": outcome, "call": c.body})
}

// call announces, makes and reports one call of the library.
func (h *hold) call(what string, do func() error) error {
	c := h.announce(what, h.name())
	err := do()
	h.report(c, err)
	return err
}

// unclear reports what the acquire has come to so far, of which nobody knows whether it took effect, and announces another.
func (h *hold) unclear(err error) {
	h.report(h.asks, err)
	name, _ := h.l.another()
	h.named.Store(&name)
	h.asks = h.announce("acquire", name)
}

// again is the acquire of a library that has lost the key, and takes it anew while its work goes on.
func (h *hold) again(do func() error) error {
	name, _ := h.l.another()
	c := h.announce("acquire", name)
	err := do()
	if err == nil {
		h.w.say("fence.observed", 0, h.name(), event{"abandon": event{"reason": "not_owned"}})
		h.named.Store(&name)
	}
	h.report(c, err)
	return err
}

// seek takes the key, or gives nil. Every attempt has a token of its own.
func (w *worker) seek(ctx context.Context, l lock) *hold {
	name, token := l.another()
	h := &hold{w: w, l: l, token: token}
	h.named.Store(&name)
	h.lib = w.lock(h)
	h.asks = h.announce("acquire", name)
	err := h.lib.Acquire(ctx)
	h.report(h.asks, err)
	if err != nil {
		if u, ok := h.lib.(Undoer); ok && !errors.Is(err, errHeld) {
			for until := time.Now().Add(l.Policy.TTL); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
				if err := h.call("undo", func() error { return u.Undo(ctx) }); err == nil || errors.Is(err, errLost) {
					break
				}
			}
		}
		return nil
	}
	h.lost, h.lose = context.WithCancel(context.Background())
	h.ended, h.end = context.WithCancel(context.Background())
	h.keeper.Add(1)
	go h.keep()
	return h
}

// keep extends every renew_every. A failed extension ends the work, as in the documents of these libraries; a lock that knows its lease
// (Leased) goes on to ask until the lease is over. A lock that renews itself (Kept) says when it is lost.
func (h *hold) keep() {
	defer h.keeper.Done()
	if kept, ok := h.lib.(Kept); ok {
		select {
		case <-h.ended.Done():
		case <-kept.Lost():
			h.giveUp("not_owned")
		}
		return
	}
	leased, _ := h.lib.(Leased)
	for due := time.Now().Add(h.l.Policy.RenewEvery); ; {
		wait := time.Until(due)
		if leased != nil {
			wait = min(wait, leased.Left())
		}
		select {
		case <-h.ended.Done():
			return
		case <-h.lost.Done():
			return
		case <-time.After(wait):
		}
		if !h.check() {
			return
		}
		if time.Now().Before(due) {
			continue
		}
		due = time.Now().Add(h.l.Policy.RenewEvery)
		if err := h.call("renew", func() error { return h.lib.Extend(h.ended) }); err != nil && (leased == nil || errors.Is(err, errLost)) && h.ended.Err() == nil {
			h.giveUp("not_owned")
		}
	}
}

// check is asked before every effect: a lock that knows its lease ends the work in time, another one only by a failed extension.
func (h *hold) check() bool {
	if leased, ok := h.lib.(Leased); ok && h.lost.Err() == nil && leased.Left() <= 0 {
		h.giveUp("deadline")
	}
	return h.lost.Err() == nil
}

func (h *hold) giveUp(reason string) {
	h.told.Do(func() {
		h.lose()
		for _, kind := range []string{"fence.observed", "abandon"} {
			h.w.say(kind, 0, h.name(), event{"abandon": event{"reason": reason}})
		}
	})
}

// release is what `defer lock.Release()` does: also after the lock was lost. A Leased lock leaves a lost one alone, and asks again.
func (h *hold) release() {
	h.end()
	h.keeper.Wait()
	if e, ok := h.lib.(Ender); ok {
		e.End()
		return
	}
	_, leased := h.lib.(Leased)
	if leased && h.lost.Err() != nil {
		h.w.say("release.skipped", 0, h.name(), event{"call": event{"why": "after_abandon"}})
		return
	}
	for range 3 {
		err := h.call("release", func() error { return h.lib.Release(context.Background()) })
		if err == nil || errors.Is(err, errLost) || !leased {
			return
		}
	}
}

// effect is what is written to the ledger.
type effect struct {
	subject, state string
	loop, terminal bool
}

// write makes one effect; false = the work must end.
func (h *hold) write(e effect) bool {
	w, p, op := h.w, h.w.c.Configure.Ledger.Prefix+"{ledger}:", h.w.op()
	body := event{"subject": e.subject, "state": e.state, "terminal": e.terminal}
	for range 3 {
		if !h.check() {
			return false
		}
		name := h.name()
		fence, _ := name["fence"].(int64)
		from := w.say("write.invoke", 0, name, event{"op": op, "write": body})
		reply, err := w.ledger.Eval(context.Background(), w.c.Configure.Script, []string{p + "entries", p + "marks", p + "subjects", p + "answers"},
			name["key"], e.subject, flag(e.loop), e.state, flag(e.terminal), name["epoch"], fence, op, w.c.Configure.Incarnation, flag(h.l.Unfenced || fence == 0), flag(h.l.Strict)).Slice()
		if err != nil || len(reply) != 6 {
			w.say("write.return", from, name, event{"op": op, "outcome": "unknown", "write": body})
			continue
		}
		accepted := reply[1] == int64(1)
		w.say("write.return", from, name, event{"op": op, "outcome": "ok", "write": event{
			"subject": e.subject, "state": e.state, "terminal": e.terminal, "accepted": accepted, "reason": reply[2], "current": reply[3]}})
		return accepted
	}
	return false
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tick does one tick's work under h; false = the lock is no use any more.
func (h *hold) tick(ctx context.Context) bool {
	name, op, why := h.name(), h.w.op(), "fenced"
	h.w.say("work.enter", 0, name, event{"op": op, "work": event{"subject": h.l.Name}})
	if h.begun != name["epoch"] && h.write(effect{h.l.Name, "begin", true, false}) {
		h.begun = name["epoch"]
	}
	if h.begun == name["epoch"] && h.write(effect{h.l.Name, "tick", true, false}) {
		select {
		case <-time.After(h.l.Policy.Loop.Tick):
			why = "done"
		case <-h.lost.Done():
		case <-ctx.Done():
			why = "stopped"
		}
	}
	h.w.say("work.exit", 0, name, event{"op": op, "work": event{"subject": h.l.Name, "why": why}})
	return why == "done"
}
