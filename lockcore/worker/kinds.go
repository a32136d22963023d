package worker

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// connection is a worker's to the locks' store, of whatever kind.
type connection struct {
	ping  func(context.Context) error
	store func() lockcore.Store // one for each lock: calls that hang must not hold up another lock's
	close func() error
	// epoch is what the store calls the epoch of a fence; nil = it knows the token, whose fingerprint is the epoch's name anyway.
	epoch func(fence int64) string
}

// connector makes the connection; it does not dial yet.
type connector func(protocol.Endpoint) (*connection, error)

// dialStore makes the connection to the locks' store. A kind that this build lacks is an error: the worker does not get ready.
func (w *worker) dialStore(e protocol.Endpoint) (*connection, error) {
	kinds := map[string]connector{protocol.KindRedis: w.dialRedis}
	addHeavyKinds(kinds)
	dial, has := kinds[cmp.Or(e.Kind, protocol.KindRedis)]
	if !has {
		return nil, fmt.Errorf("this build has no locks in a store of the kind %q: take one that is built with -tags full", e.Kind)
	}
	return dial(e)
}

func (w *worker) dialRedis(e protocol.Endpoint) (_ *connection, err error) {
	if w.redis, err = newClient(e); err != nil {
		return nil, err
	}
	return &connection{
		ping:  func(ctx context.Context) error { return w.redis.Ping(ctx).Err() },
		store: func() lockcore.Store { return w.open(w.redis, e.Prefix) },
		close: w.redis.Close,
	}, nil
}

// opener opens a lock's store in a Redis.
type opener func(c *redis.Client, prefix string) lockcore.Store

// batched is the store that is recommended to users, hence the one that is drilled.
func batched(c *redis.Client, prefix string) lockcore.Store { return redisstore.NewBatched(c, prefix) }

// alone is a store in which every operation is a command of its own.
func alone(c *redis.Client, prefix string) lockcore.Store { return redisstore.NewStore(c, prefix) }
