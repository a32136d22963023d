//go:build full

package worker

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/etcdstore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(kinds map[string]connector) { kinds[protocol.KindEtcd] = dialEtcd }

// pingWithin bounds one question whether the store answers.
const pingWithin = time.Second

func dialEtcd(e protocol.Endpoint) (*connection, error) {
	addrs := e.Addrs
	if len(addrs) == 0 {
		addrs = []string{e.Addr}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return &connection{
		ping: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, pingWithin)
			defer cancel()
			_, err := c.Get(ctx, e.Prefix)
			return err
		},
		store: func() lockcore.Store { return etcdstore.New(c, e.Prefix) },
		close: c.Close,
	}, nil
}
