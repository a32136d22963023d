package experiments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// Store says that the locks live in a store of another kind than a Redis, which has a section of its own. A file has one of both.
type Store struct {
	Kind        StoreKind `rule:"required,words=redis|etcd|postgres|lease"` // redis: as the redis section says, or its defaults
	Mode        StoreMode `rule:"words=spawn|external"`                     // spawn: started by the run, on loopback; external: yours
	Members     int       `rule:"min=1,max=5"`                              // etcd, spawn: servers of the cluster, 1, 3 or 5; default 1
	URL         string    `file:"url"`                                      // external: where it is, without a password
	UsernameEnv string    // external: name of the environment variable that holds the user name
	PasswordEnv string    // external: name of the environment variable that holds the password: it never stands in a file
}

func (s *Store) setDefaults() { s.Mode = StoreSpawn }

// StoreKind is a kind of store that locks live in, as the worker protocol calls it.
type StoreKind string

const (
	StoreRedis    StoreKind = "redis"
	StoreEtcd     StoreKind = "etcd"
	StorePostgres StoreKind = "postgres"
	StoreLease    StoreKind = "lease"
)

// StoreMode is spawn or external.
type StoreMode string

const (
	StoreSpawn    StoreMode = "spawn"
	StoreExternal StoreMode = "external"
)

// storeRules is what may be said of a kind of store other than a Redis.
type storeRules struct {
	name  string        // for a person
	modes []StoreMode   // that a run can use
	unit  time.Duration // a lease is a whole number of it; 0 = of any length
}

var storeKinds = map[StoreKind]storeRules{
	StoreEtcd:     {name: "etcd", modes: []StoreMode{StoreSpawn}, unit: time.Second},
	StorePostgres: {name: "PostgreSQL", modes: []StoreMode{StoreSpawn}},
}

// StoreKind is the kind of store that the locks live in.
func (e *Experiment) StoreKind() StoreKind {
	if e.Store == nil {
		return StoreRedis
	}
	return e.Store.Kind
}

// InRedis reports that the locks live in a Redis, as the redis section says.
func (e *Experiment) InRedis() bool { return e.StoreKind() == StoreRedis }

// Leases reports that locks have leases, which end although nobody ends them. An advisory lock of PostgreSQL has none: it is its session's.
func (e *Experiment) Leases() bool { return e.StoreKind() != StorePostgres }

// leastLease is the shortest that the run's own servers grant: etcd's is 1.5 times the time of an election, in whole seconds.
func (s *Store) leastLease() time.Duration {
	if s.Kind == StoreEtcd && s.Servers() > 1 {
		return 2 * time.Second
	}
	return time.Second
}

// Servers is how many servers the run starts.
func (s *Store) Servers() int { return max(1, s.Members) }

// store checks where locks live that are in no Redis.
func (c *checker) store() {
	s := c.e.Store
	if s == nil || c.touched("store.kind") {
		return
	}
	rules, known := storeKinds[s.Kind]
	for _, f := range []ours{
		{"store.members", "is for kind etcd", s.Members != 0 && s.Kind != StoreEtcd},
		{"store.members", "write 1, 3 or 5: an even number of servers bears no more deaths than one less", s.Members%2 == 0 && s.Members != 0},
		{"store.url", "is for mode external; mode spawn starts a store of its own", s.URL != "" && s.Mode != StoreExternal},
		{"store.username_env", "is for mode external; mode spawn starts a store of its own", s.UsernameEnv != "" && s.Mode != StoreExternal},
		{"store.password_env", "is for mode external; mode spawn starts a store of its own", s.PasswordEnv != "" && s.Mode != StoreExternal},
	} {
		c.refuse(f)
	}
	if s.Kind == StoreRedis {
		for _, name := range []string{"mode", "url", "username_env", "password_env"} {
			if c.places["store."+name] != nil {
				c.check("store."+name, "of a Redis the redis section says this: write redis: {%s: ...} and leave the store section out", name)
			}
		}
		return
	}
	for _, f := range []ours{
		{"store.kind", fmt.Sprintf("locks in %s cannot be drilled by this version of lockdrill: choose redis, etcd or postgres", s.Kind), !known},
		{"redis", fmt.Sprintf("the locks live in the %s of the store section: leave one of the two sections out", s.Kind), c.e.Redis.Mode != RedisAuto || c.e.Redis.URL != "" || c.e.Redis.Sentinel != nil},
		{"store", "is for mode embedded: of an observed system the redis section says where its locks are", c.e.Observed()},
		{"store", "is for replicas that are processes of this host: leave the kubernetes section out", c.inPods()},
	} {
		c.refuse(f)
	}
	if known && !slices.Contains(rules.modes, s.Mode) {
		c.check("store.mode", "%s is not possible for %s: choose %s", s.Mode, rules.name, wordsOf(rules.modes))
	}
	if s.Kind == StorePostgres && len(c.e.System.Worker) == 0 && !c.touched("system.worker") {
		c.check("store.kind", "lockdrill's own lock core takes no advisory locks: name a worker that does, system: {worker: [./worker]}")
	}
	c.wholeLeases(rules)
}

// wholeLeases refuses leases that the store cannot grant, as the time scale makes them.
func (c *checker) wholeLeases(rules storeRules) {
	if rules.unit == 0 || c.touched("time_scale") {
		return
	}
	for i := range c.e.System.Locks {
		l := &c.e.System.Locks[i]
		ttl := time.Duration(float64(l.Policy.TTL) * c.e.TimeScale).Round(time.Microsecond)
		if least := c.e.Store.leastLease(); ttl%rules.unit == 0 && ttl > 0 && ttl < least {
			c.check(at("system.locks", i), "several servers of %s grant no lease under %s, and ttl %s at time_scale %v is %s: choose another ttl or time_scale, or one server",
				rules.name, least, l.Policy.TTL, c.e.TimeScale, ttl)
			continue
		}
		if ttl%rules.unit != 0 || ttl < rules.unit {
			c.check(at("system.locks", i), "a lease of %s is a whole number of seconds, and ttl %s at time_scale %v is %s: choose another ttl or time_scale",
				rules.name, l.Policy.TTL, c.e.TimeScale, ttl)
		}
	}
}

// outsideRedis says why a fault cannot be done where the locks are in another store; "" = it can.
func (c *checker) outsideRedis(f *Fault) string {
	if c.e.InRedis() {
		return ""
	}
	kind := c.e.StoreKind()
	switch t := f.Traits(); {
	case f.Net():
		return fmt.Sprintf("faults of the network are for locks in a Redis, and these are in %s: stop or freeze the store, or pause the holder", kind)
	case t.Via == fault.ViaProxy:
		return fmt.Sprintf("via: proxy reads the protocol of Redis, and the locks are in %s: say via: worker", kind)
	case t.AtKey && !t.Session && kind == StorePostgres:
		return "takes a key of a Redis from its holder, and the locks are in postgres: end the holder's session by the fault terminate"
	case t.AtKey && !t.Session:
		return fmt.Sprintf("takes a key of a Redis from its holder, and the locks are in %s: pause the holder for longer than its ttl", kind)
	}
	return ""
}

func wordsOf(modes []StoreMode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return strings.Join(words, " or ")
}
