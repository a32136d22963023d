package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// openEmbedded starts a Redis inside this process, on a free loopback port, so that child processes can use it.
func openEmbedded(prefix string) (*Store, error) {
	m := miniredis.NewMiniRedis()
	m.SetTime(time.Now())
	m.ClockTTL(true)
	h := &embeddedHost{redis: m}
	if err := h.listen("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start embedded store: %w", err)
	}
	return &Store{
		Info: history.StoreInfo{Kind: "embedded", Version: "miniredis", RunID: h.runID},
		Addr: m.Addr(), Prefix: prefix, client: endpoint.Client(&redis.Options{Addr: m.Addr()}, answersWithin), host: h, self: h.id,
	}, nil
}

// embeddedHost is a Redis inside this process. It keeps no data over a kill.
type embeddedHost struct {
	redis *miniredis.Miniredis

	mu    sync.Mutex
	runID string
	runs  bool
}

// listen starts a new life at addr.
func (h *embeddedHost) listen(addr string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.redis.StartAddr(addr); err != nil {
		return err
	}
	clock := &embeddedClock{store: h.redis, conns: map[*server.Peer]bool{}}
	h.redis.Server().SetPreHook(clock.beforeCommand)
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	h.runID, h.runs = hex.EncodeToString(id), true
	return nil
}

// id is this life's.
func (h *embeddedHost) id() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runID, nil
}

// Process implements host.
func (h *embeddedHost) Process() *undo.Process { return nil }

// Kill implements host.
func (h *embeddedHost) Kill(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs {
		h.redis.Close()
		h.redis.FlushAll()
		h.runs = false
	}
	return nil
}

// start implements host.
func (h *embeddedHost) start(ctx context.Context, client redis.UniversalClient, keep bool) error {
	h.mu.Lock()
	runs := h.runs
	h.mu.Unlock()
	switch {
	case keep:
		return errors.New("start embedded store with its data: it keeps none")
	case runs:
		return nil
	}
	if err := h.listen(client.(*redis.Client).Options().Addr); err != nil {
		return fmt.Errorf("start embedded store: %w", err)
	}
	return client.Ping(ctx).Err()
}

// End implements host.
func (h *embeddedHost) End(ctx context.Context) error { return h.Kill(ctx) }

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
