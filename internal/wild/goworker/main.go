// Command goworker is a lockdrill worker whose lock is a library that people use: `goworker redsync`, `goworker redislock`, or `goworker
// control`, a lock that does what docs/worker-protocol.md asks for. It knows leader loops (renewed and explicit). The library is used at
// its defaults and as its documents show; this file only says each call before it is made.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
)

// Lock is one acquisition by a library. An error that is neither errHeld nor errLost leaves open whether the call took effect.
type Lock interface {
	Acquire(ctx context.Context) error
	Extend(ctx context.Context) error
	Release(ctx context.Context) error
}

var (
	errHeld = errors.New("held by another")
	errLost = errors.New("not ours any more")
)

// Fenced is a Lock with a fence; Leased is one that knows how long it may be relied on; Undoer is one that gives an unclear acquire back.
type (
	Fenced interface{ Fence() int64 }
	Leased interface{ Left() time.Duration }
	Undoer interface {
		Undo(ctx context.Context) error
	}
)

// libraries make a Lock for one acquisition: client, key, token, policy.
var libraries = map[string]func(*redis.Client, string, string, Policy) Lock{
	"control":   newControl,
	"redislock": newRedislock,
	"redsync":   newRedsync,
	"setnx":     newSetnx,
}

// Policy is what the adapters need of lockcore.Policy, in nanoseconds.
type Policy struct {
	TTL        time.Duration `json:"ttl"`
	RenewEvery time.Duration `json:"renew_every"`
	OpTimeout  time.Duration `json:"op_timeout"`
	StopBudget time.Duration `json:"stop_budget"`
	Loop       *struct {
		Poll, Tick time.Duration
		Mode       string
	}
}

type command struct {
	V         int
	Cmd       string
	Configure struct {
		Name, Incarnation, Script string
		Store, Ledger             struct{ Addr, Prefix string }
		Locks                     []lock
	}
	Arm struct {
		Fault, Op, Mode string
		Shot            int
	}
}

type lock struct {
	Name, Key        string
	Policy           Policy
	Unfenced, Strict bool
}

type event = map[string]any

type worker struct {
	c       command
	library func(*redis.Client, string, string, Policy) Lock
	ledger  *redis.Client
	ops     atomic.Int64
	out     sync.Mutex
}

func now() int64 {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0) // CLOCK_MONOTONIC, the runner's clock as well
	return ts.Nano()
}

// say writes one line at once, and returns its from: what announces a call must be out before the call is made.
func (w *worker) say(kind string, from int64, parts ...event) int64 {
	e := event{"kind": kind, "to": now()}
	if e["from"] = from; from == 0 {
		e["from"] = e["to"]
	}
	for _, p := range parts {
		for k, v := range p {
			e[k] = v
		}
	}
	line, err := json.Marshal(e)
	w.out.Lock()
	defer w.out.Unlock()
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return e["from"].(int64)
}

func (w *worker) op() string { return fmt.Sprintf("%s/%d", w.c.Configure.Incarnation, w.ops.Add(1)) }

// hold is one acquisition, from its attempt to its release.
type hold struct {
	w      *worker
	l      lock
	lib    Lock
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
	}
	h.w.say(what+".return", from, h.name, event{"op": op, "outcome": outcome, "call": body})
	return err
}

// seek takes the key, or gives nil. Every attempt has a token of its own.
func (w *worker) seek(ctx context.Context, store *redis.Client, l lock) *hold {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw)
	token := hex.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	h := &hold{w: w, l: l, lib: w.library(store, w.c.Configure.Store.Prefix+l.Key, token, l.Policy)}
	h.name = event{"lock": l.Name, "key": l.Key, "epoch": hex.EncodeToString(sum[:])[:12]}
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

// keep extends every renew_every. A failed extension ends the work, as in the documents of both libraries; a lock that knows its lease
// (Leased) goes on to ask until the lease is over.
func (h *hold) keep() {
	defer h.keeper.Done()
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

// write makes one effect; false = the work must end.
func (h *hold) write(state string) bool {
	w, p, op := h.w, h.w.c.Configure.Ledger.Prefix+"{ledger}:", h.w.op()
	body := event{"subject": h.l.Name, "state": state, "terminal": false}
	for range 3 {
		if !h.check() {
			return false
		}
		fence, _ := h.name["fence"].(int64)
		from := w.say("write.invoke", 0, h.name, event{"op": op, "write": body})
		reply, err := w.ledger.Eval(context.Background(), w.c.Configure.Script, []string{p + "entries", p + "marks", p + "subjects", p + "answers"},
			h.l.Key, h.l.Name, 1, state, 0, h.name["epoch"], fence, op, w.c.Configure.Incarnation, flag(h.l.Unfenced || fence == 0), flag(h.l.Strict)).Slice()
		if err != nil || len(reply) != 6 {
			w.say("write.return", from, h.name, event{"op": op, "outcome": "unknown", "write": body})
			continue
		}
		accepted := reply[1] == int64(1)
		w.say("write.return", from, h.name, event{"op": op, "outcome": "ok", "write": event{
			"subject": h.l.Name, "state": state, "terminal": false, "accepted": accepted, "reason": reply[2], "current": reply[3]}})
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
	if h.begun = h.begun || h.write("begin"); h.begun && h.write("tick") {
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

// loop is a leader loop: who has the key does one tick every poll, the others ask once every poll. r1 asks first, so that a drill knows
// who waits.
func (w *worker) loop(ctx context.Context, store *redis.Client, l lock) {
	var h *hold
	defer func() {
		if h != nil {
			h.release()
		}
	}()
	due := time.Now()
	if w.c.Configure.Incarnation[:3] != "r1." {
		due = due.Add(l.Policy.Loop.Poll)
	}
	for {
		var lost <-chan struct{}
		if h != nil {
			lost = h.lost.Done()
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			h.release()
			h = nil
			continue
		case <-time.After(time.Until(due)):
		}
		if due = due.Add(l.Policy.Loop.Poll); time.Now().After(due) { // ticks are not made up for
			due = time.Now()
		}
		if h == nil {
			h = w.seek(ctx, store, l)
		}
		if h != nil && (!h.tick(ctx) || l.Policy.Loop.Mode == "explicit") {
			h.release()
			h = nil
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	w := &worker{library: libraries[os.Args[len(os.Args)-1]]}
	if w.library == nil {
		fmt.Fprintln(os.Stderr, "usage: goworker LIBRARY")
		os.Exit(2)
	}
	var work sync.WaitGroup
	go func() {
		defer stop() // the end of standard input is that of the runner
		for lines := bufio.NewReader(os.Stdin); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var c command
			if err := json.Unmarshal(line, &c); err != nil || c.V > 1 {
				fmt.Fprintf(os.Stderr, "not understood: %s", line)
				os.Exit(2)
			}
			switch c.Cmd {
			case "configure":
				w.c = c
				w.ledger = redis.NewClient(&redis.Options{Addr: c.Configure.Ledger.Addr})
				// go-redis waits 5 s for a connection and 3 s for a reply, beside redsync's lease of 8 s: in the same proportion to the TTL.
				of := func(d time.Duration) time.Duration {
					return d / 8 * (c.Configure.Locks[0].Policy.TTL / time.Millisecond) / 1000
				}
				store := redis.NewClient(&redis.Options{Addr: c.Configure.Store.Addr, DialTimeout: of(5 * time.Second), ReadTimeout: of(3 * time.Second), WriteTimeout: of(3 * time.Second)})
				if err := store.Ping(ctx).Err(); err != nil {
					fmt.Fprintln(os.Stderr, "connect:", err)
					os.Exit(1)
				}
				w.say("replica.ready", 0, event{"replica": event{"name": c.Configure.Name, "incarnation": c.Configure.Incarnation, "pid": os.Getpid()}})
				for _, l := range c.Configure.Locks {
					work.Go(func() { w.loop(ctx, store, l) })
				}
			case "arm": // it makes no faults: the shot is void
				kind := c.Arm.Op + "_failures"
				if c.Arm.Op == "clock" {
					kind = c.Arm.Op
				}
				w.say("fault.reverted", 0, event{"op": fmt.Sprintf("%s#%d", c.Arm.Fault, c.Arm.Shot), "fault": event{"id": c.Arm.Fault, "shot": c.Arm.Shot, "kind": kind, "form": c.Arm.Mode}})
			case "crash":
				os.Exit(137)
			case "stop":
				return
			}
		}
	}()
	<-ctx.Done()
	work.Wait()
}
