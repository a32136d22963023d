package lease

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Watch watches Lease objects that are locks, with two witnesses. A watch tells of every change in its order, and came after it. Looks
// say which version was there still when they were asked, so that the next one came later. Neither is enough: a look is good only when
// the watch has told of what it showed.
//
// The times in an object are its holder's clock, so none is used: a lease runs from when its record changed, which is also how
// contenders of client-go count it. Sample and Now may be called at any time; looks are made one after the other. Its stamps are its own.
type Watch struct {
	kind  witness.Kind
	clock func() int64
	read  reader

	stop    context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	keys   map[string]*leased
	now    map[string]kube.LeaseChange // of a namespace, by key: what was told last, of those that are there
	absent kube.LeaseChange            // what the last list of a namespace says of any other
	known  bool                        // there was a list
	broken error
}

// reader reads objects as they are: all, for a look, or the one of a key.
type reader interface {
	see(ctx context.Context, clock func() int64, all []*leased) ([]sample, error)
	one(ctx context.Context, key string) (l kube.Lease, there bool, err error)
}

func newWatch(kind witness.Kind, read reader, clock func() int64) (*Watch, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &Watch{kind: kind, read: read, clock: clock, stop: stop, keys: map[string]*leased{}, now: map[string]kube.LeaseChange{}}, ctx
}

// API reads a Lease object as it is (ok is false where there is none), and tells of its changes. kube.Cluster is one.
type API interface {
	Lease(ctx context.Context, name string) (l kube.Lease, ok bool, err error)
	WatchLease(ctx context.Context, name string, on func(kube.LeaseChange), heard func(error))
}

// NewNamed begins to watch objects that are locks, each by itself: the locks by the names of their objects. holder gives the incarnation
// that a holder's name means, or ""; clock is that of the looks. Its owner calls Close.
func NewNamed(api API, locks map[string]string, holder func(named string) string, clock func() int64) *Watch {
	p, ctx := newWatch(witness.KindLeases, named{api}, clock)
	for name, lock := range locks {
		w := newLeased(lock, name, &p.kind, func(u witness.Unclaimed) witness.Named { return witness.Named{Holder: holder(u.Value)} }, clock())
		p.keys[name] = w
		p.watches.Go(func() {
			api.WatchLease(ctx, name, func(c kube.LeaseChange) { w.record(c, clock) }, w.heard)
		})
	}
	return p
}

// named reads each object by its name.
type named struct{ api API }

func (r named) see(ctx context.Context, clock func() int64, all []*leased) ([]sample, error) {
	seen := make([]sample, len(all))
	for i, w := range all {
		at := history.At(clock())
		l, _, err := r.api.Lease(ctx, w.Key)
		if err != nil {
			return nil, fmt.Errorf("look at %d leases: %w", len(all), err)
		}
		at.To = clock()
		seen[i] = sample{version: l.ResourceVersion, at: at}
		w.note(seen[i])
	}
	return seen, nil
}

func (r named) one(ctx context.Context, name string) (kube.Lease, bool, error) {
	l, there, err := r.api.Lease(ctx, name)
	if err != nil {
		err = fmt.Errorf("look up holder of lease %s: %w", name, err)
	}
	return l, there, err
}

// NamespaceAPI reads all Lease objects of a namespace as they are, and tells of their changes. kube.Cluster is one.
type NamespaceAPI interface {
	Leases(ctx context.Context) ([]kube.Lease, error)
	WatchLeases(ctx context.Context, listed func(there []kube.LeaseChange, absent kube.LeaseChange), on func(kube.LeaseChange), heard func(error))
}

// NewKeys begins to watch the objects of a namespace whose keys begin with prefix, all by one watch and one read, however many there are.
// Its owner calls Close.
func NewKeys(api NamespaceAPI, prefix string, clock func() int64) *Watch {
	p, ctx := newWatch(witness.KindKeys, namespace{api, prefix}, clock)
	p.watches.Go(func() {
		api.WatchLeases(ctx, func(there []kube.LeaseChange, absent kube.LeaseChange) { p.list(prefix, there, absent) }, func(c kube.LeaseChange) { p.record(prefix, c) }, p.heard)
	})
	return p
}

// namespace reads all objects of a namespace at once.
type namespace struct {
	api    NamespaceAPI
	prefix string
}

// keys are those of the run.
func (r namespace) keys(ctx context.Context) (map[string]kube.Lease, error) {
	leases, err := r.api.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the keys of locks: %w", err)
	}
	all := map[string]kube.Lease{}
	for _, l := range leases {
		if key, ours := strings.CutPrefix(l.Key, r.prefix); ours {
			all[key] = l
		}
	}
	return all, nil
}

func (r namespace) see(ctx context.Context, clock func() int64, all []*leased) ([]sample, error) {
	at := history.At(clock())
	there, err := r.keys(ctx)
	if err != nil {
		return nil, err
	}
	at.To = clock()
	seen := make([]sample, len(all))
	for i, w := range all {
		seen[i] = sample{version: there[w.Key].ResourceVersion, at: at}
		w.note(seen[i])
	}
	return seen, nil
}

func (r namespace) one(ctx context.Context, key string) (kube.Lease, bool, error) {
	all, err := r.keys(ctx)
	if err != nil {
		err = fmt.Errorf("look up holder of %s: %w", key, err)
	}
	l, there := all[key]
	return l, there, err
}

// Kind implements witness.Watch.
func (p *Watch) Kind() witness.Kind { return p.kind }

// Close ends the watches.
func (p *Watch) Close() error {
	p.stop()
	p.watches.Wait()
	return nil
}

// Watch adds a key of a lock, of a namespace, that is to be told of.
func (p *Watch) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[key] != nil {
		return
	}
	w := newLeased(lock, key, &p.kind, nil, p.clock())
	w.broken = p.broken
	p.keys[key] = w
	if p.known {
		w.record(p.of(key), p.clock)
	}
}

// of is what is known of a key.
func (p *Watch) of(key string) kube.LeaseChange {
	if c, there := p.now[key]; there {
		return c
	}
	return p.absent
}

// list takes what a list shows, in place of all that was told before.
func (p *Watch) list(prefix string, there []kube.LeaseChange, absent kube.LeaseChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.now)
	for _, c := range there {
		if key, ours := strings.CutPrefix(c.Lease.Key, prefix); ours {
			p.now[key] = c
		}
	}
	p.absent, p.known = absent, true
	for key, w := range p.keys {
		w.record(p.of(key), p.clock)
	}
}

// record takes a change.
func (p *Watch) record(prefix string, c kube.LeaseChange) {
	key, ours := strings.CutPrefix(c.Lease.Key, prefix)
	if !ours {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now[key] = c; !c.There {
		delete(p.now, key)
	}
	if w := p.keys[key]; w != nil {
		w.record(c, p.clock)
	}
}

func (p *Watch) heard(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
	for _, w := range p.keys {
		w.heard(err)
	}
}

// watched are the keys in their order.
func (p *Watch) watched() []*leased {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Values(p.keys), func(a, b *leased) int { return cmp.Compare(a.Key, b.Key) })
}

// Look reads all objects and waits until their watches have told of what it read. The returned function gives an event for each change
// since the last look whose function was called, and for each stretch of which a watch did not tell; with final, also one for every
// object as it is.
func (p *Watch) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	all := p.watched()
	seen, err := p.read.see(ctx, p.clock, all)
	if err != nil {
		return nil, err
	}
	for i, w := range all {
		if err := w.await(ctx, seen[i]); err != nil {
			return nil, err
		}
	}
	return func(history.Span) []history.Event {
		var events []history.Event
		for i, w := range all {
			events = w.report(events, seen[i], final)
		}
		return events
	}, nil
}

// Sample looks at all objects once more: what becomes of them after it surely came after it began.
func (p *Watch) Sample(ctx context.Context) error {
	_, err := p.read.see(ctx, p.clock, p.watched())
	return err
}

// Now is whom a key's object names at this moment. held is false where it is released or not there.
func (p *Watch) Now(ctx context.Context, lock, key string) (now witness.Unclaimed, epoch string, held bool, err error) {
	at := history.At(p.clock())
	l, there, err := p.read.one(ctx, key)
	if err != nil {
		return now, "", false, err
	}
	at.To = p.clock()
	p.mu.Lock()
	w := p.keys[key]
	p.mu.Unlock()
	if w != nil {
		w.note(sample{version: l.ResourceVersion, at: at})
	}
	r := recordOf(l, there)
	return witness.Unclaimed{Lock: lock, Key: key, Value: r.named}, r.epoch, r.held(), nil
}
