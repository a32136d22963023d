package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
)

// subscription takes the keyspace events of one server.
type subscription struct {
	ps     *redis.PubSub
	prefix string // of the channels
	canary string
	ended  chan struct{}

	mu      sync.Mutex
	err     error           // why nothing is told any more
	changed map[string]bool // keys that events told of; true = of more than that a lease was over
	seen    int64           // canaries that were both set and given an expiry
	half    bool            // the last canary was set
	got     int64           // messages
	asked   int64           // pings
	pongs   map[string]chan struct{}
	last    history.Span // the last barrier
}

const lookTimeout = time.Second // for a server's answer to a subscription

var errResubscribed = errors.New("the subscription to keyspace events was made anew")

// subscribe begins to take the events of the keys that the patterns mean. A redis.Error says that the server refuses it.
func subscribe(ctx context.Context, c *redis.Client, db int, canary string, patterns []string) (*subscription, error) {
	s := &subscription{
		ps: c.PSubscribe(ctx), prefix: channelOf(db, ""), canary: canary, ended: make(chan struct{}), changed: map[string]bool{}, pongs: map[string]chan struct{}{},
	}
	channels := []string{channelOf(db, globQuote(canary))}
	for _, pattern := range patterns {
		channels = append(channels, channelOf(db, pattern))
	}
	err := s.ps.PSubscribe(ctx, channels...)
	for range channels {
		if err == nil {
			_, err = s.ps.ReceiveTimeout(ctx, lookTimeout)
		}
	}
	if err != nil {
		_ = s.ps.Close()
		return nil, err
	}
	go s.run()
	return s, nil
}

func (s *subscription) close() {
	_ = s.ps.Close()
	<-s.ended
}

// run takes what the server says until the connection breaks. go-redis would mend it unseen: what was told meanwhile is lost, so whatever
// breaks ends the subscription.
func (s *subscription) run() {
	defer close(s.ended)
	for {
		m, err := s.ps.Receive(context.Background())
		if !s.note(m, err) {
			return
		}
	}
}

func (s *subscription) note(m any, err error) (goOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := m.(type) {
	case *redis.Message:
		s.got++
		s.event(strings.TrimPrefix(m.Channel, s.prefix), m.Payload)
	case *redis.Pong:
		if p := s.pongs[m.Payload]; p != nil {
			close(p)
			delete(s.pongs, m.Payload)
		}
	case *redis.Subscription: // it was made anew
		err = errResubscribed
	}
	if err != nil {
		s.err = err
		for _, p := range s.pongs {
			close(p)
		}
		s.pongs = nil
	}
	return err == nil
}

// event takes one event.
func (s *subscription) event(key, what string) {
	if key != s.canary {
		s.changed[key] = s.changed[key] || what != "expired"
		return
	}
	switch what {
	case "set":
		s.half = true
	case "expire":
		if s.half {
			s.seen++
		}
		s.half = false
	}
}

// barrier waits until all is told that happened before it was asked for.
func (s *subscription) barrier(ctx context.Context, clock func() int64) (history.Span, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return history.Span{}, s.err
	}
	s.asked++
	id, told := strconv.FormatInt(s.asked, 10), make(chan struct{})
	s.pongs[id] = told
	s.mu.Unlock()
	at := history.At(clock())
	if err := s.ps.Ping(ctx, id); err != nil {
		return at, err
	}
	select {
	case <-told:
	case <-ctx.Done():
		return at, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at.To = clock()
	s.last = at
	return at, s.err
}

// take gives the keys that events told of until the last barrier, or a little later.
func (s *subscription) take() (map[string]bool, history.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.changed
	s.changed = map[string]bool{}
	return changed, s.last
}

func (s *subscription) canaries() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *subscription) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}
