//go:build full

package etcdstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/testkit/pointtest"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
)

// cutter loses the reply of the next transaction, once it is armed; of a renewal, which has none, that of the read behind it.
type cutter struct {
	armed atomic.Bool
	reads atomic.Bool // renewals are meant
}

func (c *cutter) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, o...)
	if c.cuts(method) && c.armed.CompareAndSwap(true, false) {
		if !c.reads.Load() {
			return status.Error(codes.Unavailable, "the connection was cut") // which the client does not repeat: it may have had its effect
		}
		<-ctx.Done() // a read would be repeated
		return ctx.Err()
	}
	return err
}

// cuts reports the call that an operation is done with: acquire and release end with a transaction, a renewal with a read.
func (c *cutter) cuts(method string) bool {
	return method == "/etcdserverpb.KV/Txn" || c.reads.Load() && method == "/etcdserverpb.KV/Range"
}

func TestPoints(t *testing.T) {
	pointtest.Run(t, func(t *testing.T) *pointtest.Server {
		cut, server := &cutter{}, etcdtest.Start(t)
		c := connect(t, server.Addr, grpc.WithChainUnaryInterceptor(cut.intercept))
		must := func(t *testing.T, err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		return &pointtest.Server{
			Store:  etcdstore.New(c, ""),
			Stop:   func(t *testing.T) { must(t, server.Stop()) },
			Resume: func(t *testing.T) { must(t, server.Continue()) },
			Cut: func(renewals, on bool) {
				cut.reads.Store(renewals)
				cut.armed.Store(on)
			},
			Lost: time.Second, // it is waited for
		}
	})
}
