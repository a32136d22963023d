package probes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/postgres"
)

// Advisory watches advisory locks of a PostgreSQL database: exclusive ones, of sessions or of transactions. Such a lock has no lease. It
// belongs to a session and goes with that, so the epoch is the session, by number and start of its server process: one that takes a lock
// again is the same epoch. What happens between two looks is not seen: pg_locks has no history.
//
// All methods may be called at any time; looks are made one after the other, each one statement, whatever the number of keys.
type Advisory struct {
	client *postgres.Client
	names  Names

	mu   sync.Mutex
	keys map[string]*advised
}

// advised is a key and what its last look showed.
type advised struct {
	lock, key string
	id        postgres.Key
	known     bool // its id is
	seen      bool
	span      history.Span
	epoch     string // of the last look; "" = nobody held it
	named     Named
	since     int64
}

// NewAdvisory returns a probe that asks by client, which it closes, and that watches no key yet.
func NewAdvisory(client *postgres.Client) *Advisory {
	return &Advisory{client: client, keys: map[string]*advised{}}
}

// Name makes looks say whom sessions belong to. It is called before the first look. An Unclaimed.Value is the session's application name,
// or its client's address.
func (p *Advisory) Name(names Names) { p.names = names }

// Watch adds a key of a lock that each look is to read; a key that is watched already stays as it is.
func (p *Advisory) Watch(lock, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[key] == nil {
		p.keys[key] = &advised{lock: lock, key: key}
	}
}

// Expect is Watch for the key of a job: a look costs the same with it.
func (p *Advisory) Expect(lock, key string) { p.Watch(lock, key) }

// Asked takes no note: each look reads every key.
func (p *Advisory) Asked(string) {}

// Kind implements Backend.
func (p *Advisory) Kind() Kind { return kindKeys }

// Close closes the probe's connection.
func (p *Advisory) Close() error { return p.client.Close() }

// Sample implements Backend: looks follow one another closely enough.
func (p *Advisory) Sample(context.Context) error { return nil }

// Look reads who holds the watched keys. The returned function gives a look event for each key whose session has changed since the last
// look whose function was called, in the order of keys; with final, one for every key.
func (p *Advisory) Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error) {
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
			session, there := held[w.id]
			events = w.observe(events, session, there, now, at, final, p.names)
		}
		return events
	}, nil
}

// watched lists the keys by their names.
func (p *Advisory) watched() []*advised {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*advised, 0, len(p.keys))
	for _, w := range p.keys {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *advised) int { return cmp.Compare(a.key, b.key) })
	return all
}

// resolve finds the numbers of keys that have none yet: the server hashes the names.
func (p *Advisory) resolve(ctx context.Context, all []*advised) error {
	var names []string
	var of []*advised
	found := map[*advised]postgres.Key{}
	var wrong []error
	p.mu.Lock()
	for _, w := range all {
		if w.known {
			continue
		}
		id, named, err := postgres.ParseKey(w.key)
		if wrong = append(wrong, err); named {
			names, of = append(names, w.key), append(of, w)
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
func (p *Advisory) Now(ctx context.Context, lock, key string) (now Unclaimed, epoch string, held bool, err error) {
	p.mu.Lock()
	w := p.keys[key]
	p.mu.Unlock()
	if w == nil {
		w = &advised{lock: lock, key: key}
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
	session, held := all[w.id]
	if now = (Unclaimed{Lock: lock, Key: key}); !held {
		return now, "", false, nil
	}
	epoch, now.Value = session.ID(), session.Name()
	if w.seen {
		if now.Since = w.since; w.epoch != epoch {
			now.Since = w.span.From
		}
	}
	return now, epoch, true, nil
}

// observe takes in what a look showed and appends an event if it is news.
func (w *advised) observe(events []history.Event, s postgres.Session, there bool, now time.Time, at history.Span, final bool, names Names) []history.Event {
	epoch := ""
	if there {
		epoch = s.ID()
	}
	news := epoch != w.epoch
	if news {
		w.named, w.since = Named{}, w.span.From
	}
	if names.Holder != nil && w.named.Holder == "" && there {
		before := w.named
		w.named = names.Holder(Unclaimed{w.lock, w.key, s.Name(), w.since})
		news = news || w.named != before
	}
	if news || final {
		e := history.Event{
			Kind: history.LookKind, Span: at, Source: sourceKeys, Lock: w.lock, Key: w.key, Epoch: epoch,
			Look: &history.Look{PTTL: absent, Server: now.UnixMicro(), Final: final},
		}
		if there {
			e.Look.Present, e.Look.PTTL, e.Look.Named = true, endless, cut(s.Name())
			e.Look.Holder, e.Look.By, e.Look.Disputed = w.named.Holder, w.named.By, w.named.Disputed
		}
		if news && w.seen {
			before := w.span
			e.Look.Prev = &before
		}
		events = append(events, e)
	}
	w.seen, w.span, w.epoch = true, at, epoch
	return events
}
