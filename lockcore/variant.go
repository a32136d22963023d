package lockcore

import (
	"slices"
	"time"
)

// Attempt is one attempt to hold one key, as its driver sees it: a Machine, or what stands in its place.
type Attempt interface {
	Step(now Instant, in Input, out []Action) []Action
	Next() (at time.Duration, ok bool)
	State() State
	Remaining(now Instant) time.Duration
	Held(now Instant) bool
}

// Rules are what a store of locks answers: a Table, or what stands in its place.
type Rules interface {
	Acquire(now time.Time, key, token string, ttl time.Duration) (Grant, error)
	Renew(now time.Time, key, token string, ttl time.Duration) error
	Release(now time.Time, key, token string) error
}

var (
	_ Attempt = (*Machine)(nil)
	_ Rules   = (*Table)(nil)
)

// Variant says where a lock departs from the core, for locks that are wrong on purpose (package mutants). The zero Variant departs
// nowhere. Whoever drives a lock asks it at the seams; Machine and Table know nothing of it.
type Variant struct {
	Attempt     func(Policy) Attempt // nil = NewMachine
	Rules       func(t *Table) Rules // nil = the table itself; made once for each table
	Feigns      []Op                 // calls that are announced and answered ok, and never sent
	OneToken    bool                 // every acquire of a process carries the same token
	SharedToken bool                 // every acquire of every process does
	LateFence   bool                 // effects carry the key's newest fence, fetched at the time of the write
	Unfenced    bool                 // effects ask for no comparison of fences
}

// Feigned reports whether calls of op are never sent.
func (v *Variant) Feigned(op Op) bool {
	return slices.Contains(v.Feigns, op)
}
