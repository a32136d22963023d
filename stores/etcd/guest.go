package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/etcdservers"
	"github.com/lockdrill/lockdrill/stores"
)

// guest is the run's stay at an etcd that it did not start: its keys are below its prefix, and are gone when it goes.
type guest struct {
	stores.Stay
	keys
	info  history.StoreInfo
	lease clientv3.LeaseID // of the turn
}

// environment is what an etcd says it is, by stores.EnvironmentKey, and whether it says so.
func environment(ctx context.Context, s *experiments.Store) (name string, said bool, err error) {
	keys, w, err := reach(s)
	if err != nil {
		return "", false, err
	}
	defer keys.clients.Close()
	got, err := keys.get(ctx, stores.EnvironmentKey)
	if err != nil {
		return "", false, fmt.Errorf("read %s at %s: %w", stores.EnvironmentKey, stores.Target(w), err)
	}
	for _, kv := range got.Kvs {
		name = string(kv.Value)
	}
	return name, name != "", nil
}

// reach dials the servers that the file names.
func reach(s *experiments.Store) (k keys, w undo.Store, err error) {
	if w, err = stores.At(s, port); err == nil {
		k.at = stores.EndpointOf(w)
		k.clients, err = etcdservers.Each(k.at)
	}
	return k, w, err
}

func openGuest(ctx context.Context, g *stores.Ground) (_ stores.Store, err error) {
	s := &guest{}
	if s.keys, s.Stay.At, err = reach(g.Store); err != nil {
		return nil, err
	}
	s.at.Prefix = g.Prefix
	s.info = history.StoreInfo{Kind: "external"}
	if s.info.RunID, err = s.cluster(ctx); err == nil {
		if status, err := s.status(ctx, 0); err == nil {
			s.info.Version = "etcd " + status.Version
		}
		err = s.grants(ctx, g.TTL)
	}
	if err == nil {
		err = s.Take(ctx, g, s.claimKey, s.renew, leave)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use %s: %w", stores.Target(s.Where()), err), s.clients.Close())
	}
	return s, nil
}

// grants refuses a lease that the servers would prolong: how long one is at least their election timeout decides.
func (k keys) grants(ctx context.Context, ttl time.Duration) error {
	if ttl < time.Second {
		return nil
	}
	got, err := k.clients[0].Grant(ctx, int64(ttl/time.Second))
	if err == nil {
		_, err = k.clients[0].Revoke(ctx, got.ID)
	}
	if err == nil && got.TTL > int64(ttl/time.Second) {
		err = fmt.Errorf("store.url %w: its servers grant no lease under %d s, and a lock of this drill has a ttl of %s: choose another ttl or time_scale", stores.ErrSettings, got.TTL, ttl)
	}
	return err
}

// cluster is the id of the cluster that answers.
func (k keys) cluster(ctx context.Context) (string, error) {
	got, err := k.get(ctx, stores.EnvironmentKey)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", got.Header.ClusterId), nil
}

// claimKey claims the turn's key with a lease of its own, which dies with the run, and the open mark for good.
func (s *guest) claimKey(ctx context.Context, key string) error {
	if key == stores.OpenKey {
		return s.claim(ctx, key, clientv3.NoLease)
	}
	lease, err := s.clients[0].Grant(ctx, int64(stores.TurnTTL/time.Second))
	if err != nil {
		return err
	}
	s.lease = lease.ID
	return s.claim(ctx, key, lease.ID)
}

// claim sets a key of the target to this run, unless it is another's.
func (s *guest) claim(ctx context.Context, key string, lease clientv3.LeaseID) error {
	done, err := s.clients[0].Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, s.Me, clientv3.WithLease(lease))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	if kvs := done.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Value) != s.Me {
		return stores.HeldBy(stores.Target(s.Where()), key, string(kvs[0].Value))
	}
	return nil
}

// renew prolongs the turn.
func (s *guest) renew(ctx context.Context) error {
	if _, err := s.clients[0].KeepAliveOnce(ctx, s.lease); err != nil {
		return s.claimKey(ctx, stores.TurnKey)
	}
	return s.claim(ctx, stores.TurnKey, s.lease)
}

func (s *guest) About() history.StoreInfo { return s.info }

func (s *guest) Where() undo.Store { return s.Stay.At }

func (s *guest) Life(ctx context.Context) (id string, marker bool, err error) {
	if id, err = s.cluster(ctx); err == nil {
		marker, err = s.There(ctx, s.marker())
	}
	return id, marker, err
}

// Mark implements stores.Store. Somebody's own etcd is given the time that the caller has, and is written to once.
func (s *guest) Mark(ctx context.Context) error {
	_, err := s.clients[0].Put(ctx, s.marker(), "1")
	return err
}

func (s *guest) Close(ctx context.Context) error {
	return s.End(func() error { return errors.Join(s.GiveBack(ctx), s.clients.Close()) })
}

// leave undoes a stay at an etcd, from any process that reaches it. The open mark goes last.
func leave(ctx context.Context, r undo.Record) error {
	clients, err := etcdservers.Each(stores.EndpointOf(*r.Store))
	if err != nil {
		return err
	}
	defer clients.Close()
	return keys{clients: clients}.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if _, err := c.Delete(ctx, r.Key.Name, clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("remove keys %s* at %s: %w", r.Key.Name, stores.Target(*r.Store), err)
		}
		left, err := c.Get(ctx, r.Key.Name, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && left.Count > 0 {
			err = errors.New("somebody still writes keys there")
		}
		for _, key := range []string{stores.TurnKey, stores.OpenKey} {
			if err == nil {
				_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", r.Key.Token)).Then(clientv3.OpDelete(key)).Commit()
			}
		}
		if err != nil {
			return fmt.Errorf("give up %s: %w", stores.Target(*r.Store), err)
		}
		return nil
	})
}
