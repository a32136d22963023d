package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// Where says how the store is dialled, also by another process; without secrets.
func (s *Store) Where() undo.Store {
	w := s.where
	if w.Addr == "" {
		w = undo.Store{Addr: s.Addr, Owned: true}
	}
	return w
}

// Process is the server's process of this moment; nil = the run started none.
func (s *Store) Process() *undo.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.Process()
}

// Processes are those of the server and of its standby; none where the run started none. busy: something is being done to the server now,
// and it was not waited for.
func (s *Store) Processes() (pids []int, busy bool) {
	if !s.mu.TryLock() {
		return nil, true
	}
	defer s.mu.Unlock()
	if p := s.host.Process(); p != nil {
		pids = append(pids, p.PID)
	}
	if s.standby != nil {
		pids = append(pids, s.standby.server.Self.PID)
	}
	return pids, false
}

// Kill ends the server as kill -9 does, and waits for its end.
func (s *Store) Kill(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.Kill(ctx)
}

// Start starts a killed server again at the same address, with the data that it had when it was killed or without any, and waits
// until it answers. One that runs goes on. Where a standby has taken a server's place, another one follows it from now on.
func (s *Store) Start(ctx context.Context, keep bool) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.host.start(ctx, s.client, keep); err != nil {
		return err
	}
	if r, ok := s.host.(*redisServer); ok && s.moved {
		s.standby, err = openStandby(ctx, r.How, s.Addr, r.keep)
		s.moved = err != nil
	}
	return err
}

// Flush removes all data. Of a Redis that the run did not start only the keys of this run: never FLUSHALL.
func (s *Store) Flush(ctx context.Context) error {
	if s.where.Addr != "" {
		return removeKeys(ctx, s.client, s.Prefix, 1)
	}
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("flush store: %w", err)
	}
	return nil
}

// Cut stops the standby from following the server: what is written from now on is lost at the fail-over.
func (s *Store) Cut(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standby == nil {
		return errors.New("fail over: this store has no standby")
	}
	return s.standby.cut(ctx)
}

// FailOver kills the server and puts the standby in its place, at its address, and waits until it answers there.
func (s *Store) FailOver(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.host.(*redisServer)
	if !ok || s.standby == nil {
		return errors.New("fail over: this store has no standby")
	}
	next := s.standby
	if err := old.Kill(ctx); err != nil {
		return err
	}
	if err := next.takeAddress(ctx, s.Addr); err != nil {
		return err
	}
	s.host, s.standby, s.moved = next.server, nil, true
	_, err := next.server.awaitReady(ctx, s.client)
	return errors.Join(err, next.client.Close(), old.End(ctx))
}

// Dial makes connections to the one server of a store as a record describes it; it does not dial yet.
func Dial(w undo.Store) (*redis.Client, error) {
	o, err := optionsOf(w)
	if err != nil {
		return nil, err
	}
	if s := w.Sentinel; s != nil {
		return newFailoverClient(o, s)
	}
	return endpoint.Client(o, answersWithin), nil
}
