// Package memstore is lockcore's pure tables behind a mutex and a clock: the store and the ledger for tests and rehearsals.
//
// It adds no rule of its own and loses everything when the process ends. Its one invariant: what it answers is what Table and
// LedgerTable answer to the same calls in the same order.
package memstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Store is a lockcore.Store in memory.
type Store struct {
	now   func() time.Time
	mu    sync.Mutex
	table *lockcore.Table
}

// NewStore returns an empty store; now is its server clock (nil = time.Now).
func NewStore(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, table: lockcore.NewTable()}
}

// Acquire implements lockcore.Store.
func (s *Store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := alive(ctx); err != nil {
		return lockcore.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Acquire(s.now(), key, token, ttl)
}

// Renew implements lockcore.Store.
func (s *Store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Renew(s.now(), key, token, ttl)
}

// Release implements lockcore.Store.
func (s *Store) Release(ctx context.Context, key, token string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Release(s.now(), key, token)
}

// Ledger is a lockcore.Ledger in memory.
type Ledger struct {
	mu    sync.Mutex
	table *lockcore.LedgerTable
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{table: lockcore.NewLedgerTable()} }

// Read implements lockcore.Ledger.
func (l *Ledger) Read(ctx context.Context, subject string) (lockcore.SubjectState, error) {
	if err := alive(ctx); err != nil {
		return lockcore.SubjectState{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.Read(subject), nil
}

// Write implements lockcore.Ledger.
func (l *Ledger) Write(ctx context.Context, e lockcore.Effect) (lockcore.Receipt, error) {
	if err := alive(ctx); err != nil {
		return lockcore.Receipt{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.Write(e)
}

// Entries returns the entries after position after (0 = all), in the ledger's order.
func (l *Ledger) Entries(after int64) []lockcore.LedgerEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.table.Entries(after))
}

// alive refuses a call whose context has ended before it began.
func alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return nil
}
