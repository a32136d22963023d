package redisstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
)

// cutter loses the next reply to a script on any of its connections, once it is told to. What a client asks beside that, such as a
// cluster's state, is not meant.
type cutter struct{ armed atomic.Bool }

type cutConn struct {
	net.Conn
	c      *cutter
	script *atomic.Bool // was asked for last
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return cutConn{conn, c, new(atomic.Bool)}, err
}

func (c cutConn) Write(p []byte) (int, error) {
	c.script.Store(bytes.Contains(bytes.ToLower(p), []byte("\r\neval")))
	return c.Conn.Write(p)
}

func (c cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.script.Load() && c.c.armed.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// go-redis repeats by itself what got no reply, with its own settings and on a cluster with any. A lock's call is not repeated: a
// release that took effect would be answered "not yours".
func TestLostReplyIsNotAskedForAgain(t *testing.T) {
	t.Parallel() // it waits, most of the time
	for name, open := range map[string]func(*testing.T, *cutter) redis.UniversalClient{
		"server": func(t *testing.T, c *cutter) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: redistest.Start(t), Dialer: c.dial})
		},
		"cluster": func(t *testing.T, c *cutter) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t), Dialer: c.dial})
		},
	} {
		t.Run(name, func(t *testing.T) {
			cut := &cutter{}
			c := open(t, cut)
			t.Cleanup(func() { _ = c.Close() })
			onBothPaths(t, func(t *testing.T, open opener) {
				s := open(t, c, t.Name()+":")
				for range 2 { // also loads the scripts
					if _, err := s.Acquire(t.Context(), "k", "one", time.Minute); err != nil {
						t.Fatal(err)
					}
					if err := s.Release(t.Context(), "k", "one"); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Acquire(t.Context(), "k", "one", time.Minute); err != nil {
					t.Fatal(err)
				}
				cut.armed.Store(true)
				if err := s.Release(t.Context(), "k", "one"); lockcore.ResultOf(err) != lockcore.Unknown {
					t.Errorf("release whose reply is lost: %v is %s, want unknown", err, lockcore.ResultOf(err))
				}
				if cut.armed.Load() {
					t.Error("no reply was lost")
				}
			})
		})
	}
}
