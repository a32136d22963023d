package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
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
	name   event
	begun  bool
	lost   context.Context
	lose   context.CancelFunc
	told   sync.Once
	ended  context.Context
	end    context.CancelFunc
	keeper sync.WaitGroup
}

// call announces, makes and reports one call of the library.
func (h *hold) call(what string, do func() error) error {
	op, body := h.w.op(), event{"attempt": 1}
	if what == "acquire" || what == "renew" {
		body["ttl"] = int64(h.l.Policy.TTL)
	}
	if what == "acquire" {
		body["demand"] = true
	}
	from := h.w.say(what+".invoke", 0, h.name, event{"op": op, "call": body})
	err := do()
	delete(body, "demand")
	if k, ok := h.lib.(Kept); ok && body["ttl"] != nil {
		body["ttl"] = int64(k.Owed())
	}
	outcome := "ok"
	switch {
	case err == nil:
		body["result"] = map[string]string{"acquire": "granted", "renew": "renewed"}[what]
		if what == "release" || what == "undo" {
			body["result"] = "released"
		}
		if f, ok := h.lib.(Fenced); ok && what == "acquire" {
			h.name["fence"] = f.Fence()
		}
	case errors.Is(err, errHeld):
		outcome, body["result"] = "fail", "held"
	case errors.Is(err, errLost):
		outcome, body["result"] = "fail", "other"
	default:
		outcome, body["result"], body["err"] = "unknown", "error", err.Error()
		if errors.Is(err, errSure) {
			outcome = "fail"
		}
	}
	if n, ok := h.lib.(Named); ok && what == "acquire" {
		body["id"] = n.ID()
	}
	h.w.say(what+".return", from, h.name, event{"op": op, "outcome": outcome, "call": body})
	return err
}

// seek takes the key, or gives nil. Every attempt has a token of its own.
func (w *worker) seek(ctx context.Context, l lock) *hold {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	h := &hold{w: w, l: l, token: hex.EncodeToString(raw)}
	sum := sha256.Sum256([]byte(h.token))
	h.name = event{"lock": l.Name, "key": l.Key, "epoch": hex.EncodeToString(sum[:])[:12]}
	h.lib = w.lock(h)
	err := h.call("acquire", func() error { return h.lib.Acquire(ctx) })
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
			h.w.say(kind, 0, h.name, event{"abandon": event{"reason": reason}})
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
		h.w.say("release.skipped", 0, h.name, event{"call": event{"why": "after_abandon"}})
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
		fence, _ := h.name["fence"].(int64)
		from := w.say("write.invoke", 0, h.name, event{"op": op, "write": body})
		reply, err := w.ledger.Eval(context.Background(), w.c.Configure.Script, []string{p + "entries", p + "marks", p + "subjects", p + "answers"},
			h.name["key"], e.subject, flag(e.loop), e.state, flag(e.terminal), h.name["epoch"], fence, op, w.c.Configure.Incarnation, flag(h.l.Unfenced || fence == 0), flag(h.l.Strict)).Slice()
		if err != nil || len(reply) != 6 {
			w.say("write.return", from, h.name, event{"op": op, "outcome": "unknown", "write": body})
			continue
		}
		accepted := reply[1] == int64(1)
		w.say("write.return", from, h.name, event{"op": op, "outcome": "ok", "write": event{
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
	op, why := h.w.op(), "fenced"
	h.w.say("work.enter", 0, h.name, event{"op": op, "work": event{"subject": h.l.Name}})
	if h.begun = h.begun || h.write(effect{h.l.Name, "begin", true, false}); h.begun && h.write(effect{h.l.Name, "tick", true, false}) {
		select {
		case <-time.After(h.l.Policy.Loop.Tick):
			why = "done"
		case <-h.lost.Done():
		case <-ctx.Done():
			why = "stopped"
		}
	}
	h.w.say("work.exit", 0, h.name, event{"op": op, "work": event{"subject": h.l.Name, "why": why}})
	return why == "done"
}
