//go:build full

package drill

import (
	"context"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/probes"
)

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(kinds map[experiments.StoreKind]storeKind) {
	kinds[experiments.StoreEtcd] = storeKind{
		open: testbed.OpenEtcd, needs: []string{"etcd"}, remedy: "install it (Debian: apt install etcd-server)", probe: probeEtcd, question: askEtcd, tap: tapEtcd,
		environment: testbed.EtcdEnvironment, says: "set it (etcdctl put " + testbed.EnvironmentKey + " %s)",
		outside: func(w undo.Store) (injectors.Outside, error) { return testbed.EtcdOutside(w) },
	}
	kinds[experiments.StoreLease] = storeKind{open: testbed.OpenLeases, probe: probeLeases}
}

func probeLeases(d *Drill, _ testbed.LockStore) (keyProbe, error) {
	return probes.NewLeaseKeys(d.cluster, d.leasesOf(), d.clock), nil
}

// beginWithin bounds the first list of keys.
const beginWithin = 5 * time.Second

func probeEtcd(d *Drill, store testbed.LockStore) (keyProbe, error) {
	ctx, cancel := context.WithTimeout(context.Background(), beginWithin)
	defer cancel()
	return probes.NewEtcd(ctx, store.Endpoint(), d.clock)
}

func askEtcd(s *stores) (endpoint.Question, error) {
	access, err := endpoint.AccessTo(s.behind(s.e.ReplicaNames()[0]), "store")
	return endpoint.AskEtcd(access.TLS), err
}

// tapEtcd opens a proxy with a listener for each replica and server.
func tapEtcd(s *stores, o tap.Options) (*tap.Tap, hop, error) {
	t := tap.New(o)
	ways, listeners := tap.NewEtcdWays(t), map[string][]string{}
	for _, name := range s.e.ReplicaNames() {
		var err error
		if listeners[name], err = ways.Listen(name, s.Held.Endpoint().Addrs); err != nil {
			return t, nil, err
		}
	}
	return t, func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Addrs = listeners[replica]
		e.Addr = e.Addrs[0]
		return e
	}, nil
}
