package redis

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
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

const ms = testkit.MS

var look, at = testkit.Look, testkit.At
