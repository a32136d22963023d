package probes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

// LeasesAPI reads all Lease objects of a namespace as they are, and tells of their changes. kube.Cluster is one.
type LeasesAPI interface {
	Leases(ctx context.Context) ([]kube.Lease, error)
	WatchLeases(ctx context.Context, listed func(there []kube.LeaseChange, absent kube.LeaseChange), on func(kube.LeaseChange), heard func(error))
}

// LeaseKeys watches the Lease objects of a namespace that are keys of a run's locks, with the two witnesses of Leases: one watch and one
// read for all of them, however many keys there are. Sample and Now may be called at any time; looks are made one after the other.
type LeaseKeys struct {
	api     LeasesAPI
	prefix  string
	clock   func() int64
	stop    context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	keys   map[string]*leased
	now    map[string]kube.LeaseChange // by key: what was told last, of those that are there
	absent kube.LeaseChange            // what the last list says of any other
	known  bool                        // there was a list
	broken error
}

// NewLeaseKeys begins to watch the objects whose keys begin with prefix; clock is that of the looks. Its owner calls Close.
func NewLeaseKeys(api LeasesAPI, prefix string, clock func() int64) *LeaseKeys {
	ctx, stop := context.WithCancel(context.Background())
	p := &LeaseKeys{api: api, prefix: prefix, clock: clock, stop: stop, keys: map[string]*leased{}, now: map[string]kube.LeaseChange{}}
	p.watches.Go(func() { api.WatchLeases(ctx, p.list, p.record, p.heard) })
	return p
}

// Kind implements Backend.
func (p *LeaseKeys) Kind() Kind { return kindKeys }

// Close ends the watch.
func (p *LeaseKeys) Close() error {
	p.stop()
	p.watches.Wait()
	return nil
}

// Watch adds a key of a lock that is to be told of.
func (p *LeaseKeys) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[key] != nil {
		return
	}
	w := newLeased(lock, key, &kindKeys, nil, p.clock())
	w.broken = p.broken
	p.keys[key] = w
	if p.known {
		w.record(p.of(key), p.clock)
	}
}

// of is what is known of a key.
func (p *LeaseKeys) of(key string) kube.LeaseChange {
	if c, there := p.now[key]; there {
		return c
	}
	return p.absent
}

// list takes what a list shows, in place of all that was told before.
func (p *LeaseKeys) list(there []kube.LeaseChange, absent kube.LeaseChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.now)
	for _, c := range there {
		if key, ours := strings.CutPrefix(c.Lease.Key, p.prefix); ours {
			p.now[key] = c
		}
	}
	p.absent, p.known = absent, true
	for key, w := range p.keys {
		w.record(p.of(key), p.clock)
	}
}

// record takes a change.
func (p *LeaseKeys) record(c kube.LeaseChange) {
	key, ours := strings.CutPrefix(c.Lease.Key, p.prefix)
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

func (p *LeaseKeys) heard(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
	for _, w := range p.keys {
		w.heard(err)
	}
}

// Look reads all objects and waits until the watch has told of what it read. The returned function is that of Leases.Look.
func (p *LeaseKeys) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	seen, _, err := p.see(ctx)
	if err != nil {
		return nil, err
	}
	for w, s := range seen {
		if err := w.await(ctx, s); err != nil {
			return nil, err
		}
	}
	return func(history.Span) []history.Event {
		var events []history.Event
		inOrder := slices.SortedFunc(maps.Keys(seen), func(a, b *leased) int { return strings.Compare(a.key, b.key) })
		for _, w := range inOrder {
			events = w.report(events, seen[w], final)
		}
		return events
	}, nil
}

// Sample looks at all objects once more: what becomes of them after it surely came after it began.
func (p *LeaseKeys) Sample(ctx context.Context) error {
	_, _, err := p.see(ctx)
	return err
}

// Now is whom a key's object names at this moment. held is false where it is released or not there.
func (p *LeaseKeys) Now(ctx context.Context, lock, key string) (now Unclaimed, epoch string, held bool, err error) {
	_, all, err := p.see(ctx)
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	l, there := all[key]
	r := recordOf(l, there)
	return Unclaimed{Lock: lock, Key: key, Value: r.named}, r.epoch, r.held(), nil
}

// see reads all objects, and takes note of the version of each that is watched.
func (p *LeaseKeys) see(ctx context.Context) (map[*leased]sample, map[string]kube.Lease, error) {
	at := history.At(p.clock())
	p.mu.Lock()
	watched := slices.Collect(maps.Values(p.keys))
	p.mu.Unlock()
	leases, err := p.api.Leases(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the keys of locks: %w", err)
	}
	at.To = p.clock()
	all := map[string]kube.Lease{}
	for _, l := range leases {
		if key, ours := strings.CutPrefix(l.Key, p.prefix); ours {
			all[key] = l
		}
	}
	seen := map[*leased]sample{}
	for _, w := range watched {
		s := sample{version: all[w.key].ResourceVersion, at: at}
		if s.version != "" {
			w.note(s)
		}
		seen[w] = s
	}
	return seen, all, nil
}
