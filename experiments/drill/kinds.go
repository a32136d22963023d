package drill

import (
	"fmt"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/probes"
)

// storeKind is a kind of store that the locks of a drill can be in: all that a drill has to know of it.
type storeKind struct {
	open   testbed.OpenLocks // nil = a Redis, which the testbed opens by itself
	needs  []string          // programs that must be on the PATH for one of the run's own
	remedy string            // what is to be installed for these
	probe  func(d *Drill, store testbed.LockStore) (keyProbe, error)
	// outside opens a connection of its own, for whoever looks what a fault has done to it; nil = no fault befalls this store.
	outside injectors.Outsider
}

// keyProbe looks at the keys that it is told of.
type keyProbe interface {
	probes.Backend
	Watch(lock, key string)  // of a loop
	Expect(lock, key string) // of a job, each time that somebody may be about to take it
	Asked(key string)        // somebody is about to take it
}

// storeKinds are those that this build has.
func storeKinds() map[experiments.StoreKind]storeKind {
	kinds := map[experiments.StoreKind]storeKind{
		experiments.StoreRedis: {probe: probeRedis, outside: injectors.RedisFromOutside(testbed.Dial)},
	}
	if postgres.Built {
		kinds[experiments.StorePostgres] = storeKind{open: testbed.OpenPostgres, probe: probePostgres, outside: injectors.PostgresFromOutside(testbed.DialPostgres)}
	}
	addHeavyKinds(kinds)
	return kinds
}

// kindOf is the row of an experiment's store. A usage error names the build that has it.
func kindOf(e *experiments.Experiment) (storeKind, error) {
	kind, has := storeKinds()[e.StoreKind()]
	if !has {
		return kind, usagef("%s: store.kind %s: this build has no driver of it: use the release or the image, or build it with -tags full (make build does)", e.Name, e.StoreKind())
	}
	return kind, nil
}

func probeRedis(_ *Drill, store testbed.LockStore) (keyProbe, error) {
	redis, ok := store.(*testbed.Store)
	if !ok {
		return nil, fmt.Errorf("%T is no Redis", store)
	}
	options, err := redis.Options()
	if err != nil {
		return nil, err
	}
	return probes.NewLockKeys(options, redis.Prefix), nil
}

func probePostgres(_ *Drill, store testbed.LockStore) (keyProbe, error) {
	locks, ok := store.(*testbed.Postgres)
	if !ok {
		return nil, fmt.Errorf("%T is no PostgreSQL", store)
	}
	client, err := locks.Client("lockdrill probe")
	if err != nil {
		return nil, err
	}
	return probes.NewAdvisory(client), nil
}

var _ injectors.Server = testbed.LockStore(nil)
