package redisstore_test

import (
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

func TestMain(m *testing.M) {
	redisstore.Quiet()
	os.Exit(m.Run())
}

// startRedis starts a redis-server of the test's own and returns a client of it and its address.
func startRedis(t testing.TB, args ...string) (*redis.Client, string) {
	t.Helper()
	addr := redistest.Start(t, args...)
	c := redisstore.NewClient(addr)
	t.Cleanup(func() { _ = c.Close() })
	return c, addr
}

// startCluster starts a cluster of the test's own and returns a client of it and its servers' addresses.
func startCluster(t testing.TB) (*redis.ClusterClient, []string) {
	t.Helper()
	addrs := redistest.StartCluster(t)
	c := redisstore.NewClusterClient(addrs...)
	t.Cleanup(func() { _ = c.Close() })
	return c, addrs
}

// startMini starts a miniredis whose time is the test's: leases end by advance alone.
func startMini(t *testing.T) (c *redis.Client, now func() time.Time, advance func(time.Duration)) {
	t.Helper()
	m := miniredis.RunT(t)
	clock := time.UnixMicro(time.Now().UnixMicro())
	m.SetTime(clock)
	m.ClockTTL(true)
	c = redisstore.NewClient(m.Addr())
	t.Cleanup(func() { _ = c.Close() })
	return c, func() time.Time { return clock }, func(d time.Duration) {
		clock = clock.Add(d)
		m.SetTime(clock)
	}
}
