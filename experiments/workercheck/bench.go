package workercheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// Names of the two locks. All jobs are under one key, so that their fences must grow over lives, too.
const (
	jobLock  = "job"
	jobKey   = "check:job"
	loopLock = "loop"
	loopKey  = "check:loop"
)

// stranger is the token of a holder that is no worker.
const stranger = "a-token-of-nobody-that-you-know"

const (
	lineLimit  = time.Second      // for lines that are written to be read, on a machine that is very busy
	endLimit   = 10 * time.Second // for a worker to end when it is told to, as in a drill
	closeLimit = 15 * time.Second // for all that was started to be gone
)

// bench is what a worker is checked on.
type bench struct {
	o       Options
	folder  string
	journal *undo.Journal
	stores  *testbed.Stores
	locks   *redis.Client
	ledger  *redis.Client
	fleet   *testbed.Fleet
	seen    *witness
	lives   []*life
	acts    acts
	watch   sync.WaitGroup
	cease   context.CancelFunc
}

// life is one process of the worker.
type life struct {
	inc     string
	gate    *gate
	started int64
	ready   bool
	stderr  string // the end of what it has said there
}

// openBench puts up the stores. Nothing of the worker runs yet.
func openBench(ctx context.Context, o Options) (b *bench, err error) {
	b = &bench{o: o, seen: newWitness()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.folder, err = os.MkdirTemp("", "lockdrill-worker-check-"); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // a label
	now := time.Now().UTC()
	run := strings.ToLower(rand.Text()[:12])
	b.journal, err = undo.Create(filepath.Join(b.folder, undo.File), undo.Header{
		Run: run, Experiment: "worker-check", Runner: undo.Find(os.Getpid()), Hostname: host, Opened: now, Deadline: now.Add(time.Hour),
	})
	if err != nil {
		return nil, err
	}
	b.stores, err = testbed.OpenStores(ctx, testbed.Options{
		Redis: experiments.Redis{Mode: experiments.RedisAuto}, Run: run, Folder: b.folder, Dir: b.folder, Journal: b.journal,
	})
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		store *testbed.Store
		into  **redis.Client
	}{{b.stores.Locks, &b.locks}, {b.stores.Ledger, &b.ledger}} {
		dial, err := part.store.Options()
		if err != nil {
			return nil, err
		}
		*part.into = redis.NewClient(redisstore.Tune(dial))
	}
	b.fleet = testbed.NewFleet(testbed.FleetOptions{
		Command: o.Command, Env: o.Env, Dir: b.folder, Clock: monotime.Now, Journal: b.journal,
		OnEvents: func(events []history.Event) {
			b.seen.add(func() {
				for _, e := range events {
					b.seen.lines = append(b.seen.lines, line{e, monotime.Now()})
				}
			})
		},
		OnExit: func(e testbed.Exit) { b.seen.add(func() { b.seen.exits[e.Incarnation] = e }) },
	})
	watching, cease := context.WithCancel(context.Background())
	b.cease = cease
	b.watch.Go(func() { b.seen.watchLedger(watching, b.ledger, b.stores.Ledger.Prefix) })
	return b, nil
}

// close ends all that was started. An error that is a LeftError says what is left, and where it is written down.
func (b *bench) close() error {
	var errs []error
	if b.fleet != nil {
		at, cancel := context.WithTimeout(context.Background(), time.Nanosecond) // no grace: it was given, or is not deserved
		errs = append(errs, b.fleet.Stop(at))
		cancel()
	}
	if b.cease != nil {
		b.position(context.Background()) // what was written last
		b.cease()
		b.watch.Wait()
	}
	for _, l := range b.lives {
		l.gate.close()
		l.stderr = b.stderr(l)
	}
	for _, c := range []*redis.Client{b.locks, b.ledger} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if b.stores != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		errs = append(errs, b.stores.Close(ctx))
		cancel()
	}
	if b.journal != nil {
		if err := b.journal.Close(); err != nil {
			return &LeftError{b.folder, errors.Join(append(errs, err)...)}
		}
	}
	if b.folder != "" {
		errs = append(errs, os.RemoveAll(b.folder))
	}
	return errors.Join(errs...)
}

// start starts a life of the worker with these locks, and waits until it is ready, or has ended, or time is up.
func (b *bench) start(ctx context.Context, name string, locks ...protocol.Lock) (*life, error) {
	l := &life{inc: fmt.Sprintf("%s.%d", name, 1+len(b.lives))}
	var err error
	if l.gate, err = newGate(l.inc, b.stores.Locks.Addr, b.gateRules()); err != nil {
		return nil, err
	}
	b.lives = append(b.lives, l)
	store := b.stores.Locks.Endpoint()
	store.Addr = l.gate.addr()
	_, span, err := b.fleet.Start(ctx, protocol.Configure{
		Name: name, Incarnation: l.inc, Seed: int64(len(b.lives)), Store: store, Ledger: b.stores.Ledger.Endpoint(),
		Script: redisstore.EffectScript(), Alone: true, Locks: locks,
	})
	if err != nil && !errors.Is(err, testbed.ErrDead) { // one that is dead already shows in what follows
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	l.started = span.From
	b.seen.await(ctx, b.o.Ready, func() bool {
		l.ready = len(b.seen.of(l.inc, 0, history.ReplicaReady)) > 0
		return l.ready || b.dead(l)
	})
	return l, ctx.Err()
}

// dead reports whether the life has ended. The witness is held.
func (b *bench) dead(l *life) bool { _, dead := b.seen.exits[l.inc]; return dead }

// awaitEnd waits for the end of a life, and ends it where it does not come; it returns how long it took.
func (b *bench) awaitEnd(ctx context.Context, l *life) (took time.Duration, ended bool) {
	began := time.Now()
	ended = b.seen.await(ctx, endLimit, func() bool { return b.dead(l) })
	took = time.Since(began)
	if !ended {
		b.kill(ctx, l)
	}
	return took, ended
}

// kill ends a life without grace.
func (b *bench) kill(ctx context.Context, l *life) {
	_, _ = b.fleet.Signal(l.inc, syscall.SIGKILL) // ErrDead: it has ended
	b.seen.await(ctx, endLimit, func() bool { return b.dead(l) })
}

// say sends a command. A worker that is dead or does not read shows in what follows.
func (b *bench) say(l *life, c protocol.Command) { _ = b.fleet.Send(l.inc, c) }

func (b *bench) offer(l *life, job string, hold time.Duration) {
	b.say(l, protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: jobLock, Job: job, Key: jobKey, Hold: hold}})
}

func (b *bench) gateRules() gateRules {
	prefix := b.stores.Locks.Prefix
	return gateRules{
		lockKey: func(word string) (string, bool) {
			key, ours := strings.CutPrefix(word, prefix)
			return key, ours && slices.Contains([]string{jobKey, loopKey}, key)
		},
		announced: func(life, key string) bool {
			sure := b.heard(life) // first, so that no call that has returned is taken for it
			if b.seen.await(context.Background(), b.o.TTL*15/100, func() bool { return b.seen.pending(life, key) }) {
				return sure
			}
			return b.heard(life)
		},
		look:    b.look,
		record:  func(c *call) { b.seen.add(func() { b.seen.calls = append(b.seen.calls, c) }) },
		replied: func(c *call, at int64, after keyState) { b.seen.add(func() { c.Replied, c.After = at, after }) },
	}
}

// heard waits until all that a life has written so far has come; false = that is not sure.
func (b *bench) heard(life string) bool {
	for until := time.Now().Add(lineLimit); !b.fleet.Delivered(life); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(until) {
			return false
		}
	}
	return true
}

// look is the state of a key now, asked past the gate.
func (b *bench) look(key string) (k keyState) {
	from := monotime.Now()
	defer func() { k.Span = history.Span{From: from, To: monotime.Now()} }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	name := b.stores.Locks.Prefix + key
	var token *redis.StringCmd
	var ttl *redis.DurationCmd
	_, err := b.locks.TxPipelined(ctx, func(p redis.Pipeliner) error {
		token, ttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return keyState{Err: err}
	}
	return keyState{Token: token.Val(), PTTL: ttl.Val()}
}

// put makes the key a stranger's.
func (b *bench) put(ctx context.Context, key string, ttl time.Duration) error {
	defer b.touch(key, monotime.Now())
	return b.locks.Set(ctx, b.stores.Locks.Prefix+key, stranger, ttl).Err()
}

func (b *bench) clear(ctx context.Context, key string) error {
	defer b.touch(key, monotime.Now())
	return b.locks.Del(ctx, b.stores.Locks.Prefix+key).Err()
}

// touch notes what was done to a key past the gate.
func (b *bench) touch(key string, from int64) {
	b.seen.add(func() {
		b.seen.touched = append(b.seen.touched, touched{key, history.Span{From: from, To: monotime.Now()}})
	})
}

// position is how many effects the ledger has; all of them have been seen.
func (b *bench) position(ctx context.Context) int64 {
	n, err := b.ledger.XLen(ctx, redisstore.KeysOf(b.stores.Ledger.Prefix).Entries).Result()
	if err == nil {
		b.seen.await(ctx, b.o.TTL, func() bool { return int64(len(b.seen.effects)) >= n })
	}
	return n
}

// policy is that of both locks: class standard, all times from the TTL.
func (b *bench) policy() lockcore.Policy {
	ttl := b.o.TTL
	return lockcore.Policy{
		TTL: ttl, RenewEvery: ttl / 4, Class: lockcore.Standard, OpTimeout: ttl / 5, StopBudget: ttl / 10,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: ttl / 5, AfterAbandon: lockcore.AfterAbandonSkip},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: ttl / 5},
	}
}

func (b *bench) jobs() protocol.Lock { return protocol.Lock{Name: jobLock, Policy: b.policy()} }

func (b *bench) loop() protocol.Lock {
	p := b.policy()
	p.Loop = &lockcore.Loop{Poll: b.o.TTL / 5, Mode: lockcore.LoopRenewed, Tick: b.o.TTL / 50}
	return protocol.Lock{Name: loopLock, Key: loopKey, Policy: p}
}

// stderr is the end of what a life has said on its standard error.
func (b *bench) stderr(l *life) string {
	data, err := os.ReadFile(filepath.Join(b.folder, l.inc+".stderr"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
