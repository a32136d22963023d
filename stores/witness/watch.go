// Package witness is what watches of all kinds of stores have in common: states of keys become events, by one rule.
//
// It looks at nothing itself. Its one invariant: the bracket of an event surely contains the beginning of its state.
package witness

import (
	"context"

	"github.com/lockdrill/lockdrill/history"
)

// Watch is a store of locks as a drill sees it, whatever kind of store it is: looks at its keys that become events, and who holds a key now,
// for whoever aims at that one.
type Watch interface {
	Kind() Kind
	// Look makes one look. Its events carry the epoch of whoever holds a key, the brackets in which that began, and what is left of the
	// lease.
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
	// Now asks who holds a key. held is false where nobody does.
	Now(ctx context.Context, lock, key string) (now Unclaimed, epoch string, held bool, err error)
	Close() error
}

// Sampled is a watch whose looks may lie far apart.
type Sampled interface {
	// Sample looks once more, so that what comes after it is known to: for a strike.
	Sample(context.Context) error
}

// Kind is what is known of a watch beforehand.
type Kind struct {
	Probe  string // as in coverage events
	Source string // of its events
	// Named: a lock names its holder in the clear, and nobody else extends its lease: an extension is a sign of that one's life.
	Named bool
}

var (
	KindKeys   = Kind{Probe: "lock_keys", Source: SourceKeys}
	KindLeases = Kind{Probe: "leases", Source: "probe:leases", Named: true}
)
