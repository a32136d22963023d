// Package storetest is the conformance suite of lockcore's ports: every Store and every Ledger passes it.
//
// It checks what the ports promise, by calls alone, and knows nothing of what is behind them. Its one invariant: an
// implementation that passes answers any sequence of calls as lockcore.Table and lockcore.LedgerTable do.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Long is a lease that no test outlives.
const Long = time.Hour

// limit bounds each wait of the suite.
const limit = 10 * time.Second

// Store runs the suite on fresh, empty stores. wait lets at least d pass on the store's clock.
func Store(t *testing.T, open func(t *testing.T) lockcore.Store, wait func(d time.Duration)) {
	StoreOf(t, time.Millisecond, open, wait)
}

// clock is the store's: wait lets at least d pass on it, and a lease is a whole number of units.
type clock struct {
	wait func(d time.Duration)
	unit time.Duration
}

// lease is the shortest that lasts d.
func (c clock) lease(d time.Duration) time.Duration { return (d + c.unit - 1) / c.unit * c.unit }

// inTime does what is to be done within a lease that it begins with. Where the machine was so slow that the lease may have ended in
// between, it does it again, on another key with a longer lease; it returns what the last one was done with.
func (c clock) inTime(t *testing.T, least time.Duration, do func(key string, ttl time.Duration)) (key string, ttl time.Duration) {
	t.Helper()
	for d := least; ; d *= 2 {
		key, ttl = fmt.Sprint("k-", d), c.lease(d)
		begun := time.Now()
		do(key, ttl)
		switch took := time.Since(begun); {
		case took < ttl:
			return key, ttl
		case ttl > limit:
			t.Fatalf("calls took %s, longer than their lease", took)
		}
	}
}

// StoreOf is Store for one whose leases are a whole number of units, as its documentation says.
func StoreOf(t *testing.T, unit time.Duration, open func(t *testing.T) lockcore.Store, wait func(d time.Duration)) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, lockcore.Store, clock)
	}{
		{"a free key is granted once", grantedOnce},
		{"the same token reads its grant back", readBack},
		{"fences grow from epoch to epoch", fencesGrow},
		{"renew extends only the token's lease", renewCompares},
		{"release deletes only the token's lease", releaseCompares},
		{"a lease ends by itself, not early", expires},
		{"a lease below the resolution is refused", refusesTTL},
		{"an ended context is not sent", refusesContext},
		{"keys do not touch one another", keysApart},
		{"one of many wins", oneWins},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t), clock{wait, unit}) })
	}
}

func grantedOnce(t *testing.T, s lockcore.Store, _ clock) {
	before := time.Now()
	g := acquire(t, s, "k", "one", Long)
	if g.Fence <= 0 || !g.Server.IsZero() && g.Server.Before(before.Add(-time.Hour)) {
		t.Errorf("grant %+v: want a fence above 0 and the server's time, or none", g)
	}
	_, err := s.Acquire(t.Context(), "k", "two", Long)
	var held *lockcore.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("second acquire: %v, want *HeldError", err)
	}
	if want := lockcore.Fingerprint("one"); held.Holder != want {
		t.Errorf("holder %q, want the fingerprint %q", held.Holder, want)
	}
	if held.PTTL <= Long-time.Minute || held.PTTL > Long {
		t.Errorf("pttl %s, want nearly %s", held.PTTL, Long)
	}
}

func readBack(t *testing.T, s lockcore.Store, c clock) {
	var first, again lockcore.Grant
	key, ttl := c.inTime(t, 400*time.Millisecond, func(key string, ttl time.Duration) {
		first = acquire(t, s, key, "one", ttl)
		again = acquire(t, s, key, "one", Long)
	})
	if again.Fence != first.Fence {
		t.Errorf("fence %d when asked again, want the same %d", again.Fence, first.Fence)
	}
	c.wait(ttl + 50*time.Millisecond)
	acquire(t, s, key, "two", Long) // asking again must not have extended the lease
}

func fencesGrow(t *testing.T, s lockcore.Store, _ clock) {
	var last int64
	for i := range 50 {
		token := fmt.Sprint("token", i)
		g := acquire(t, s, "k", token, Long)
		if g.Fence <= last {
			t.Fatalf("fence %d after %d", g.Fence, last)
		}
		if low := g.Server.UnixMicro(); !g.Server.IsZero() && g.Fence < low {
			t.Fatalf("fence %d below the server's microseconds %d", g.Fence, low)
		}
		last = g.Fence
		if err := s.Release(t.Context(), "k", token); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
}

func renewCompares(t *testing.T, s lockcore.Store, c clock) {
	wantNotOwned(t, "renew of a free key", s.Renew(t.Context(), "k", "one", Long), "")
	var others, own error
	key, ttl := c.inTime(t, 400*time.Millisecond, func(key string, ttl time.Duration) {
		acquire(t, s, key, "one", ttl)
		others = s.Renew(t.Context(), key, "two", Long)
		own = s.Renew(t.Context(), key, "one", Long)
	})
	wantNotOwned(t, "renew by another", others, "one")
	if own != nil {
		t.Fatalf("renew: %v", own)
	}
	c.wait(ttl + 50*time.Millisecond)
	if err := s.Renew(t.Context(), key, "one", Long); err != nil {
		t.Errorf("renew after the first lease's end: %v", err)
	}
}

func releaseCompares(t *testing.T, s lockcore.Store, _ clock) {
	wantNotOwned(t, "release of a free key", s.Release(t.Context(), "k", "one"), "")
	acquire(t, s, "k", "one", Long)
	wantNotOwned(t, "release by another", s.Release(t.Context(), "k", "two"), "one")
	if err := s.Release(t.Context(), "k", "one"); err != nil {
		t.Fatalf("release: %v", err)
	}
	wantNotOwned(t, "second release", s.Release(t.Context(), "k", "one"), "")
	acquire(t, s, "k", "two", Long)
}

func expires(t *testing.T, s lockcore.Store, c clock) {
	var held error
	key, ttl := c.inTime(t, 300*time.Millisecond, func(key string, ttl time.Duration) {
		acquire(t, s, key, "one", ttl)
		_, held = s.Acquire(t.Context(), key, "two", Long)
	})
	if lockcore.ResultOf(held) != lockcore.Held {
		t.Errorf("acquire within the lease: %v, want held", held)
	}
	c.wait(ttl + 20*time.Millisecond)
	wantNotOwned(t, "renew after the end", s.Renew(t.Context(), key, "one", Long), "")
	wantNotOwned(t, "release after the end", s.Release(t.Context(), key, "one"), "")
	acquire(t, s, key, "two", Long)
}

func refusesTTL(t *testing.T, s lockcore.Store, _ clock) {
	_, err := s.Acquire(t.Context(), "k", "one", time.Microsecond)
	wantFailed(t, "acquire", err)
	acquire(t, s, "k", "one", Long)
	wantFailed(t, "renew", s.Renew(t.Context(), "k", "one", 0))
	if err := s.Release(t.Context(), "k", "one"); err != nil {
		t.Errorf("release: %v", err)
	}
}

func refusesContext(t *testing.T, s lockcore.Store, _ clock) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Acquire(ctx, "k", "one", Long)
	wantFailed(t, "acquire", err)
	wantFailed(t, "renew", s.Renew(ctx, "k", "one", Long))
	wantFailed(t, "release", s.Release(ctx, "k", "one"))
	wantNotOwned(t, "release", s.Release(t.Context(), "k", "one"), "")
}

func keysApart(t *testing.T, s lockcore.Store, _ clock) {
	keys := []string{"a", "b", "with space", "{tagged}:1", "{tagged}:2", "lone{brace"}
	for _, k := range keys {
		acquire(t, s, k, "token of "+k, Long)
	}
	for _, k := range keys {
		if err := s.Release(t.Context(), k, "token of "+k); err != nil {
			t.Errorf("release %q: %v", k, err)
		}
	}
}

func oneWins(t *testing.T, s lockcore.Store, _ clock) {
	const contenders = 16
	errs := make(chan error, contenders)
	for i := range contenders {
		go func() {
			_, err := s.Acquire(t.Context(), "k", fmt.Sprint("token", i), Long)
			errs <- err
		}()
	}
	won := 0
	for range contenders {
		switch err := <-errs; lockcore.ResultOf(err) {
		case lockcore.OK:
			won++
		case lockcore.Held:
		default:
			t.Errorf("acquire: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d contenders won", won, contenders)
	}
}

func acquire(t *testing.T, s lockcore.Store, key, token string, ttl time.Duration) lockcore.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	g, err := s.Acquire(ctx, key, token, ttl)
	if err != nil {
		t.Fatalf("acquire %q: %v", key, err)
	}
	return g
}

// wantNotOwned wants a *NotOwnedError: absent where holder is "", else other with that token's fingerprint.
func wantNotOwned(t *testing.T, what string, err error, holder string) {
	t.Helper()
	var lost *lockcore.NotOwnedError
	if !errors.As(err, &lost) {
		t.Errorf("%s: %v, want *NotOwnedError", what, err)
		return
	}
	if lost.Other != (holder != "") || lost.Holder != lockcore.Fingerprint(holder) {
		t.Errorf("%s: %+v, want holder %q", what, *lost, holder)
	}
}

func wantFailed(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lockcore.ErrNotSent) {
		t.Errorf("%s: %v, want an error that wraps ErrNotSent", what, err)
	}
}
