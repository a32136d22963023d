package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// turns listens for the turns of all waiters of this store, on one connection.
type turns struct {
	redis   redis.UniversalClient
	channel string

	mu     sync.Mutex
	last   int64
	places map[string]*place // by ticket
	sub    *redis.PubSub     // nil until somebody waits
	closed bool
	heard  sync.WaitGroup

	listening chan struct{} // closed when turns will be heard
}

const (
	listenLimit = time.Second // for the server to hear that we listen
	maxTurns    = 1024        // messages that wait to be told on; go-redis drops what comes on top, and its waiters ask
)

// newTurns makes a channel of its own: tickets of different processes must never be taken for one another.
func newTurns(c redis.UniversalClient, prefix string) *turns {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return &turns{redis: c, channel: prefix + "turns:" + hex.EncodeToString(id[:]), places: map[string]*place{}, listening: make(chan struct{})}
}

// open registers a place. The first one begins to listen, and all wait until the server has heard of it: a turn that came earlier
// would get lost. Where it has not when ctx ends, the connection is made later, and until then waiters find out by asking.
func (t *turns) open(ctx context.Context, p *place) {
	t.mu.Lock()
	t.last++
	p.ticket = t.channel + "#" + strconv.FormatInt(t.last, 10)
	t.places[p.ticket] = p
	first := t.sub == nil && !t.closed
	if first {
		t.sub = t.redis.Subscribe(context.Background()) // it connects again by itself
		t.heard.Add(1)
	}
	t.mu.Unlock()
	if first {
		go t.listen(t.sub)
	}
	select {
	case <-t.listening:
	case <-ctx.Done():
	}
}

// listen tells waiters of their turns until close.
func (t *turns) listen(sub *redis.PubSub) {
	defer t.heard.Done()
	ctx, cancel := context.WithTimeout(context.Background(), listenLimit)
	if sub.Subscribe(ctx, t.channel) == nil {
		_, _ = sub.ReceiveTimeout(ctx, listenLimit) // the confirmation; without one the channel below connects again
	}
	cancel()
	close(t.listening)
	for m := range sub.Channel(redis.WithChannelSize(maxTurns)) {
		t.tell(m.Payload)
	}
}

func (t *turns) tell(ticket string) {
	t.mu.Lock()
	p := t.places[ticket]
	t.mu.Unlock()
	if p == nil {
		return // it has gone, and says so at the store itself
	}
	p.missed.Store(true)
	select {
	case p.turn <- struct{}{}:
	default:
	}
}

func (t *turns) forget(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.places, p.ticket)
}

func (t *turns) close() error {
	t.mu.Lock()
	t.closed = true
	sub := t.sub
	t.mu.Unlock()
	if sub == nil {
		return nil
	}
	err := sub.Close()
	t.heard.Wait()
	if err != nil {
		return fmt.Errorf("close the line's connection: %w", err)
	}
	return nil
}
