package probes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
)

const sourceLeases = "probe:leases"

// LeaseAPI reads a Lease object as it is (ok is false where there is none), and tells of its changes. kube.Cluster is one.
type LeaseAPI interface {
	Lease(ctx context.Context, name string) (l kube.Lease, ok bool, err error)
	WatchLease(ctx context.Context, name string, on func(kube.LeaseChange), heard func(error))
}

// Leases watches Lease objects that are locks, with two witnesses. A watch tells of every change in its order, and came after it. Looks
// say which version was there still when they were asked, so that the next one came later. Neither is enough: a look is good only when
// the watch has told of what it showed.
//
// The times in an object are its holder's clock, so none is used: a lease runs from when its record changed, which is also how
// contenders of client-go count it. Sample and Now may be called at any time; looks are made one after the other.
type Leases struct {
	api     LeaseAPI
	clock   func() int64
	leases  []*leased // in the order of their names
	stop    context.CancelFunc
	watches sync.WaitGroup
}

// NewLeases begins to watch the objects that are locks: the locks by the names of their objects. holder gives the incarnation that a
// holder's name means, or ""; clock is that of the looks. Its owner calls Close.
func NewLeases(api LeaseAPI, locks map[string]string, holder func(named string) string, clock func() int64) *Leases {
	ctx, stop := context.WithCancel(context.Background())
	p := &Leases{api: api, clock: clock, stop: stop}
	for _, name := range slices.Sorted(maps.Keys(locks)) {
		w := newLeased(locks[name], name, &kindLease, func(u Unclaimed) Named { return Named{Holder: holder(u.Value)} }, clock())
		p.leases = append(p.leases, w)
		p.watches.Go(func() {
			api.WatchLease(ctx, name, func(c kube.LeaseChange) { w.record(c, clock) }, w.heard)
		})
	}
	return p
}

// Close ends the watches.
func (p *Leases) Close() error {
	p.stop()
	p.watches.Wait()
	return nil
}

// Look reads all objects and waits until their watches have told of what it read. The returned function gives an event for each change
// since the last look whose function was called, and for each stretch of which a watch did not tell; with final, also one for every
// object as it is. Their stamps are their own.
func (p *Leases) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	seen := make([]sample, len(p.leases))
	for i, w := range p.leases {
		var err error
		if _, seen[i], err = p.see(ctx, w.key); err != nil {
			return nil, fmt.Errorf("look at %d leases: %w", len(p.leases), err)
		}
	}
	for i, w := range p.leases {
		if err := w.await(ctx, seen[i]); err != nil {
			return nil, err
		}
	}
	return func(history.Span) []history.Event {
		var events []history.Event
		for i, w := range p.leases {
			events = w.report(events, seen[i], final)
		}
		return events
	}, nil
}

// Sample looks at all objects once more: what becomes of them after it surely came after it began.
func (p *Leases) Sample(ctx context.Context) error {
	for _, w := range p.leases {
		if _, _, err := p.see(ctx, w.key); err != nil {
			return fmt.Errorf("look at %d leases: %w", len(p.leases), err)
		}
	}
	return nil
}

// Now is whom an object names at this moment. held is false where it is released or not there.
func (p *Leases) Now(ctx context.Context, lock, name string) (now Unclaimed, epoch string, held bool, err error) {
	r, _, err := p.see(ctx, name)
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of lease %s: %w", name, err)
	}
	return Unclaimed{Lock: lock, Key: name, Value: r.named}, r.epoch, r.held(), nil
}

// see reads an object, and takes note of which version it had.
func (p *Leases) see(ctx context.Context, name string) (record, sample, error) {
	s := sample{at: history.At(p.clock())}
	l, ok, err := p.api.Lease(ctx, name)
	if err != nil {
		return record{}, s, err
	}
	s.at.To = p.clock()
	if ok {
		s.version = l.ResourceVersion
	}
	if i, known := slices.BinarySearchFunc(p.leases, name, func(w *leased, n string) int { return cmp.Compare(w.key, n) }); known && ok {
		p.leases[i].note(s)
	}
	return recordOf(l, ok), s, nil
}
