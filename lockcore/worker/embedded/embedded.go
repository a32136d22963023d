// Package embedded is the replica that ships with drills: package worker on the locks of package client, on any store that this build
// knows, with faults inside of it and metrics of its own.
//
// It knows nothing of jobs, loops or ledgers, which package worker does. Its one invariant: no fault that was armed in it outlives it.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/metrics"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/lockcore/work"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

const closeLimit = 5 * time.Second // of the lock clients

// Options are what a replica's surroundings decide; zero values do.
type Options struct {
	Metrics string         // host:port where it serves its metrics; "" = a free port of loopback
	Exit    func(code int) // ends the process at once, for the command crash; nil = os.Exit

	Wrong Wrong // of locks that are wrong on purpose (package mutants); the zero Wrong is the core

	open opener // nil = batched
}

// Wrong is where a worker departs from the core.
type Wrong struct {
	Attempt func(lockcore.Policy) lockcore.Attempt                                   // nil = the core's machine
	Token   func() string                                                            // nil = a fresh one for each acquire
	Store   func(core lockcore.Store, c *redis.Client, prefix string) lockcore.Store // nil = the core's
	Ledger  func(core lockcore.Ledger, locks *redis.Client, prefix string) lockcore.Ledger
	Tell    func(e history.Event, hand func(history.Event)) // hands on what is to be heard of an event; nil = the truth
	Work    work.Wrong
}

// replica is the worker.Locker of a running replica.
type replica struct {
	*faults
	who     protocol.Configure
	teller  *worker.Teller
	open    opener
	wrong   Wrong
	locked  *Connection   // to the locks' store
	redis   *redis.Client // of the locks, where that is a Redis
	locks   map[string]*lock
	metrics string // where to serve them
	shown   *exposition
}

// lock is one lock of the experiment, with the client that takes it.
type lock struct {
	client *client.Client
	store  lockcore.Store
	counts *metrics.Lock
}

// Run is a replica, as worker.Run says, on the locks of package client.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	r := &replica{open: o.open, wrong: o.Wrong, metrics: o.Metrics, locks: map[string]*lock{}}
	if r.open == nil {
		r.open = batched
	}
	of := worker.Options{Exit: o.Exit, Tell: o.Wrong.Tell, Work: o.Wrong.Work}
	if o.Wrong.Ledger != nil {
		of.Ledger = func(core lockcore.Ledger) lockcore.Ledger { return o.Wrong.Ledger(core, r.redis, r.who.Store.Prefix) }
	}
	return worker.Run(ctx, in, out, r.start, of)
}

// start opens the locks once their store has answered.
func (r *replica) start(ctx context.Context, who protocol.Configure, t *worker.Teller) (_ worker.Locker, err error) {
	r.who, r.teller = who, t
	r.faults = newFaults(who.Incarnation, who.Seed, t.Say)
	if who.Alone {
		r.open = alone
	}
	if r.locked, err = r.dialStore(who.Store); err != nil {
		return nil, err
	}
	if err = worker.Answers(ctx, "locks", r.locked.Ping); err == nil {
		r.shown, err = expose(r.metrics)
	}
	if err != nil {
		return nil, errors.Join(err, r.locked.Close())
	}
	if err = r.openLocks(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openLocks gives each lock a store of its own: calls that hang must not hold up another lock's.
func (r *replica) openLocks() error {
	for _, p := range r.who.Locks {
		l := &lock{store: r.locked.Store(), counts: r.shown.For(metrics.Labels{Namespace: p.Name, Profile: p.Profile, Policy: string(p.Policy.Class)})}
		var err error
		l.client, err = client.New(client.Options{
			Store: wrapStore(r.storeOf(l), p.Name, r.faults), Attempt: r.wrong.Attempt, Token: r.wrong.Token, Policy: p.Policy, Lock: p.Name,
			Clock: r.clock, Source: r.who.Incarnation, Seed: worker.Seed(r.who, p.Name), Metrics: l.counts, Emit: r.teller.Say,
		})
		if err != nil {
			return fmt.Errorf("open lock %q: %w", p.Name, err)
		}
		r.locks[p.Name] = l
	}
	return nil
}

// storeOf is what the lock's client calls.
func (r *replica) storeOf(l *lock) lockcore.Store {
	if r.wrong.Store == nil {
		return l.store
	}
	return r.wrong.Store(l.store, r.redis, r.who.Store.Prefix)
}

// Acquire implements worker.Locker.
func (r *replica) Acquire(ctx context.Context, w worker.Want) (worker.Held, error) {
	h, err := r.locks[w.Lock.Name].client.Acquire(client.WithClass(ctx, w.Class), w.Key)
	switch {
	case errors.Is(err, client.ErrBusy), errors.Is(err, client.ErrReentrant):
		return nil, fmt.Errorf("%w: %w", worker.ErrBusy, err)
	case err != nil:
		return nil, err
	}
	return h, nil
}

// Metrics implements worker.Shower.
func (r *replica) Metrics() string { return r.shown.addr }

// StaleWrite implements worker.StaleCounter.
func (r *replica) StaleWrite(lock string, refused bool) { r.locks[lock].counts.StaleWrite(refused) }

// Close ends the faults and the lock clients; all work has stopped.
func (r *replica) Close() error {
	r.faults.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var errs []error
	for _, l := range r.locks {
		errs = append(errs, l.client.Close(ctx))
	}
	_ = r.locked.Close() // what a lock client could not wait for ends now
	for _, l := range r.locks {
		if s, ok := l.store.(io.Closer); ok {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, r.shown.close())
	return errors.Join(errs...)
}

// newClient makes the connections to a Redis; it does not dial yet.
func newClient(e protocol.Endpoint) (*redis.Client, error) {
	o, err := endpoint.Options(e)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(redisstore.Tune(o)), nil
}
