package drill

import (
	"context"
	"fmt"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/probes"
)

// storeKind is a kind of store that the locks of a drill can be in: all that a drill has to know of it.
type storeKind struct {
	open   testbed.OpenLocks // nil = a Redis, which the testbed opens by itself
	needs  []string          // programs that must be on the PATH for one of the run's own
	remedy string            // what is to be installed for these
	probe  func(d *Drill, store testbed.LockStore) (keyProbe, error)
	// environment is what a store of this kind that is somebody's says it is; says is how its owner has it say that, with %s for the name.
	environment func(ctx context.Context, s *experiments.Store) (name string, said bool, err error)
	says        string
	// outside opens a connection of its own, for whoever looks what a fault has done to it; nil = no fault of the store befalls it.
	outside injectors.Outsider
	// question is how the store is asked by whoever measures the way there; nil = no fault of the network befalls it.
	question func(s *stores) (endpoint.Question, error)
	// tap opens a proxy that reads what replicas say to the store; a proxy beside an error is to be closed. nil = none reads that.
	tap func(s *stores, o tap.Options) (*tap.Tap, hop, error)
}

// keyProbe looks at the keys that it is told of.
type keyProbe interface {
	probes.Backend
	Watch(lock, key string)
}

// nearProbe looks more often at the keys that somebody may be about to take.
type nearProbe interface {
	Expect(lock, key string) // Watch for the key of a job, each time that it is offered
	Asked(key string)        // somebody is about to take it
}

// storeKinds are those that this build has.
func storeKinds() map[experiments.StoreKind]storeKind {
	kinds := map[experiments.StoreKind]storeKind{
		experiments.StoreRedis: {probe: probeRedis, outside: injectors.RedisFromOutside(testbed.Dial), question: askRedis, tap: tapRedis},
	}
	if postgres.Built {
		kinds[experiments.StorePostgres] = storeKind{
			open: testbed.OpenPostgres, probe: probePostgres, outside: injectors.PostgresFromOutside(testbed.DialPostgres),
			question: askPostgres, tap: tapPostgres, environment: testbed.PostgresEnvironment, says: "set it (ALTER DATABASE ... SET lockdrill.environment = '%s')",
		}
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
	client, err := postgresOf(store, "lockdrill probe")
	if err != nil {
		return nil, err
	}
	return probes.NewAdvisory(client), nil
}

func postgresOf(store testbed.LockStore, application string) (*postgres.Client, error) {
	locks, ok := store.(interface {
		Client(application string) (*postgres.Client, error)
	})
	if !ok {
		return nil, fmt.Errorf("%T is no PostgreSQL", store)
	}
	return locks.Client(application)
}

func askPostgres(s *stores) (endpoint.Question, error) {
	client, err := postgresOf(s.Held, "lockdrill way")
	if w := s.Held.Where(); err == nil && w.Owned { // as replicas log in, by one round trip
		client, err = testbed.DialPostgres(w)
	}
	if err != nil {
		return endpoint.Question{}, err
	}
	return endpoint.AskPostgres(client.Raw), nil
}

var _ injectors.Server = testbed.LockStore(nil)
