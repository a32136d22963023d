package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// rival is a key of somebody who holds a lock, or waits for it.
type rival struct {
	name    string
	value   string // "" = it is named after its lease, and what it says is no token
	created int64
	lease   clientv3.LeaseID
	granted time.Duration // what the servers say of the lease; 0 = not asked yet
	left    int64         // whole seconds
	asked   int64         // when that was
}

// lockKey is the key of the lock that a key of the store belongs to: those that are named after their leases stand below it.
func (p *Watch) lockKey(name string, lease int64) string {
	return lockOf(strings.TrimPrefix(name, p.prefix), lease)
}

func (p *Watch) rivalOf(kv *mvccpb.KeyValue) *rival {
	r := &rival{name: string(kv.Key), created: kv.CreateRevision, lease: clientv3.LeaseID(kv.Lease)}
	if p.lockKey(r.name, kv.Lease) == strings.TrimPrefix(r.name, p.prefix) {
		r.value = string(kv.Value)
	}
	return r
}

// put takes a key that was written, and returns its lock's; "" = whoever has the lock has it as before.
func (p *Watch) put(kv *mvccpb.KeyValue) string {
	n := p.rivalOf(kv)
	name, key := n.name, p.lockKey(n.name, kv.Lease)
	for _, r := range p.rivals[key] {
		if r.name == name {
			if r.value != n.value { // it was overwritten
				*r = *n
				return key
			}
			if r.lease != clientv3.LeaseID(kv.Lease) { // it was prolonged by another lease
				r.lease, r.granted, r.asked = clientv3.LeaseID(kv.Lease), 0, 0
			}
			return ""
		}
	}
	p.rivals[key] = append(p.rivals[key], n)
	slices.SortFunc(p.rivals[key], func(a, b *rival) int { return int(a.created - b.created) })
	return key
}

// drop takes a key that was deleted: nothing but its name is told of it.
func (p *Watch) drop(name string) string {
	bare := strings.TrimPrefix(name, p.prefix)
	above := bare
	if cut := strings.LastIndexByte(bare, '/'); cut > 0 {
		above = bare[:cut]
	}
	for _, key := range []string{bare, above} {
		for i, r := range p.rivals[key] {
			if r.name == name {
				if p.rivals[key] = slices.Delete(p.rivals[key], i, i+1); len(p.rivals[key]) == 0 {
					delete(p.rivals, key)
				}
				return key
			}
		}
	}
	return ""
}

// Holder is the key that has the lock of a name: the name itself, or the oldest one below it. Its epoch is the revision that created it.
func (s *store) Holder(ctx context.Context, name string) (key, epoch, token string, err error) {
	got, err := s.get(ctx, name)
	if err == nil && len(got.Kvs) == 0 {
		got, err = s.get(ctx, name+"/", clientv3.WithFirstCreate()...)
	}
	if err != nil || len(got.Kvs) == 0 {
		return "", "", "", err
	}
	return string(got.Kvs[0].Key), revision(got.Kvs[0].CreateRevision), string(got.Kvs[0].Value), nil
}

func revision(created int64) string { return fmt.Sprintf("rev-%d", created) }

// End deletes the key of an epoch; none = it is gone.
func (s *store) End(ctx context.Context, key, epoch string) (none bool, err error) {
	var created int64
	if _, err := fmt.Sscanf(epoch, "rev-%d", &created); err != nil {
		return false, fmt.Errorf("%q is no revision: %w", epoch, err)
	}
	done, err := s.clients[0].Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", created)).Then(clientv3.OpDelete(key)).Commit()
	return err == nil && !done.Succeeded, err
}

// Lives reports whether the key of an epoch is there.
func (s *store) Lives(ctx context.Context, key, epoch string) (bool, error) {
	got, err := s.get(ctx, key)
	return err == nil && len(got.Kvs) > 0 && revision(got.Kvs[0].CreateRevision) == epoch, err
}
