//go:build full

package drill

import (
	"context"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/probes"
)

// addHeavyKinds adds those whose drivers weigh much.
func addHeavyKinds(kinds map[experiments.StoreKind]storeKind) {
	kinds[experiments.StoreEtcd] = storeKind{
		open: testbed.OpenEtcd, needs: []string{"etcd"}, remedy: "install it (Debian: apt install etcd-server)", probe: probeEtcd,
		outside: func(w undo.Store) (injectors.Outside, error) { return testbed.EtcdOutside(w) },
	}
}

// beginWithin bounds the first list of keys.
const beginWithin = 5 * time.Second

func probeEtcd(d *Drill, store testbed.LockStore) (keyProbe, error) {
	ctx, cancel := context.WithTimeout(context.Background(), beginWithin)
	defer cancel()
	at := store.Endpoint()
	return probes.NewEtcd(ctx, at.Addrs, at.Prefix, d.clock)
}
