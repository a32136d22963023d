package probes

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// onStores runs f on the embedded store and on a real redis-server of the test's own.
func onStores(t *testing.T, f func(t *testing.T, c *redis.Client)) {
	t.Run("embedded", func(t *testing.T) {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		f(t, client(t, m.Addr()))
	})
	t.Run("redis-server", func(t *testing.T) { f(t, startRedis(t)) })
}

func client(t *testing.T, addr string) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	return client(t, redistest.Start(t))
}

type probe interface {
	Look(ctx context.Context, final bool) (func(history.Span) []history.Event, error)
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// look makes one look with the bracket given, and checks what it yields.
func look(t *testing.T, p probe, at history.Span, final bool) []history.Event {
	t.Helper()
	report, err := p.Look(t.Context(), final)
	for end := time.Now().Add(time.Minute); isTimeout(err) && time.Now().Before(end); { // on a busy machine the runner looks again as well
		report, err = p.Look(t.Context(), final)
	}
	if err != nil {
		t.Fatalf("Look: %v", err)
	}
	events := report(at)
	for _, e := range events {
		if err := e.Check(); err != nil {
			t.Errorf("event %+v: %v", e, err)
		}
	}
	return events
}

const ms = int64(time.Millisecond)

// at is a bracket of 1 ms.
func at(millis int64) history.Span { return history.Span{From: millis * ms, To: (millis + 1) * ms} }
