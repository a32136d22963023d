// Package etcdstore is lockcore's Store on etcd: one key a lock, whose value is the token, attached to a lease of etcd's own that is the
// token's alone. It is in the full build only: the client of etcd weighs much.
//
// The fence of an epoch is the revision that created its key. It grows over all keys of a cluster, and etcd compares it itself: Guard is
// the comparison that keeps a write in the same cluster from whoever has lost the lock. Its one invariant: a key is written, deleted or
// prolonged only by what compares it in the same step, or by a lease that no other epoch has.
//
// What a lockcore.Store promises and this one cannot, or not quite:
//   - A TTL is a whole number of seconds, and not less than the servers' least: etcd grants no lease under 1.5 times its election timeout,
//     2 s as it is delivered, and refuses a shorter one.
//   - The end of a lease is late by up to a second: a server looks every half second for those that have run out, and revokes them by an
//     entry of its log.
//   - A new leader among the servers gives every lease its whole TTL again: a takeover may take up to a TTL longer.
//   - A fence is a revision, not a time: a cluster that has lost its data counts from 1 again, and fences go back.
//   - A grant has no time of the server, and what is left of a lease is rounded down to whole seconds.
package etcdstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Unit is the resolution of etcd's leases: a TTL is a whole number of it.
const Unit = time.Second

// Store is a lockcore.Store on etcd.
type Store struct {
	etcd   *clientv3.Client
	leases pb.LeaseClient // grants leases whose id is chosen here
	prefix string
}

// New returns the locks under prefix.
func New(c *clientv3.Client, prefix string) *Store {
	return &Store{etcd: c, leases: clientv3.RetryLeaseClient(c), prefix: prefix}
}

// Guard compares that the epoch of a fence still has the key. As a condition of a transaction of etcd it makes the effect one of the
// holder, or none.
func (s *Store) Guard(key string, fence int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.prefix+key), "=", fence)
}

// Acquire implements lockcore.Store.
func (s *Store) Acquire(ctx context.Context, key, token string, ttl time.Duration) (lockcore.Grant, error) {
	seconds, err := callable(ctx, ttl)
	if err != nil {
		return lockcore.Grant{}, err
	}
	name := s.prefix + key
	there, err := s.etcd.Get(ctx, name) // a refusal, the usual answer to whoever waits, needs no lease
	if err != nil {
		return lockcore.Grant{}, failed("acquire", err)
	}
	if len(there.Kvs) == 0 {
		lease, err := s.lease(ctx, name, token, seconds)
		if err != nil {
			return lockcore.Grant{}, failed("acquire", err)
		}
		free := clientv3.Compare(clientv3.CreateRevision(name), "=", 0)
		done, err := s.etcd.Txn(ctx).If(free).Then(clientv3.OpPut(name, token, clientv3.WithLease(lease))).Else(clientv3.OpGet(name)).Commit()
		if err != nil {
			return lockcore.Grant{}, failed("acquire", err)
		}
		if done.Succeeded {
			return lockcore.Grant{Fence: done.Header.Revision}, nil
		}
		there = (*clientv3.GetResponse)(done.Responses[0].GetResponseRange())
		if len(there.Kvs) == 0 || string(there.Kvs[0].Value) != token {
			s.drop(ctx, lease)
		}
	}
	kv := there.Kvs[0]
	if string(kv.Value) == token { // a lost reply is asked for again
		return lockcore.Grant{Fence: kv.CreateRevision}, nil
	}
	return lockcore.Grant{}, &lockcore.HeldError{Holder: lockcore.Fingerprint(string(kv.Value)), PTTL: s.left(ctx, clientv3.LeaseID(kv.Lease))}
}

// Renew implements lockcore.Store. The lease is prolonged first, and the key compared after that: where it is the token's then, its lease
// was prolonged while the token had it. A lease that is to become longer or shorter is replaced by a transaction.
func (s *Store) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	seconds, err := callable(ctx, ttl)
	if err != nil {
		return err
	}
	name := s.prefix + key
	lease := leaseOf(name, token, seconds)
	_, err = s.etcd.KeepAliveOnce(ctx, lease)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return failed("renew", err)
	}
	alive := err == nil
	there, err := s.etcd.Get(ctx, name)
	if err != nil {
		return failed("renew", err)
	}
	kv, err := owned(there, token)
	if err != nil || alive && clientv3.LeaseID(kv.Lease) == lease {
		return err
	}
	// Its lease is another one: of another TTL, or one that ends just now.
	if lease, err = s.lease(ctx, name, token, seconds); err != nil {
		return failed("renew", err)
	}
	done, err := s.etcd.Txn(ctx).If(s.Guard(key, kv.CreateRevision)).
		Then(clientv3.OpPut(name, token, clientv3.WithLease(lease))).Else(clientv3.OpGet(name)).Commit()
	if err != nil {
		return failed("renew", err)
	}
	if !done.Succeeded {
		s.drop(ctx, lease)
		_, err = owned((*clientv3.GetResponse)(done.Responses[0].GetResponseRange()), token)
		return err
	}
	s.drop(ctx, clientv3.LeaseID(kv.Lease))
	return nil
}

// Release implements lockcore.Store. The key is deleted by a transaction that compares the revision which created it.
func (s *Store) Release(ctx context.Context, key, token string) error {
	if err := begun(ctx); err != nil {
		return err
	}
	name := s.prefix + key
	there, err := s.etcd.Get(ctx, name)
	if err != nil {
		return failed("release", err)
	}
	kv, err := owned(there, token)
	if err != nil {
		return err
	}
	done, err := s.etcd.Txn(ctx).If(s.Guard(key, kv.CreateRevision)).Then(clientv3.OpDelete(name)).Else(clientv3.OpGet(name)).Commit()
	if err != nil {
		return failed("release", err)
	}
	if !done.Succeeded {
		_, err = owned((*clientv3.GetResponse)(done.Responses[0].GetResponseRange()), token)
		return err
	}
	s.drop(ctx, clientv3.LeaseID(kv.Lease))
	return nil
}

// lease is the token's lease of so many seconds, from now on. Its id follows from what it is for: a grant whose reply was lost is asked
// for again, and there is one all the same.
func (s *Store) lease(ctx context.Context, name, token string, seconds int64) (clientv3.LeaseID, error) {
	id := leaseOf(name, token, seconds)
	for {
		granted, err := s.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
		switch err := clientv3.ContextError(ctx, err); {
		case err == nil && granted.TTL > seconds:
			s.drop(ctx, id)
			return id, fmt.Errorf("%w: the servers grant no lease under %d s", lockcore.ErrNotSent, granted.TTL)
		case err == nil:
			return id, nil
		case !errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseExist):
			return id, err
		}
		if _, err := s.etcd.KeepAliveOnce(ctx, id); err == nil || !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return id, err
		}
	}
}

// drop ends a lease that nothing is attached to any more. One that cannot be ended now runs out.
func (s *Store) drop(ctx context.Context, id clientv3.LeaseID) { _, _ = s.etcd.Revoke(ctx, id) }

// left is what a lease has yet; negative = it has no end.
func (s *Store) left(ctx context.Context, id clientv3.LeaseID) time.Duration {
	if id == clientv3.NoLease {
		return -1
	}
	lease, err := s.etcd.TimeToLive(ctx, id)
	if err != nil {
		return 0 // a refusal is sure all the same
	}
	return time.Duration(max(0, lease.TTL)) * time.Second
}

// leaseOf is the id of a lease.
func leaseOf(name, token string, seconds int64) clientv3.LeaseID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", name, token, seconds))
	return clientv3.LeaseID(binary.BigEndian.Uint64(sum[:8])&math.MaxInt64 | 1)
}

// owned is the key if it carries token; else a *lockcore.NotOwnedError.
func owned(there *clientv3.GetResponse, token string) (*mvccpb.KeyValue, error) {
	switch {
	case len(there.Kvs) == 0:
		return nil, &lockcore.NotOwnedError{}
	case string(there.Kvs[0].Value) != token:
		return nil, &lockcore.NotOwnedError{Other: true, Holder: lockcore.Fingerprint(string(there.Kvs[0].Value))}
	}
	return there.Kvs[0], nil
}

// callable refuses what etcd could not do, and what begins too late.
func callable(ctx context.Context, ttl time.Duration) (seconds int64, err error) {
	if err := lockcore.CheckTTL(ttl); err != nil {
		return 0, err
	}
	if ttl%Unit != 0 {
		return 0, fmt.Errorf("ttl %s is no whole number of seconds: %w", ttl, lockcore.ErrNotSent)
	}
	return int64(ttl / Unit), begun(ctx)
}

// begun refuses a call whose context has ended before it began.
func begun(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)
	}
	return nil
}

func failed(op string, err error) error { return fmt.Errorf("%s: %w", op, err) }
