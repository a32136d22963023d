// Package worker is a replica of the drill: it obeys the worker protocol, does jobs and loop ticks under locks of package
// client, writes their effects to the ledger, and says everything that it does.
//
// It is no scheduler and judges nothing; what it says are claims. Its one invariant: a line that announces a call is written,
// unbuffered, before the call is made, and nothing of a worker runs after its Run has returned.
package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

const (
	connectLimit = 15 * time.Second      // until both stores must have answered
	connectPause = 50 * time.Millisecond // between attempts
	closeLimit   = 5 * time.Second       // of each lock client
	maxJobs      = 4096                  // at once; an offer above it is not taken, and so is offered again
)

// worker is one running replica.
type worker struct {
	who    protocol.Configure
	open   opener
	wrong  Wrong
	locked *connection   // to the locks' store
	redis  *redis.Client // of the locks, where that is a Redis
	ledger lockcore.Ledger
	locks  map[string]*lock
	faults *faults
	shown  *exposition
	fail   context.CancelCauseFunc // ends everything: the runner cannot be told anything any more
	out    io.Writer
	work   sync.WaitGroup // jobs and loops

	mu   sync.Mutex
	jobs map[string]bool // under way
	ops  int64
}

// lock is one lock of the experiment, with the client that takes it.
type lock struct {
	protocol.Lock
	client   *client.Client
	store    lockcore.Store
	validity *validity
	counts   *metrics.Lock
}

// Options are what a replica's surroundings decide; zero values do.
type Options struct {
	Metrics string         // host:port where it serves its metrics; "" = a free port of loopback
	Exit    func(code int) // ends the process at once, for the command crash; nil = os.Exit

	Wrong Wrong // of locks that are wrong on purpose (package zoo); the zero Wrong is the core

	open opener // nil = batched
}

// Wrong is where a worker departs from the core.
type Wrong struct {
	Attempt func(lockcore.Policy) lockcore.Attempt                                   // nil = the core's machine
	Token   func() string                                                            // nil = a fresh one for each acquire
	Store   func(core lockcore.Store, c *redis.Client, prefix string) lockcore.Store // nil = the core's
	Ledger  func(core lockcore.Ledger, locks *redis.Client, prefix string) lockcore.Ledger
	Tell    func(e history.Event, hand func(history.Event)) // hands on what is to be heard of an event; nil = the truth
}

// crashStatus is what a shell says of a process that SIGKILL ended.
const crashStatus = 137

// Run is a replica: it reads commands from in and writes events to out, one line a Write, until a stop command, the end of in
// (the runner is dead) or ctx; then it cancels work, releases what the policies release, and returns. An error says that the
// replica could not work: no configuration, no store, a command that it does not understand, an out that cannot be written.
// Several goroutines write at once, so that their lines may share a round trip: out must keep lines whole, as a pipe does.
//
// A Read of in that blocks is left to itself when ctx ends first; it ends with in, or with the process.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	if o.open == nil {
		o.open = batched
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	commands := readCommands(ctx, in, fail, o.Exit)
	w := &worker{fail: fail, open: o.open, wrong: o.Wrong, out: out, jobs: map[string]bool{}, locks: map[string]*lock{}}
	first, more := next(ctx, commands)
	switch {
	case !more || first.Cmd == protocol.CmdStop:
		return stopped(ctx)
	case first.Cmd != protocol.CmdConfigure || first.Configure == nil:
		return fmt.Errorf("start worker: first command is %q, want %s", first.Cmd, protocol.CmdConfigure)
	}
	w.who = *first.Configure
	w.faults = newFaults(w.who.Incarnation, w.who.Seed, w.emit)
	if w.who.Alone {
		w.open = alone
	}
	var err error
	if w.locked, err = w.dialStore(w.who.Store); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer w.locked.close()
	ledger, err := newClient(w.who.Ledger)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer ledger.Close()
	if err := connect(ctx, w.locked, ledger); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.ledger = redisstore.NewLedger(ledger, w.who.Ledger.Prefix)
	if o.Wrong.Ledger != nil {
		w.ledger = o.Wrong.Ledger(w.ledger, w.redis, w.who.Store.Prefix)
	}
	if w.shown, err = expose(o.Metrics); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if err := w.openLocks(); err != nil {
		return fmt.Errorf("start worker: %w", errors.Join(err, w.close()))
	}
	w.emit(history.Event{
		Kind: history.ReplicaReady, Span: history.At(monotime.Now()),
		Replica: &history.Replica{Name: w.who.Name, Incarnation: w.who.Incarnation, PID: os.Getpid(), Metrics: w.shown.addr},
	})
	err = w.obey(ctx, commands)
	return errors.Join(err, w.close())
}

// obey starts the loops and carries out commands until the end; then it waits for all work to stop and release.
func (w *worker) obey(ctx context.Context, commands <-chan protocol.Command) error {
	working, stop := context.WithCancel(ctx)
	defer w.work.Wait()
	defer stop()
	for _, l := range w.locks {
		if l.Policy.Loop != nil {
			w.work.Go(func() { w.runLoop(working, l) })
		}
	}
	for {
		c, open := next(ctx, commands)
		if !open || c.Cmd == protocol.CmdStop {
			return stopped(ctx)
		}
		if err := w.carryOut(working, c); err != nil {
			return err
		}
	}
}

func (w *worker) carryOut(ctx context.Context, c protocol.Command) error {
	switch {
	case c.Cmd == protocol.CmdOffer && c.Offer != nil:
		return w.take(ctx, *c.Offer)
	case c.Cmd == protocol.CmdArm && c.Arm != nil:
		w.faults.arm(*c.Arm)
	case c.Cmd == protocol.CmdDisarm && c.Disarm != nil:
		w.faults.disarm(*c.Disarm)
	default:
		return fmt.Errorf("command %q is not understood here, or lacks its body", c.Cmd)
	}
	return nil
}

// openLocks gives each lock a store of its own: calls that hang must not hold up another lock's.
func (w *worker) openLocks() error {
	for _, p := range w.who.Locks {
		l := &lock{
			Lock: p, store: w.locked.store(), validity: newValidity(p.Policy.TTL - p.Policy.Drift),
			counts: w.shown.For(metrics.Labels{Namespace: p.Name, Profile: p.Profile, Policy: string(p.Policy.Class)}),
		}
		var err error
		l.client, err = client.New(client.Options{
			Store: wrapStore(w.storeOf(l), p.Name, w.faults), Attempt: w.wrong.Attempt, Token: w.wrong.Token, Policy: p.Policy, Lock: p.Name, Clock: w.faults.clock,
			Source: w.who.Incarnation, Seed: w.seed(p.Name), Metrics: l.counts,
			Emit: func(e history.Event) {
				l.validity.note(e)
				if w.locked.epoch != nil && e.Kind == history.AcquireReturn && e.Outcome == history.OK && e.Call != nil {
					e.Call.ID = w.locked.epoch(e.Fence)
				}
				w.emit(e)
			},
		})
		if err != nil {
			return fmt.Errorf("open lock %q: %w", p.Name, err)
		}
		w.locks[p.Name] = l
	}
	return nil
}

// storeOf is what the lock's client calls.
func (w *worker) storeOf(l *lock) lockcore.Store {
	if w.wrong.Store == nil {
		return l.store
	}
	return w.wrong.Store(l.store, w.redis, w.who.Store.Prefix)
}

// close ends the faults and the lock clients; all work has stopped.
func (w *worker) close() error {
	w.faults.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var errs []error
	for _, l := range w.locks {
		errs = append(errs, l.client.Close(ctx))
	}
	_ = w.locked.close() // what a lock client could not wait for ends now
	for _, l := range w.locks {
		if s, ok := l.store.(io.Closer); ok {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, w.shown.close())
	return errors.Join(errs...)
}

// emit tells of an event. A line that cannot be written ends the worker: nobody hears it any more.
func (w *worker) emit(e history.Event) {
	e.Source = w.who.Incarnation
	if w.wrong.Tell != nil && e.Kind != history.ReplicaReady {
		w.wrong.Tell(e, w.say)
		return
	}
	w.say(e)
}

// say writes the line.
func (w *worker) say(e history.Event) {
	line, err := history.MarshalEvent(&e)
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil {
		w.fail(fmt.Errorf("%w: write event: %w", errBroken, err))
	}
}

// seed gives each lock random choices of its own, the same in each run with the same seed.
func (w *worker) seed(lock string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, lock)
	return w.who.Seed ^ int64(h.Sum64())
}

// newClient makes the connections to a store; it does not dial yet.
func newClient(e protocol.Endpoint) (*redis.Client, error) {
	o, err := endpoint.Options(e)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(redisstore.Tune(o)), nil
}

// connect waits until both stores answer, at an unhurried pace.
func connect(ctx context.Context, store *connection, ledger *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	for {
		err := errors.Join(named("locks", store.ping(ctx)), named("ledger", ledger.Ping(ctx).Err()))
		if err == nil {
			return nil
		}
		select {
		case <-time.After(connectPause):
		case <-ctx.Done():
			return err
		}
	}
}

func named(store string, err error) error {
	if err != nil {
		return fmt.Errorf("connect to the store of the %s: %w", store, err)
	}
	return nil
}

// errBroken is wrapped by the causes that a worker ends itself for.
var errBroken = errors.New("cannot go on")

// stopped is the error of a worker that has ended: none where others ended it.
func stopped(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errBroken) {
		return err
	}
	return nil
}
