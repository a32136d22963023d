//go:build full

package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// etcdGuest is the run's stay at an etcd that it did not start: its keys are below its prefix, and are gone when it goes.
type etcdGuest struct {
	notOurs
	keptTurn
	etcdKeys
	where   undo.Store
	info    history.StoreInfo
	journal *undo.Journal
	record  int
	me      string           // the value of the lease key and of the open mark
	lease   clientv3.LeaseID // of the turn
}

// EtcdEnvironment is what an etcd says it is, by EnvironmentKey, and whether it says so.
func EtcdEnvironment(ctx context.Context, s *experiments.Store) (name string, said bool, err error) {
	keys, w, err := reachEtcd(s)
	if err != nil {
		return "", false, err
	}
	defer keys.clients.Close()
	got, err := keys.get(ctx, EnvironmentKey)
	if err != nil {
		return "", false, fmt.Errorf("read %s at %s: %w", EnvironmentKey, targetOf(w), err)
	}
	for _, kv := range got.Kvs {
		name = string(kv.Value)
	}
	return name, name != "", nil
}

// reachEtcd dials the servers that the file names.
func reachEtcd(s *experiments.Store) (keys etcdKeys, w undo.Store, err error) {
	if w, err = storeAt(s); err == nil {
		keys.clients, err = endpoint.EachEtcd(endpointOf(w))
	}
	return keys, w, err
}

func openEtcdGuest(ctx context.Context, g *Ground) (_ LockStore, err error) {
	s := &etcdGuest{journal: g.Journal}
	if s.etcdKeys, s.where, err = reachEtcd(g.Store); err != nil {
		return nil, err
	}
	s.prefix = g.Prefix
	s.info = history.StoreInfo{Kind: "external"}
	if s.info.RunID, err = s.cluster(ctx); err == nil {
		if status, err := s.status(ctx, 0); err == nil {
			s.info.Version = "etcd " + status.Version
		}
		s.me, err = holder(g.Run, g.Folder)
	}
	if err == nil {
		err = s.take(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use %s: %w", targetOf(s.where), err), s.clients.Close())
	}
	return s, nil
}

// cluster is the id of the cluster that answers.
func (k etcdKeys) cluster(ctx context.Context) (string, error) {
	got, err := k.get(ctx, EnvironmentKey)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", got.Header.ClusterId), nil
}

// take writes the stay down, takes the turn and leaves the open mark.
func (s *etcdGuest) take(ctx context.Context) (err error) {
	s.record, err = s.journal.Intend(s.stay())
	if err != nil {
		return err
	}
	if err = s.claimTurn(ctx); err == nil {
		err = s.claim(ctx, openKey, clientv3.NoLease)
	}
	if err != nil {
		return abandon(ctx, err, s.giveBack)
	}
	s.keep(ctx, s.renew)
	return nil
}

func (s *etcdGuest) stay() undo.Record {
	return undo.Record{Kind: undo.StandKeys, Store: &s.where, Key: &undo.Key{Name: s.prefix, Token: s.me}}
}

// claimTurn takes the turn with a lease of its own, which dies with the run.
func (s *etcdGuest) claimTurn(ctx context.Context) error {
	lease, err := s.clients[0].Grant(ctx, int64(leaseTTL/time.Second))
	if err != nil {
		return err
	}
	s.lease = lease.ID
	return s.claim(ctx, leaseKey, lease.ID)
}

// claim sets a key of the target to this run, unless it is another's.
func (s *etcdGuest) claim(ctx context.Context, key string, lease clientv3.LeaseID) error {
	done, err := s.clients[0].Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, s.me, clientv3.WithLease(lease))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	if kvs := done.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Value) != s.me {
		held := heldBy(s.where, key, string(kvs[0].Value))
		held.Target = targetOf(s.where)
		return held
	}
	return nil
}

// renew prolongs the turn; an error says that it is another's by now. A target that does not answer now is asked again.
func (s *etcdGuest) renew(ctx context.Context) error {
	_, err := s.clients[0].KeepAliveOnce(ctx, s.lease)
	if err == nil {
		err = s.claim(ctx, leaseKey, s.lease)
	} else {
		err = s.claimTurn(ctx)
	}
	if held := new(HeldError); errors.As(err, &held) {
		return held
	}
	return nil
}

func (s *etcdGuest) About() history.StoreInfo { return s.info }

func (s *etcdGuest) Endpoint() protocol.Endpoint {
	e := endpointOf(s.where)
	e.Prefix = s.prefix
	return e
}

func (s *etcdGuest) Where() undo.Store { return s.where }

func (s *etcdGuest) Life(ctx context.Context) (id string, marker bool, err error) {
	if id, err = s.cluster(ctx); err == nil {
		marker, err = s.There(ctx, s.marker())
	}
	return id, marker, err
}

// Mark implements LockStore. Somebody's own etcd is given the time that the caller has, and is written to once.
func (s *etcdGuest) Mark(ctx context.Context) error {
	_, err := s.clients[0].Put(ctx, s.marker(), "1")
	return err
}

func (s *etcdGuest) Close(ctx context.Context) error {
	return s.end(func() error { return errors.Join(s.giveBack(ctx), s.clients.Close()) })
}

func (s *etcdGuest) giveBack(ctx context.Context) error {
	if err := endEtcdKeys(ctx, s.stay()); err != nil {
		return err
	}
	return s.journal.Mark(s.record, undo.Undone, "")
}

// endEtcdKeys undoes a stay at an etcd, from any process that reaches it. The open mark goes last.
func endEtcdKeys(ctx context.Context, r undo.Record) error {
	at, err := EtcdOutside(*r.Store)
	if err != nil {
		return err
	}
	defer at.Close()
	return at.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if _, err := c.Delete(ctx, r.Key.Name, clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("remove keys %s* at %s: %w", r.Key.Name, targetOf(*r.Store), err)
		}
		left, err := c.Get(ctx, r.Key.Name, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && left.Count > 0 {
			err = errors.New("somebody still writes keys there")
		}
		for _, key := range []string{leaseKey, openKey} {
			if err == nil {
				_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", r.Key.Token)).Then(clientv3.OpDelete(key)).Commit()
			}
		}
		if err != nil {
			return fmt.Errorf("give up %s: %w", targetOf(*r.Store), err)
		}
		return nil
	})
}
