// Command goworker is a lockdrill worker whose lock is a library that people use, as in `goworker redsync`; or `goworker control`, a lock
// that does what docs/worker-protocol.md asks for. It knows leader loops (renewed and explicit). The library is used at its defaults and as
// its documents show; this file only says each call before it is made.
package main

import (
	"bufio"
	"context"
	"encoding/json"
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

// library connects to its store, and then makes a Lock for each acquisition.
type library func(ctx context.Context, w *worker) (func(h *hold) Lock, error)

var libraries = map[string]library{
	"client-go":         onLease(false),
	"client-go-release": onLease(true),
	"control":           onRedis(newControl),
	"etcd-election":     onEtcd(newElection),
	"etcd-mutex":        onEtcd(newMutex),
	"pg-advisory":       openAdvisory,
	"redislock":         onRedis(newRedislock),
	"redsync":           onRedis(newRedsync),
	"setnx":             onRedis(newSetnx),
}

// onRedis connects a library of Redis.
func onRedis(lock func(c *redis.Client, key, token string, p Policy) Lock) library {
	return func(ctx context.Context, w *worker) (func(h *hold) Lock, error) {
		// go-redis waits 5 s for a connection and 3 s for a reply, beside redsync's lease of 8 s: in the same proportion to the TTL.
		of := func(d time.Duration) time.Duration {
			return d / 8 * (w.c.Configure.Locks[0].Policy.TTL / time.Millisecond) / 1000
		}
		at := w.c.Configure.Store
		c := redis.NewClient(&redis.Options{Addr: at.Addr, DialTimeout: of(5 * time.Second), ReadTimeout: of(3 * time.Second), WriteTimeout: of(3 * time.Second)})
		return func(h *hold) Lock { return lock(c, at.Prefix+h.l.Key, h.token, h.l.Policy) }, c.Ping(ctx).Err()
	}
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
		Store                     struct {
			Addr, Prefix, User, Database, Kubeconfig, Context, Namespace string
			Addrs                                                        []string
		}
		Ledger struct{ Addr, Prefix string }
		Locks  []lock
	}
	Offer offer
	Arm   struct {
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
	c      command
	lock   func(h *hold) Lock
	ledger *redis.Client
	ops    atomic.Int64
	out    sync.Mutex
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

// loop is a leader loop: who has the key does one tick every poll, the others ask once every poll. r1 asks first, so that a drill knows
// who waits.
func (w *worker) loop(ctx context.Context, l lock) {
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
			h = w.seek(ctx, l)
		}
		if h != nil && (!h.tick(ctx) || l.Policy.Loop.Mode == "explicit") {
			h.release()
			h = nil
		}
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	name := os.Args[len(os.Args)-1]
	w, open, begin := &worker{}, libraries[name], queues[name]
	if open == nil && begin == nil {
		fmt.Fprintln(os.Stderr, "usage: goworker LIBRARY")
		os.Exit(2)
	}
	var work sync.WaitGroup
	var add func(o offer) error
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
				var err error
				if open != nil {
					w.lock, err = open(ctx, w)
				} else {
					add, err = begin(ctx, w)
				}
				if err != nil {
					fmt.Fprintln(os.Stderr, "connect:", err)
					os.Exit(1)
				}
				w.say("replica.ready", 0, event{"replica": event{"name": c.Configure.Name, "incarnation": c.Configure.Incarnation, "pid": os.Getpid()}})
				for _, l := range c.Configure.Locks {
					if open == nil {
						break // a queue
					}
					work.Go(func() { w.loop(ctx, l) })
				}
			case "offer":
				if err := add(c.Offer); err != nil {
					fmt.Fprintln(os.Stderr, "add:", err) // the job is lost, as for any caller that does not ask again
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
