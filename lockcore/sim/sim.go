// Package sim is a world in virtual time: replicas that run the very lockcore.Machine against the very rules table, over a network
// that delays and loses, with a store that can be paused, stopped and emptied, and processes that can be killed and paused.
//
// It judges nothing and decides nothing about a drill; whoever leads one tells it what to do and when. It knows the truth: who
// really worked when, and when the key was really free. Its one invariant: the same seed and the same calls give the same course,
// whether or not anybody records it.
package sim

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/arena"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// Never is the time of what has not happened.
const Never = int64(1<<63 - 1)

// Config is what a world is made of.
type Config struct {
	Seed  uint64
	Locks []Lock
	Net   Net
	// Emit takes what replicas claim and probes see, at the virtual instant of its recording; nil = nobody listens. What an event
	// points to is good until Reset.
	Emit func(history.Event)
	// Looks are the periods of the probes; 0 = no such probe. They look only where Emit is set.
	Looks struct{ Keys, Ledger Sampling }
}

// Sampling is a probe's period and the longest tolerated stretch without a look.
type Sampling struct{ Every, MaxGap time.Duration }

// Lock is a lock as replicas are told of it.
type Lock struct {
	Name     string
	Key      string // loops
	Policy   lockcore.Policy
	Unfenced bool
	Strict   bool
	NoLook   bool
	Variant  lockcore.Variant
	Wrong    work.Wrong
}

// Net is what a message takes in one direction, between replicas and either store, and how late timers are. Loss is the share of
// messages to or from the locks' store that never arrive.
type Net struct {
	Least, Most time.Duration // one way
	Loss        float64
	Late        time.Duration // timers: by up to so much
}

// DefaultNet is a quiet network within one zone.
func DefaultNet() Net {
	return Net{Least: 100 * time.Microsecond, Most: 500 * time.Microsecond, Late: 200 * time.Microsecond}
}

// World is one world. It is not safe for concurrent use.
type World struct {
	cfg      Config
	now      int64
	seq      uint32
	queue    queue
	rng      rng
	draw     func() float64 // rng.share, bound once
	acts     []lockcore.Action
	said     []history.Event // of one action
	calls    arena.Of[call]
	leases   arena.Of[lease]
	tasks    arena.Of[task]
	writes   arena.Of[write]
	lives    arena.Of[replica]
	states   arena.Of[keyState]
	offers   arena.Of[offer]
	bodies   bodies
	opNames  map[[2]string][]string // by what they are of, and by number
	table    *lockcore.Table
	lost     *lockcore.Table           // what a standby has, once it was cut off
	rules    map[string]lockcore.Rules // of locks that have others than the table, by name; made anew with the table
	ledger   *lockcore.LedgerTable
	store    storeState
	keys     map[string]*keyState
	watched  []*keyState
	locks    map[string]*Lock
	replicas map[string]*replica
	order    []*replica
	ways     map[string]*way
	taps     []*armed
	probes   probes
	truth    Truth
	strange  bool   // names has tokens that no acquire was sent with
	names    []name // of tokens, in the order in which they are given out
	ops      int64
	events   int64 // moments that have happened
	emitted  int64
}

// name is a token and its fingerprint.
type name struct{ token, epoch string }

// New returns a world at time 0 in which nothing runs yet.
func New(c Config) *World {
	w := &World{table: lockcore.NewTable()}
	w.draw = w.rng.share
	w.Reset(c)
	return w
}

// Reset begins again as New does, and keeps what was allocated.
func (w *World) Reset(c Config) {
	w.cfg, w.now, w.seq, w.rng, w.ops, w.events, w.emitted = c, 0, 0, rng(mix(c.Seed+1)), 0, 0, 0
	w.queue.reset()
	w.table.Flush()
	w.lost, w.rules = nil, nil
	if w.strange {
		w.strange, w.names = false, nil
	}
	if w.ledger == nil {
		w.ledger = lockcore.NewLedgerTable()
		w.keys, w.locks = map[string]*keyState{}, map[string]*Lock{}
		w.replicas, w.ways = map[string]*replica{}, map[string]*way{}
		w.opNames = map[[2]string][]string{}
	}
	w.ledger.Reset()
	w.store, w.taps, w.watched, w.order = storeState{}, nil, w.watched[:0], w.order[:0]
	clear(w.keys)
	clear(w.locks)
	clear(w.replicas)
	clear(w.ways)
	w.calls.Reset()
	w.leases.Reset()
	w.tasks.Reset()
	w.writes.Reset()
	w.lives.Reset()
	w.states.Reset()
	w.offers.Reset()
	w.bodies.reset()
	w.probes = probes{fresh: w.probes.fresh[:0]}
	w.truth.reset()
	for i := range w.cfg.Locks {
		l := &w.cfg.Locks[i]
		w.locks[l.Name] = l
		if l.Policy.Loop != nil {
			w.Watch(l.Name, l.Key)
		}
	}
}

// Now is the time, ns since the world's beginning.
func (w *World) Now() int64 { return w.now }

// Random is uniform in [0, n), from the world's own randomness.
func (w *World) Random(n int64) int64 { return w.rng.below(n) }

// After has f done d from now.
func (w *World) After(d time.Duration, f func()) {
	w.plan(moment{at: w.now + int64(d), kind: doFunc, fn: f})
}

// Advance lets time pass until the given instant, or until something was emitted, whichever is first. It reports whether the
// instant was reached.
func (w *World) Advance(until int64) bool {
	before := w.emitted
	for at, some := w.queue.next(); some && at <= until; at, some = w.queue.next() {
		if w.emitted != before && at > w.now {
			return w.now >= until
		}
		m := w.queue.pop()
		w.now = max(w.now, at)
		w.happen(&m)
	}
	if w.emitted != before {
		return w.now >= until
	}
	w.now = max(w.now, until)
	return true
}

func (w *World) plan(m moment) {
	w.seq++
	m.seq = w.seq
	w.queue.push(&m)
}

func (w *World) happen(m *moment) {
	w.events++
	if r := m.replica(); r != nil {
		if r.dead || r.paused {
			r.hold(m)
			return
		}
	}
	switch m.kind {
	case doFunc:
		m.fn()
	case atDeadline:
		m.lease.tick(m.gen)
	case atStore:
		w.arrive(m.call)
	case atClient:
		m.call.answered()
	case atLimit:
		m.call.limit()
	case atLater:
		m.call.sendOn()
	case atTask:
		m.task.due(m.gen)
	case atLedger:
		w.effect(m.write)
	case atWriter:
		m.task.written(m.write)
	case atExpiry:
		w.expiry(m.key)
	case atLook:
		w.look(m.key)
	case atRead:
		w.read()
	case atReply:
		w.emit(*m.event)
	case atOffer:
		m.offer.r.take(&m.offer.Offer)
	}
}

// replica is whose process a moment needs; nil = it happens elsewhere.
func (m *moment) replica() *replica {
	switch m.kind {
	case atDeadline:
		return m.lease.r
	case atClient, atLimit, atLater:
		return m.call.lease.r
	case atTask, atWriter:
		return m.task.r
	case atOffer:
		return m.offer.r
	}
	return nil
}

// late is how much later than planned a timer fires.
func (w *World) late() int64 { return w.rng.within(0, w.cfg.Net.Late) }

// flight is how long a message takes, one way.
func (w *World) flight() int64 { return w.rng.within(w.cfg.Net.Least, w.cfg.Net.Most) }

func (w *World) emit(e history.Event) {
	w.emitted++
	w.cfg.Emit(e)
}

func (w *World) recording() bool { return w.cfg.Emit != nil }

// origin is the wall clock at time 0: fences are microseconds of it.
const origin = int64(1_767_225_600)

// server is the locks' store's clock.
func (w *World) server() time.Time { return time.Unix(origin, w.now) }

// Say records an event of whoever leads the drill, like those of replicas and probes.
func (w *World) Say(e history.Event) {
	if w.recording() {
		w.emit(e)
	}
}

// Answers reports whether the locks' store can be connected to now.
func (w *World) Answers() bool { return !w.store.away() }
