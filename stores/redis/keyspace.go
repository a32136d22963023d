package redis

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Keyspace watches the lock keys of a system that nobody tells of: some by their names, and whatever fits a pattern.
//
// Where the servers publish keyspace events, a key is read when an event says that it changed, and when its lease is predicted to end: an
// untouched key's own event of that comes seconds late. A ping on the subscription is the barrier between looks: what was published
// before it has arrived. Events are believed only as long as a canary, a key of the run's own that is written again and again, is told
// of on the same server. A slow sweep looks for what no event told. Where there are no events the keys are read in turn.
//
// Its stamps are its own. Holder may be called at any time; looks are made one after the other.
type Keyspace struct {
	o     KeyspaceOptions
	ask   reader // who holds a key now
	names witness.Names

	mu     sync.Mutex // guards keys and what is in them, of which Now reads: looks alone change them
	nodes  []*node
	joins  int64  // how often the servers were joined
	layout string // of the cluster, when it was asked last
	asked  int64  // and when that was
	keys   map[string]*known
	more   bool            // there are more keys than Most
	told   []history.Event // not taken yet
	costs  costs

	closing sync.Once
}

// KeyspaceOptions say where the keys are. All fields are required unless they say otherwise.
type KeyspaceOptions struct {
	Client  redis.UniversalClient // a connection of the probe's own: to a server, to the primary that Sentinels name, or to a cluster
	Replica *redis.Client         // nil; else looks go here, and only canaries to Client
	DB      int
	Canary  string            // a key of the run's own that nobody else has
	Exact   map[string]string // locks by the names of their keys
	Under   map[string]string // locks by the patterns of their keys, each with one star
	Globs   []string          // more keys, as SCAN has them, that are of no lock in a file
	Quiet   bool              // nothing is written to the servers: there are no canaries, so events are not believed
	Most    int               // keys that are known at a time, of those that no name says; 0 = all
	MaxGap  time.Duration     // the longest tolerated stretch without a look at a key
	Clock   func() int64
}

const (
	readsPerMilli = 50                     // keys that are read in turn where there are no events: some 5% of a core
	mostReads     = 256                    // of these, a look
	sweepEvery    = 100 * time.Millisecond // a page of the sweep, where there are events
	sweepPage     = 500                    // keys that a SCAN looks at
	canaryEvery   = 500 * time.Millisecond // of a server that is looked at itself
	replicaEvery  = 20 * time.Millisecond  // of a primary whose replica is looked at: what was before a canary that the replica shows is there too
	canaryTTL     = 10 * time.Second
	askAgain      = 50 * time.Millisecond // who holds a key, where it is not known
	layoutEvery   = time.Second
	joinReserve   = 300 * time.Millisecond // of the time for a look, kept for what comes after the first sweep
)

// known is a key that was seen, or that the file names.
type known struct {
	witness.Track
	node  *node
	exact bool
	due   int64 // when its lease is predicted to be over; 0 = it has none
	round int64 // the last look that reads it

	unnamed bool // it is in the node's list of that name
	swept   int  // the last sweep that found it
}

// NewKeyspace returns a probe that has not looked yet, and has not dialled.
func NewKeyspace(o KeyspaceOptions) *Keyspace {
	return &Keyspace{o: o, ask: reader{redis: o.Client, script: redis.NewScript(lookScript)}, keys: map[string]*known{}}
}

// Kind implements witness.Watch.
func (p *Keyspace) Kind() witness.Kind { return witness.KindKeys }

// Name makes looks say whom values name. It is called before the first look.
func (p *Keyspace) Name(names witness.Names) { p.names = names }

// Close closes the probe's connections.
func (p *Keyspace) Close() (err error) {
	p.closing.Do(func() {
		p.part()
		err = p.o.Client.Close()
		if p.o.Replica != nil {
			err = errors.Join(err, p.o.Replica.Close())
		}
	})
	return err
}

// Now is what a key says at this moment: its token, and since when it may have had that. held is false where the key is free.
func (p *Keyspace) Now(ctx context.Context, lock, key string) (now witness.Unclaimed, epoch string, held bool, err error) {
	s, err := p.ask.read(ctx, nil, []string{key}, 1)
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	shown := p.shows(key, s[0])
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.keys[key]
	if w == nil {
		w = &known{Track: witness.Track{Key: key}}
	}
	return w.Now(lock, w.OfToken(shown))
}

// Look reads the keys that have changed or whose leases are over; with final, all. It fails until each server has been swept once, and
// begins anew after each failure. The returned function gives what was news since the last look.
func (p *Keyspace) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	err := p.join(ctx)
	for i := 0; err == nil && i < len(p.nodes); i++ {
		err = p.nodes[i].look(ctx, final)
	}
	if err == nil {
		err = p.sameLayout(ctx)
	}
	switch {
	case errors.Is(err, ErrNotYet):
		return nil, err
	case err != nil:
		p.part()
		return nil, fmt.Errorf("look at %d lock keys: %w", len(p.keys), err)
	}
	return func(history.Span) []history.Event {
		events := p.told
		p.told = nil
		slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Key, b.Key) })
		return events
	}, nil
}

// ErrNotYet says that a look shows too little, and that all is well otherwise.
var ErrNotYet = errors.New("not yet")

// join dials the servers, and subscribes to their events.
func (p *Keyspace) join(ctx context.Context) error {
	if p.nodes != nil {
		return nil
	}
	p.joins++
	servers, err := p.servers(ctx)
	if err != nil {
		return err
	}
	p.nodes = servers
	for _, n := range p.nodes {
		if err := n.join(ctx); err != nil {
			return err
		}
	}
	p.costs.begin(ctx, p)
	return nil
}

// Known is how many keys the probe knows by name, and whether there are more than it is to know. Looks are made one after the other with it.
func (p *Keyspace) Known() (keys int, more bool) { return len(p.keys), p.more }

// part closes what join opened. Keys stay known, with what their last looks showed.
func (p *Keyspace) part() {
	for _, n := range p.nodes {
		n.close()
	}
	p.nodes = nil
}

// lockOf names the lock that a key belongs to, by the key itself or the pattern that says most of it.
func (p *Keyspace) lockOf(key string) (lock, of string) {
	if lock, exact := p.o.Exact[key]; exact {
		return lock, key
	}
	for pattern, name := range p.o.Under {
		prefix, suffix, _ := strings.Cut(pattern, "*")
		if rest, its := strings.CutPrefix(key, prefix); its && strings.HasSuffix(rest, suffix) && len(pattern) > len(of) {
			lock, of = name, pattern
		}
	}
	return lock, of
}

// shows is what a look at a key says of a lock. A hash without expiry is one where the file says how its name ends; below a prefix alone it
// is some record beside the locks.
func (p *Keyspace) shows(key string, s witness.State) witness.State {
	if _, of := p.lockOf(key); s.Bare && (of == "" || strings.HasSuffix(of, "*")) {
		return witness.State{Server: s.Server, Left: witness.Absent}
	}
	return s
}

// gap records a stretch in which changes may have escaped.
func (p *Keyspace) gap(at history.Span, why string) {
	p.told = append(p.told, history.Event{Kind: history.GapKind, Span: at, Source: witness.SourceKeys, Coverage: &history.Coverage{
		Probe: "lock_keys", Why: why, Largest: at.Width(),
	}})
}

// dues is a heap of predicted ends of leases. An entry whose key has another end by now is out of date.
type dues []due

type due struct {
	at  int64
	key *known
}

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// expect notes when a key's lease is over by what a look at it showed.
func (d *dues) expect(w *known, at history.Span, s witness.State) {
	w.due = 0
	if s.Left >= 0 { // it is gone once the millisecond is over that is its end
		w.due = at.To + s.Left + witness.Rounding - s.Server%1000*int64(time.Microsecond)
		heap.Push(d, due{w.due, w})
	}
}

// over takes the keys whose leases are predicted to have ended by now.
func (d *dues) over(now int64) (all []*known) {
	for len(*d) > 0 && (*d)[0].at <= now {
		if e := heap.Pop(d).(due); e.key.due == e.at {
			e.key.due = 0
			all = append(all, e.key)
		}
	}
	return all
}
