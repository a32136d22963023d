package bed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockdrill/lockdrill/history"
)

// openEmbedded starts a Redis inside this process, on a free loopback port, so that child processes can use it.
func openEmbedded(ctx context.Context, prefix string) (*Store, error) {
	m := miniredis.NewMiniRedis()
	m.SetTime(time.Now())
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start embedded store: %w", err)
	}
	clock := &embeddedClock{store: m, conns: map[*server.Peer]bool{}}
	m.Server().SetPreHook(clock.beforeCommand)

	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	s := &Store{
		Info: history.StoreInfo{Kind: "embedded", Version: "miniredis", RunID: hex.EncodeToString(id)},
		Addr: m.Addr(), Prefix: prefix, client: newClient(m.Addr()), runID: hex.EncodeToString(id),
		end: func(context.Context) error { m.Close(); return nil },
	}
	if err := s.Mark(ctx); err != nil {
		_ = s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// embeddedClock gives the embedded store the time of a real one: it moves before each command, by what has really elapsed,
// so no key expires early; and it stands still inside a script, so "compare, then act" in one script means what it means
// in Redis.
type embeddedClock struct {
	mu    sync.Mutex
	conns map[*server.Peer]bool

	tick  sync.Mutex // reading the clock and setting it must not be torn apart: time would run backwards, and be counted twice
	store *miniredis.Miniredis
}

// beforeCommand runs before every command, those inside scripts included. During those the store's lock is held by the
// script, so setting the time would wait for itself. A connection is told from a script's pseudo-connection by its first
// command: only the pseudo-connection brings its context along.
func (c *embeddedClock) beforeCommand(p *server.Peer, _ string, _ ...string) bool {
	c.mu.Lock()
	if p.Ctx == nil && !c.conns[p] {
		c.conns[p] = true
		p.OnDisconnect(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.conns, p)
		})
	}
	conn := c.conns[p]
	c.mu.Unlock()
	if conn {
		c.advance()
	}
	return false
}

func (c *embeddedClock) advance() {
	c.tick.Lock()
	defer c.tick.Unlock()
	c.store.SetTime(time.Now())
}
