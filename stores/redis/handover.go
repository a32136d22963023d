package redis

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/endpoint"
)

// A Redis of somebody's own that Sentinels or a cluster keep is failed over by asking these: nothing is killed, and the primary stays where
// it goes.

// Primary is the address of the server that has the key, as the Sentinels, or the cluster, say now.
func (s *Store) Primary(ctx context.Context, key string) (addr string, err error) {
	w := s.Where()
	if w.Sentinel != nil {
		err = eachSentinel(ctx, w, func(c *redis.Client) error {
			at, err := c.Do(ctx, "sentinel", "get-master-addr-by-name", w.Sentinel.Master).StringSlice()
			if err == nil && len(at) == 2 {
				addr = net.JoinHostPort(at[0], at[1])
			}
			return err
		})
		return addr, err
	}
	servers, _, err := shard(ctx, w, key)
	if err != nil {
		return "", err
	}
	return servers[0], nil
}

// HandOver asks for a fail-over of the server that has the key, to a replica that is in step with it.
func (s *Store) HandOver(ctx context.Context, key string) error {
	w := s.Where()
	if w.Sentinel != nil {
		err := eachSentinel(ctx, w, func(c *redis.Client) error { return c.Do(ctx, "sentinel", "failover", w.Sentinel.Master).Err() })
		if err != nil {
			err = fmt.Errorf("SENTINEL FAILOVER %s: %w", w.Sentinel.Master, err)
		}
		return err
	}
	servers, o, err := shard(ctx, w, key)
	if err != nil {
		return err
	}
	err = fmt.Errorf("%s has no replica in the cluster", servers[0])
	for _, replica := range servers[1:] {
		own := *o
		own.Addr = replica
		c := endpoint.Client(&own, answersWithin)
		err = errors.Join(c.ClusterFailover(ctx).Err(), c.Close())
		if err == nil {
			return nil
		}
		err = fmt.Errorf("CLUSTER FAILOVER at %s: %w", replica, err)
	}
	return err
}

// eachSentinel asks one after the other until one answers.
func eachSentinel(ctx context.Context, w undo.Store, ask func(*redis.Client) error) error {
	o, err := optionsOf(w)
	if err != nil {
		return err
	}
	own, err := sentinelAccess(w.Sentinel)
	if err != nil {
		return err
	}
	err = errors.New("no Sentinel is named")
	for _, addr := range w.Sentinel.Addrs {
		c := endpoint.Client(&redis.Options{Addr: addr, Username: own.User, Password: own.Password, Dialer: endpoint.Dialer(o)}, answersWithin)
		if err = errors.Join(ask(c), c.Close()); err == nil {
			return nil
		}
	}
	return err
}

// shard is the servers of a cluster that have a key, the primary first, and how each is reached.
func shard(ctx context.Context, w undo.Store, key string) (addrs []string, o *redis.Options, err error) {
	if o, err = optionsOf(w); err != nil {
		return nil, nil, err
	}
	c := endpoint.Client(o, answersWithin)
	defer c.Close()
	slot, err := c.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, nil, err
	}
	all, err := c.ClusterSlots(ctx).Result() //lint:ignore SA1019 CLUSTER SHARDS came with Redis 7.0, and 6.2 is supported
	if err != nil {
		return nil, nil, err
	}
	for _, r := range all {
		if int64(r.Start) <= slot && slot <= int64(r.End) {
			for _, n := range r.Nodes {
				addrs = append(addrs, n.Addr)
			}
		}
	}
	if len(addrs) == 0 {
		return nil, nil, fmt.Errorf("no server of the cluster has slot %d, which is that of %s", slot, key)
	}
	return addrs, o, nil
}

// mayFailOver finds out whether the Sentinels would do it for the run's user, and whether there is a replica for it.
func mayFailOver(ctx context.Context, w undo.Store, asked bool) error {
	return eachSentinel(ctx, w, func(c *redis.Client) error {
		user, err := c.Do(ctx, "acl", "whoami").Text()
		if err != nil && asked {
			return ErrNotTold
		}
		attempt, said := []any{"sentinel", "failover", "lockdrill-no-such-primary"}, "" // which no Sentinel can do
		if asked {
			said, err = c.Do(ctx, append([]any{"acl", "dryrun", user}, attempt...)...).Text()
		} else if err = c.Do(ctx, attempt...).Err(); err != nil && !redis.IsPermissionError(err) {
			err = nil
		}
		switch {
		case redis.IsPermissionError(err), asked && err == nil && said != "OK":
			return errors.New("the Sentinels' user may not use SENTINEL FAILOVER, which the run needs: let the user have +sentinel|failover (ACL SETUSER)")
		case err != nil && asked:
			return ErrNotTold
		case err != nil:
			return err
		}
		replicas, err := c.Do(ctx, "sentinel", "replicas", w.Sentinel.Master).Slice()
		if err == nil && len(replicas) == 0 {
			err = fmt.Errorf("the Sentinels know no replica of %s, and a failover needs one", w.Sentinel.Master)
		}
		return err
	})
}
