package probes

import (
	"context"

	"github.com/lockdrill/lockdrill/history"
)

// Backend is a store of locks as a drill sees it, whatever kind of store it is: looks at its keys that become events, and who holds a key
// now, for whoever aims at that one. LockKeys, Keyspace and Leases are backends.
type Backend interface {
	Kind() Kind
	// Look makes one look. Its events carry the epoch of whoever holds a key, the brackets in which that began, and what is left of the
	// lease.
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
	// Now asks who holds a key. held is false where nobody does.
	Now(ctx context.Context, lock, key string) (now Unclaimed, epoch string, held bool, err error)
	// Sample looks once more, so that what comes after it is known to: for a strike.
	Sample(ctx context.Context) error
	Close() error
}

// Kind is what is known of a backend beforehand.
type Kind struct {
	Probe  string // as in coverage events
	Source string // of its events
	// Named: a lock names its holder in the clear, and nobody else extends its lease: an extension is a sign of that one's life.
	Named bool
}

var (
	kindKeys  = Kind{Probe: "lock_keys", Source: sourceKeys}
	kindLease = Kind{Probe: "leases", Source: sourceLeases, Named: true}
)

// Kind implements Backend.
func (p *LockKeys) Kind() Kind { return kindKeys }

// Kind implements Backend.
func (p *Keyspace) Kind() Kind { return kindKeys }

// Kind implements Backend.
func (p *Leases) Kind() Kind { return kindLease }

// Sample implements Backend: looks at keys follow one another closely enough.
func (p *LockKeys) Sample(context.Context) error { return nil }

// Sample implements Backend: looks at keys follow one another closely enough.
func (p *Keyspace) Sample(context.Context) error { return nil }
