package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// OnStores runs f on the embedded store and on a real redis-server of the test's own.
func OnStores(t *testing.T, f func(t *testing.T, c *redis.Client)) {
	t.Run("embedded", func(t *testing.T) {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		f(t, Dial(t, m.Addr()))
	})
	t.Run("redis-server", func(t *testing.T) { f(t, Dial(t, Start(t))) })
}

// Dial makes a connection for a test, which tries nothing twice.
func Dial(t testing.TB, addr string) *redis.Client {
	c := node(addr)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
