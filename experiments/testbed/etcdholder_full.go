//go:build full

package testbed

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Holder is the key that has the lock of a name: the name itself, or the oldest one below it. Its epoch is the revision that created it.
func (s *etcdStore) Holder(ctx context.Context, name string) (key, epoch, token string, err error) {
	got, err := s.get(ctx, name)
	if err == nil && len(got.Kvs) == 0 {
		got, err = s.get(ctx, name+"/", clientv3.WithFirstCreate()...)
	}
	if err != nil || len(got.Kvs) == 0 {
		return "", "", "", err
	}
	return string(got.Kvs[0].Key), etcdEpoch(got.Kvs[0].CreateRevision), string(got.Kvs[0].Value), nil
}

func etcdEpoch(created int64) string { return fmt.Sprintf("rev-%d", created) }

// End deletes the key of an epoch; none = it is gone.
func (s *etcdStore) End(ctx context.Context, key, epoch string) (none bool, err error) {
	var created int64
	if _, err := fmt.Sscanf(epoch, "rev-%d", &created); err != nil {
		return false, fmt.Errorf("%q is no revision: %w", epoch, err)
	}
	done, err := s.clients[0].Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", created)).Then(clientv3.OpDelete(key)).Commit()
	return err == nil && !done.Succeeded, err
}

// Lives reports whether the key of an epoch is there.
func (s *etcdStore) Lives(ctx context.Context, key, epoch string) (bool, error) {
	got, err := s.get(ctx, key)
	return err == nil && len(got.Kvs) > 0 && etcdEpoch(got.Kvs[0].CreateRevision) == epoch, err
}
