package lockcore

import (
	"fmt"
	"maps"
	"time"
)

// Table is what a store of locks answers, as pure data: the rules that every Store follows, and that the in-memory store is.
// Time is passed in; it must not run backwards between calls. A Table is not safe for concurrent use.
type Table struct {
	leases map[string]lease
	fences map[string]int64 // last minted, kept when the lease ends
}

type lease struct {
	token string
	fence int64
	ends  time.Time
}

// NewTable returns a store without keys.
func NewTable() *Table {
	return &Table{leases: map[string]lease{}, fences: map[string]int64{}}
}

// Acquire follows Store.Acquire.
func (t *Table) Acquire(now time.Time, key, token string, ttl time.Duration) (Grant, error) {
	if err := CheckTTL(ttl); err != nil {
		return Grant{}, err
	}
	l, held := t.lease(now, key)
	switch {
	case held && l.token == token: // a lost reply is asked for again
		return Grant{Fence: l.fence, Server: now}, nil
	case held:
		return Grant{}, &HeldError{Holder: Fingerprint(l.token), PTTL: l.ends.Sub(now)}
	}
	fence := max(t.fences[key]+1, now.UnixMicro())
	t.fences[key] = fence
	t.leases[key] = lease{token: token, fence: fence, ends: now.Add(ttl)}
	return Grant{Fence: fence, Server: now}, nil
}

// Renew follows Store.Renew.
func (t *Table) Renew(now time.Time, key, token string, ttl time.Duration) error {
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	l, err := t.owned(now, key, token)
	if err != nil {
		return err
	}
	l.ends = now.Add(ttl)
	t.leases[key] = l
	return nil
}

// Release follows Store.Release.
func (t *Table) Release(now time.Time, key, token string) error {
	if _, err := t.owned(now, key, token); err != nil {
		return err
	}
	delete(t.leases, key)
	return nil
}

// owned returns the key's lease if it carries token, else a *NotOwnedError.
func (t *Table) owned(now time.Time, key, token string) (lease, error) {
	l, held := t.lease(now, key)
	switch {
	case !held:
		return lease{}, &NotOwnedError{}
	case l.token != token:
		return lease{}, &NotOwnedError{Other: true, Holder: Fingerprint(l.token)}
	}
	return l, nil
}

// lease returns the key's lease unless it has run out: at its very end the key is free.
func (t *Table) lease(now time.Time, key string) (lease, bool) {
	l, held := t.leases[key]
	if held && !now.Before(l.ends) {
		delete(t.leases, key)
		held = false
	}
	return l, held
}

// Holder says whose token the key carries, and until when; ok is false where it is free.
func (t *Table) Holder(now time.Time, key string) (token string, ends time.Time, ok bool) {
	l, held := t.lease(now, key)
	return l.token, l.ends, held
}

// Fence is the last one minted for the key; 0 = none is known.
func (t *Table) Fence(key string) int64 { return t.fences[key] }

// Take frees the key, whoever holds it; with a token, the key then carries that one for ttl. No fence is minted: nobody was granted
// anything.
func (t *Table) Take(now time.Time, key, token string, ttl time.Duration) {
	delete(t.leases, key)
	if token != "" {
		t.leases[key] = lease{token: token, ends: now.Add(ttl)}
	}
}

// Flush forgets everything, the fences too.
func (t *Table) Flush() {
	clear(t.leases)
	clear(t.fences)
}

// Snapshot is a copy of the table as it stands.
func (t *Table) Snapshot() *Table {
	return &Table{leases: maps.Clone(t.leases), fences: maps.Clone(t.fences)}
}

// CheckTTL refuses leases below the resolution of stores; the error wraps ErrNotSent.
func CheckTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("ttl %s is below the resolution of 1ms: %w", ttl, ErrNotSent)
	}
	return nil
}
