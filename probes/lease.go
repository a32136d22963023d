package probes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore"
)

const sourceLeases = "probe:leases"

// LeaseReader reads a Lease object; ok is false where there is none. kube.Cluster is one.
type LeaseReader interface {
	Lease(ctx context.Context, name string) (l kube.Lease, ok bool, err error)
}

// Leases watches Lease objects that are locks, one request for each in a look. Their times are their holders' clocks, so none is used:
// a lease runs from the look that saw the record changed, less what passed since the look before, which is also how contenders of
// client-go count it. Watch and Holder may be called at any time; looks are made one after the other.
type Leases struct {
	reader LeaseReader
	holder func(named string) string

	mu     sync.Mutex
	leases map[string]*leased
}

// leased is a Lease object and what its last look showed.
type leased struct {
	lock, name string
	seen       bool
	span       history.Span // of the last look
	last       record
	holder     string // incarnation; known once for an epoch, it stays: a pod may have another life by the next look
	early      int64  // the lease ends no sooner
	late       int64  // and no later
}

// record is what an election is decided by.
type record struct {
	there             bool
	named             string // "" = released
	transitions       int32
	duration          time.Duration
	acquired, renewed int64 // of the holder's clock: compared, never computed with
	epoch             string
}

// NewLeases returns a probe that watches no object yet. holder gives the incarnation that a holder's name means, or "".
func NewLeases(reader LeaseReader, holder func(named string) string) *Leases {
	return &Leases{reader: reader, holder: holder, leases: map[string]*leased{}}
}

// Watch adds the object that is the lock; one that is watched already stays as it is.
func (p *Leases) Watch(lock, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leases[name] == nil {
		p.leases[name] = &leased{lock: lock, name: name}
	}
}

// Look reads all watched objects. The returned function gives a look event for each that has changed since the last look whose function
// was called, in the order of names; with final, one for every object.
func (p *Leases) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	p.mu.Lock()
	all := make([]*leased, 0, len(p.leases))
	for _, w := range p.leases {
		all = append(all, w)
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b *leased) int { return cmp.Compare(a.name, b.name) })
	records := make([]record, len(all))
	for i, w := range all {
		r, err := p.read(ctx, w.name)
		if err != nil {
			return nil, fmt.Errorf("look at %d leases: %w", len(all), err)
		}
		records[i] = r
	}
	return func(at history.Span) []history.Event {
		p.mu.Lock()
		defer p.mu.Unlock()
		var events []history.Event
		for i, w := range all {
			events = w.observe(events, records[i], at, final, p.holder)
		}
		return events
	}, nil
}

// Holder says whom an object names now: the epoch and the length of its lease, of which no more than that is left. ok is false where it
// is released or not there.
func (p *Leases) Holder(ctx context.Context, name string) (epoch string, pttl time.Duration, ok bool, err error) {
	r, err := p.read(ctx, name)
	if err != nil {
		return "", 0, false, fmt.Errorf("look up holder of lease %s: %w", name, err)
	}
	return r.epoch, r.duration, r.held(), nil
}

func (p *Leases) read(ctx context.Context, name string) (record, error) {
	l, ok, err := p.reader.Lease(ctx, name)
	if err != nil || !ok {
		return record{}, err
	}
	r := record{there: true, named: l.Holder, transitions: l.Transitions, duration: l.Duration, acquired: l.Acquired.UnixNano(), renewed: l.Renewed.UnixNano()}
	if r.held() {
		r.epoch = lockcore.Fingerprint(fmt.Sprintf("%s#%d@%d", r.named, r.transitions, r.acquired))
	}
	return r, nil
}

// contended is the record as contenders of client-go compare it: they write its times out to the second, so that of two renewals in the
// same second the later prolongs nothing for them.
func (r record) contended() record {
	r.acquired, r.renewed = r.acquired/int64(time.Second), r.renewed/int64(time.Second)
	return r
}

func (r *record) held() bool { return r.there && r.named != "" }

// observe takes in what a look showed and appends an event if it is news.
func (w *leased) observe(events []history.Event, r record, at history.Span, final bool, holder func(string) string) []history.Event {
	news := w.seen && r != w.last || !w.seen && r.held()
	if r.epoch != w.last.epoch {
		w.holder = ""
	}
	if w.holder == "" && r.held() {
		w.holder = holder(r.named)
		news = news || w.holder != ""
	}
	switch {
	case !w.seen: // it may have been renewed just now, or long ago
		w.early, w.late = at.From, at.To+int64(r.duration)
	case r.contended() != w.last.contended():
		w.early, w.late = w.span.From+int64(r.duration), at.To+int64(r.duration)
	case r != w.last: // contenders of client-go do not see that it was extended, others may
		w.late = at.To + int64(r.duration)
	}
	if news || final {
		e := history.Event{
			Kind: history.LookKind, Span: at, Source: sourceLeases, Lock: w.lock, Key: w.name, Epoch: r.epoch,
			Look: &history.Look{PTTL: absent, Final: final, Released: r.there && !r.held()},
		}
		if r.held() {
			left := max(0, w.late-at.To)
			e.Look.Present, e.Look.PTTL, e.Look.Slack = true, left, max(0, at.From+left-w.early)
			e.Look.Named, e.Look.Holder = cut(r.named), w.holder
		}
		if news && w.seen {
			before := w.span
			e.Look.Prev = &before
		}
		events = append(events, e)
	}
	w.seen, w.span, w.last = true, at, r
	return events
}
