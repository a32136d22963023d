package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// place is one waiter's place in a lock's line. The store keeps it by its ticket.
type place struct {
	s      *Batched
	keys   keys
	ticket string // "" until it is used
	turn   chan struct{}
	missed atomic.Bool // the turn has come and was not used yet: whoever comes too late stands at the front
	stands atomic.Bool // something may be left of it at the store
}

// Join implements lockcore.Line.
func (s *Batched) Join(key string) lockcore.Place {
	return &place{s: s, keys: keysOf(s.prefix + key), turn: make(chan struct{}, 1)}
}

// Turn implements lockcore.Place.
func (p *place) Turn() <-chan struct{} { return p.turn }

// Acquire implements lockcore.Place.
func (p *place) Acquire(ctx context.Context, token string, ttl time.Duration) (lockcore.Grant, error) {
	if err := callable(ctx, ttl); err != nil {
		return lockcore.Grant{}, err
	}
	if p.ticket == "" {
		p.s.turns.open(ctx, p)
	}
	c := newCall(p.s.do.stand, p.keys.lock, p.keys.fence, p.keys.turn, p.keys.line)
	c.text(token)
	c.text(p.ticket)
	c.num(millis(ttl))
	c.num(millis(fenceTTL(ttl)))
	c.num(front(p.missed.Swap(false)))
	c.num(turnWindow)
	c.num(lineKeep)
	p.stands.Store(true)
	reply, err := p.s.calls.do(ctx, c)
	if err != nil {
		return lockcore.Grant{}, wrap("acquire", err)
	}
	g, err := parseGrant(reply)
	if err == nil {
		p.stands.Store(false)
	}
	return g, err
}

// Quit implements lockcore.Place.
func (p *place) Quit(ctx context.Context) error {
	if p.ticket == "" {
		return nil
	}
	p.s.turns.forget(p)
	if !p.stands.Load() {
		return nil
	}
	c := newCall(p.s.do.quit, p.keys.lock, p.keys.turn, p.keys.line)
	c.text(p.ticket)
	c.num(turnWindow)
	c.num(lineKeep)
	_, err := p.s.calls.do(ctx, c)
	if err != nil {
		return wrap("quit the line", err)
	}
	return nil
}

func front(missed bool) int64 {
	if missed {
		return 1
	}
	return 0
}
