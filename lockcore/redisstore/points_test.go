package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit/pointtest"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// The batched store on a real server.
func TestPoints(t *testing.T) {
	pointtest.Run(t, func(t *testing.T) *pointtest.Server {
		cut := &cutter{}
		c := redis.NewClient(redisstore.Tune(&redis.Options{Addr: redistest.Start(t), Dialer: cut.dial}))
		t.Cleanup(func() { _ = c.Close() })
		must := func(t *testing.T, err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		return &pointtest.Server{
			Store: newBatched(t, c, ""),
			Stop: func(t *testing.T) {
				must(t, c.Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "WRITE").Err())
			},
			Resume: func(t *testing.T) { must(t, c.ClientUnpause(t.Context()).Err()) },
			Cut:    func(_, on bool) { cut.armed.Store(on) },
			Lost:   20 * time.Second,
		}
	})
}
