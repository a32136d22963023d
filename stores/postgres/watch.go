package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Watch watches advisory locks of a PostgreSQL database: exclusive ones, of sessions or of transactions. Such a lock has no lease. It
// belongs to a session and goes with that, so the epoch is the session, by number and start of its server process: one that takes a lock
// again is the same epoch. What happens between two looks is not seen: pg_locks has no history.
//
// All methods may be called at any time; looks are made one after the other, each one statement, whatever the number of keys.
type Watch struct {
	client *Client
	names  witness.Names

	mu   sync.Mutex
	keys map[string]*advised
}

// advised is a key that looks ask for.
type advised struct {
	witness.Track
	id    Key
	known bool // its id is
}

// NewWatch returns a probe that asks by client, which it closes, and that watches no key yet.
func NewWatch(client *Client) *Watch {
	return &Watch{client: client, names: witness.Names{Shown: true}, keys: map[string]*advised{}}
}

// Name makes looks say whom sessions belong to. It is called before the first look. An Unclaimed.Value is the session's application name,
// or its client's address.
func (p *Watch) Name(names witness.Names) { p.names = witness.Names{Holder: names.Holder, Shown: true} }

// Watch adds a key of a lock that each look is to read; a key that is watched already stays as it is.
func (p *Watch) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[key] == nil {
		p.keys[key] = &advised{Track: witness.Track{Lock: lock, Key: key}}
	}
}

// Kind implements witness.Watch.
func (p *Watch) Kind() witness.Kind { return witness.KindKeys }

// Close closes the probe's connection.
func (p *Watch) Close() error { return p.client.Close() }

// Look reads who holds the watched keys. The returned function gives a look event for each key whose session has changed since the last
// look whose function was called, in the order of keys; with final, one for every key.
func (p *Watch) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
	all := p.watched()
	if err := p.resolve(ctx, all); err != nil {
		return nil, fmt.Errorf("look at advisory locks: %w", err)
	}
	held, now, err := p.client.Held(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at advisory locks: %w", err)
	}
	return func(at history.Span) []history.Event {
		p.mu.Lock()
		defer p.mu.Unlock()
		var events []history.Event
		for _, w := range all {
			events = w.See(events, witness.SourceKeys, &p.names, stateOf(held, w.id, now), witness.Sight{Span: at, Final: final})
		}
		return events
	}, nil
}

// watched lists the keys by their names.
func (p *Watch) watched() []*advised {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*advised, 0, len(p.keys))
	for _, w := range p.keys {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *advised) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// resolve finds the numbers of keys that have none yet: the server hashes the names.
func (p *Watch) resolve(ctx context.Context, all []*advised) error {
	var names []string
	var of []*advised
	found := map[*advised]Key{}
	var wrong []error
	p.mu.Lock()
	for _, w := range all {
		if w.known {
			continue
		}
		id, named, err := ParseKey(w.Key)
		if wrong = append(wrong, err); named {
			names, of = append(names, w.Key), append(of, w)
			continue
		}
		found[w] = id
	}
	p.mu.Unlock()
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	if len(names) > 0 {
		ids, err := p.client.Hash(ctx, names)
		if err != nil {
			return err
		}
		for i, w := range of {
			found[w] = ids[i]
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for w, id := range found {
		w.id, w.known = id, true
	}
	return nil
}

// Now is which session holds a key at this moment, and since when it may have. held is false where none does.
func (p *Watch) Now(ctx context.Context, lock, key string) (now witness.Unclaimed, epoch string, held bool, err error) {
	p.mu.Lock()
	w := p.keys[key]
	p.mu.Unlock()
	if w == nil {
		w = &advised{Track: witness.Track{Lock: lock, Key: key}}
	}
	if err := p.resolve(ctx, []*advised{w}); err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	all, _, err := p.client.Held(ctx)
	if err != nil {
		return now, "", false, fmt.Errorf("look up holder of %s: %w", key, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return w.Now(lock, stateOf(all, w.id, time.Time{}))
}

// stateOf is which session has a lock, as the server had it at that time.
func stateOf(held map[Key]Session, id Key, at time.Time) witness.State {
	s := witness.State{Left: witness.Absent, Server: at.UnixMicro()}
	if session, there := held[id]; there {
		s.Value, s.Epoch, s.Left = session.Name(), session.ID(), witness.Endless
	}
	return s
}
