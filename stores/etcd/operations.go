package etcd

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

const keepAlive = pb.Lease_LeaseKeepAlive_FullMethodName

// etcdLocks tell what a request to an etcd does to locks: a transaction that puts a key with a lease, if there is no such key, acquires it;
// whoever deletes it, or ends its lease, releases it; whoever keeps its lease alive, or gives it another, renews it. They learn from what
// passes which key a lease has, and so know nothing of keys that were put elsewhere.
type etcdLocks struct {
	mu     sync.Mutex
	keys   map[string]etcdKey
	leases map[int64]string // the key of each
}

// etcdKey is a key that was put with a lease.
type etcdKey struct {
	lease int64
	lock  string // the key that contenders have in common
	token string // "" = it has none: its epoch is named by the revision that created it
	epoch string // in that case, as the probe names it
}

const mostEtcdKeys = 50_000 // that are remembered: of one that is forgotten, the renewals pass

// recognize says what a request does, and returns what is to be learned from its answer; nil = nothing.
func (l *etcdLocks) recognize(path string, message []byte) (tap.Operation, func(answer []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(m proto.Message) bool { return proto.Unmarshal(message, m) == nil }
	switch path {
	case pb.KV_Txn_FullMethodName:
		if m := new(pb.TxnRequest); is(m) {
			return l.transaction(m)
		}
	case pb.KV_DeleteRange_FullMethodName:
		if m := new(pb.DeleteRangeRequest); is(m) && len(m.RangeEnd) == 0 {
			return l.release(string(m.Key)), func([]byte) { l.forget(string(m.Key)) }
		}
	case pb.Lease_LeaseRevoke_FullMethodName:
		if m := new(pb.LeaseRevokeRequest); is(m) && l.leases[m.ID] != "" {
			key := l.leases[m.ID]
			return l.release(key), func([]byte) { l.forget(key) }
		}
	case keepAlive:
		if m := new(pb.LeaseKeepAliveRequest); is(m) && l.leases[m.ID] != "" {
			return l.keys[l.leases[m.ID]].operation(burst.Renew), nil
		}
	}
	return tap.Operation{}, nil
}

// transaction looks at what is done where the comparisons hold.
func (l *etcdLocks) transaction(m *pb.TxnRequest) (tap.Operation, func([]byte)) {
	for _, one := range m.Success {
		if del := one.GetRequestDeleteRange(); del != nil && len(del.RangeEnd) == 0 {
			key := string(del.Key)
			return l.release(key), ifDone(func(int64) { l.forget(key) })
		}
		put := one.GetRequestPut()
		if put == nil || put.Lease == 0 {
			continue
		}
		name := string(put.Key)
		known := l.keys[name]
		now := etcdKey{lease: put.Lease, lock: lockOf(name, put.Lease), epoch: known.epoch}
		if now.lock == name {
			now.token = string(put.Value)
		}
		op := burst.Renew
		switch {
		case slices.ContainsFunc(m.Compare, func(c *pb.Compare) bool { return isAbsent(c, name) }):
			op, now.epoch = burst.Acquire, ""
		case known.lease == put.Lease || known.lock == "":
			continue // another value, as of a leader that proclaims something
		}
		return now.operation(op), ifDone(func(created int64) {
			if op == burst.Acquire && now.token == "" {
				now.epoch = revision(created)
			}
			l.learn(name, now)
		})
	}
	return tap.Operation{}, nil
}

// isAbsent reports that a comparison holds where there is no such key.
func isAbsent(c *pb.Compare, key string) bool {
	if string(c.Key) != key || c.Result != pb.Compare_EQUAL {
		return false
	}
	return c.Target == pb.Compare_CREATE && c.GetCreateRevision() == 0 || c.Target == pb.Compare_VERSION && c.GetVersion() == 0
}

// ifDone learns from the answer to a transaction whose comparisons held, and from its revision.
func ifDone(learn func(revision int64)) func([]byte) {
	return func(answer []byte) {
		if m := new(pb.TxnResponse); proto.Unmarshal(answer, m) == nil && m.Succeeded {
			learn(m.Header.GetRevision())
		}
	}
}

func (l *etcdLocks) learn(name string, k etcdKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.leases) >= mostEtcdKeys {
		clear(l.keys)
		clear(l.leases)
	}
	delete(l.leases, l.keys[name].lease)
	l.keys[name], l.leases[k.lease] = k, name
}

// forget: a lease whose key was deleted goes on, and keeping it alive renews no lock.
func (l *etcdLocks) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, l.keys[name].lease)
	delete(l.keys, name)
}

func (l *etcdLocks) release(name string) tap.Operation {
	if k, known := l.keys[name]; known {
		return k.operation(burst.Release)
	}
	return etcdKey{lock: name}.operation(burst.Release)
}

func (k etcdKey) operation(op string) (o tap.Operation) {
	o.One(op, []byte(k.lock))
	o.Token, o.Epoch = []byte(k.token), k.epoch
	return o
}

// lockOf is the key of a lock whose contenders put keys below it, named by their leases as etcd's Mutex and Election do; else the key itself.
func lockOf(key string, lease int64) string {
	return strings.TrimSuffix(key, "/"+strconv.FormatInt(lease, 16))
}
