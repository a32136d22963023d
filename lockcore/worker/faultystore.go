package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// faultyStore is the locks' store as one lock sees it: armed faults make its calls go wrong.
type faultyStore struct {
	lockcore.Store
	lock   string
	faults *faults
}

// wrapStore returns the store as a lock sees it. It can do what store can: stand in line, renew many.
func wrapStore(store lockcore.Store, lock string, f *faults) lockcore.Store {
	s := &faultyStore{Store: store, lock: lock, faults: f}
	line, inLine := store.(lockcore.Line)
	many, together := store.(lockcore.ManyRenewer)
	switch {
	case inLine && together:
		return struct {
			*faultyStore
			faultyLine
			faultyMany
		}{s, faultyLine{line, s}, faultyMany{many, s}}
	case inLine:
		return struct {
			*faultyStore
			faultyLine
		}{s, faultyLine{line, s}}
	case together:
		return struct {
			*faultyStore
			faultyMany
		}{s, faultyMany{many, s}}
	}
	return s
}

// Acquire implements lockcore.Store.
func (s *faultyStore) Acquire(ctx context.Context, key, token string, ttl time.Duration) (g lockcore.Grant, err error) {
	err = s.call(ctx, protocol.OpAcquire, key, token, func() error {
		g, err = s.Store.Acquire(ctx, key, token, ttl)
		return err
	})
	if err != nil {
		g = lockcore.Grant{}
	}
	return g, err
}

// Renew implements lockcore.Store.
func (s *faultyStore) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	return s.call(ctx, protocol.OpRenew, key, token, func() error { return s.Store.Renew(ctx, key, token, ttl) })
}

// Release implements lockcore.Store.
func (s *faultyStore) Release(ctx context.Context, key, token string) error {
	return s.call(ctx, protocol.OpRelease, key, token, func() error { return s.Store.Release(ctx, key, token) })
}

// call makes a call, or what the shot that it falls to makes of it.
func (s *faultyStore) call(ctx context.Context, op, key, token string, do func() error) error {
	a := s.faults.hit(op, s.lock, key, token)
	if a == nil {
		return do()
	}
	defer s.faults.done(a)
	switch a.Mode {
	case protocol.ModeError:
		return &faultError{a.shot(), lockcore.ErrNotSent}
	case protocol.ModeDelay:
		if err := a.holdBack(ctx); err != nil {
			return err
		}
		return do()
	case protocol.ModeLostReply:
		_ = do()
	}
	return a.hang(ctx)
}

// hang waits as a caller does whose call gets no reply: until its limit, or the end of the shot.
func (a *armed) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return &faultError{a.shot(), ctx.Err()}
	case <-a.over:
		return &faultError{a.shot(), context.DeadlineExceeded}
	}
}

// holdBack keeps a call that will be sent late: after the delay or the end of the shot, unless its limit comes first. Its caller
// cannot know then that it was never sent.
func (a *armed) holdBack(ctx context.Context) error {
	t := time.NewTimer(a.Delay)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-a.over:
	}
	if ctx.Err() != nil {
		return &faultError{a.shot(), ctx.Err()}
	}
	return nil
}

// faultError is the failure of a call that a fault has hit.
type faultError struct {
	shot  string
	cause error // lockcore.ErrNotSent: definite; else the effect is unknown to the caller
}

func (e *faultError) Error() string {
	if errors.Is(e.cause, lockcore.ErrNotSent) {
		return "made to fail by " + e.shot
	}
	return fmt.Sprintf("made to hang by %s: %v", e.shot, e.cause)
}

func (e *faultError) Unwrap() error { return e.cause }

// Fault names the shot.
func (e *faultError) Fault() string { return e.shot }

// faultyLine stands in the store's line; asking there is an acquire like any other.
type faultyLine struct {
	line lockcore.Line
	s    *faultyStore
}

// Join implements lockcore.Line.
func (l faultyLine) Join(key string) lockcore.Place {
	return &faultyPlace{Place: l.line.Join(key), key: key, s: l.s}
}

type faultyPlace struct {
	lockcore.Place
	key string
	s   *faultyStore
}

// Acquire implements lockcore.Place.
func (p *faultyPlace) Acquire(ctx context.Context, token string, ttl time.Duration) (g lockcore.Grant, err error) {
	err = p.s.call(ctx, protocol.OpAcquire, p.key, token, func() error {
		g, err = p.Place.Acquire(ctx, token, ttl)
		return err
	})
	if err != nil {
		g = lockcore.Grant{}
	}
	return g, err
}

// faultyMany renews together what no fault is aimed at. What one may hit goes by itself: a renewal that hangs must not hold up others.
type faultyMany struct {
	many lockcore.ManyRenewer
	s    *faultyStore
}

// RenewMany implements lockcore.ManyRenewer.
func (m faultyMany) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	alone := m.s.faults.aimed(m.s.lock, renewals)
	if alone == 0 {
		m.many.RenewMany(ctx, ttl, renewals)
		return
	}
	rest := make([]lockcore.Renewal, 0, len(renewals)-alone)
	for _, r := range renewals {
		if r.Err == nil {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		return
	}
	m.many.RenewMany(ctx, ttl, rest)
	for i := range renewals {
		if renewals[i].Err == nil {
			renewals[i].Err, rest = rest[0].Err, rest[1:]
		}
	}
}
