package experiments

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Store says that the locks live in a store of another kind than a Redis, which has a section of its own. A file has one of both.
type Store struct {
	Kind            StoreKind `rule:"required,words=redis|etcd|postgres|lease"`                                                       // redis: as the redis section says
	Mode            StoreMode `rule:"words=spawn|external,default=spawn,for=kind:etcd|postgres|lease"`                                // spawn: started by the run, on loopback; external: yours
	Members         int       `rule:"min=1,max=5,for=kind:etcd,for=mode:spawn"`                                                       // servers: 1, 3 or 5; default 1
	Context         string    `rule:"for=kind:lease"`                                                                                 // of the kubeconfig; default: its current one. Flags win over the file
	Namespace       string    `rule:"for=kind:lease"`                                                                                 // of the Lease objects; default: the context's
	ReplicasContext string    `rule:"for=kind:lease"`                                                                                 // kubeconfig context of the replicas, with {replica}; default: the run's
	URL             string    `file:"url" rule:"for=kind:etcd|postgres,for=mode:external,need=mode:external,need=kind:etcd|postgres"` // https://a:2379,https://b:2379 or postgres://host:5432/database
	UsernameEnv     string    `rule:"for=kind:etcd|postgres,for=mode:external,format=env"`                                            // variable with the user name
	PasswordEnv     string    `rule:"for=kind:etcd|postgres,for=mode:external,format=env"`                                            // variable with the password
	CA              string    `file:"ca" rule:"for=kind:etcd|postgres,for=mode:external,path,format=pem"`                             // PEM file of the server's authority; default: the system's
	Cert            string    `rule:"for=kind:etcd|postgres,for=mode:external,path,format=pem:own"`                                   // PEM file of the client certificate
	Key             string    `rule:"for=cert,need=cert,path,format=pem:own"`                                                         // PEM file of its key
}

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

// storeKind is what is particular to a kind of store, for what a file may say of it.
type storeKind struct {
	name    string        // for a person
	unit    time.Duration // a lease is a whole number of it; 0 = of any length
	several time.Duration // the shortest lease that several servers of the run's own grant: of etcd 1.5 times an election, in whole seconds; 0 = the unit
	schemes []string      // of the addresses of one that is somebody's
	objects bool          // locks are Lease objects of a Kubernetes cluster, whose end each contender counts from its own look at the last renewal
	session bool          // a lock is its session's: it has no lease, which ends although nobody ends it
	anew    bool          // fences begin anew where the data is lost
}

var storeKinds = map[StoreKind]storeKind{
	StoreEtcd:     {name: "etcd", unit: time.Second, several: 2 * time.Second, schemes: []string{"http", "https"}, anew: true},
	StorePostgres: {name: "PostgreSQL", schemes: []string{"postgres", "postgresql"}, session: true},
	StoreLease:    {name: "Lease objects", unit: time.Second, objects: true},
}

func (e *Experiment) storeKind() storeKind { return storeKinds[e.StoreKind()] }

// StoreKind is the kind of store that the locks live in.
func (e *Experiment) StoreKind() StoreKind {
	if e.Store == nil {
		return StoreRedis
	}
	return e.Store.Kind
}

// InRedis reports that the locks live in a Redis, as the redis section says.
func (e *Experiment) InRedis() bool { return e.StoreKind() == StoreRedis }

// Target names a store that is somebody's, for a person: kind and url, which holds no secret.
func (s *Store) Target() string { return string(s.Kind) + " " + s.URL }

// InObjects reports that the locks of the run itself are Lease objects.
func (e *Experiment) InObjects() bool { return e.storeKind().objects }

// OnLease reports that a lock is a Lease object.
func (e *Experiment) OnLease(l *Lock) bool { return l.Lease != "" || e.InObjects() }

// InCluster is where in a Kubernetes cluster a run works: where its replicas are pods, or its locks Lease objects; nil = in none.
func (e *Experiment) InCluster() *Kubernetes {
	if e.Kubernetes == nil && e.InObjects() {
		return &Kubernetes{Context: e.Store.Context, Namespace: e.Store.Namespace}
	}
	return e.Kubernetes
}

// Leases reports that locks have leases, which end although nobody ends them. An advisory lock of PostgreSQL has none: it is its session's.
func (e *Experiment) Leases() bool { return !e.storeKind().session }

// FencesBeginAnew reports that they do where the store loses its data.
func (e *Experiment) FencesBeginAnew() bool { return e.storeKind().anew }

// ContextOf is the context by which a replica reaches Lease objects.
func (s *Store) ContextOf(replica string) string {
	if s.ReplicasContext == "" {
		return s.Context
	}
	return strings.ReplaceAll(s.ReplicasContext, "{replica}", replica)
}

// Servers is how many servers the run starts.
func (s *Store) Servers() int { return max(1, s.Members) }

// store checks where locks live that are in no Redis.
func (c *checker) store() {
	s := c.e.Store
	if s == nil || c.Invalid("store.kind") {
		return
	}
	c.Refuse(s.Members%2 == 0 && s.Members != 0, "store.members", "write 1, 3 or 5: an even number of servers bears no more deaths than one less")
	if s.Kind == StoreRedis {
		return
	}
	rules := storeKinds[s.Kind]
	c.Refuse(c.e.Redis.Mode != RedisAuto || c.e.Redis.URL != "" || c.e.Redis.Sentinel != nil, "redis", "the locks live in the %s of the store section: leave one of the two sections out", s.Kind)
	if c.Refuse(c.e.Observed(), "store", "is for mode embedded: an observed lock is a key of a Redis (section redis) or a Lease object (lease of the lock), and in no other store. To ask of one in another what becomes of its jobs, leave store and locks out, and say system.effects without lock") {
		return
	}
	c.Refuse(c.inPods(), "store", "is for replicas that are processes of this host: leave the kubernetes section out")
	c.Refuse(rules.objects && s.Mode != StoreExternal, "store.mode", "%s is not possible for %s: choose external", s.Mode, rules.name)
	c.Refuse(rules.session && len(c.e.System.Worker) == 0 && !c.Invalid("system.worker"), "store.kind", "lockdrill's own lock core takes no advisory locks: name a worker that does, system: {worker: [./worker]}")
	if s.Mode == StoreExternal && !rules.objects && s.URL != "" {
		c.guestStore(s, rules)
	}
	c.wholeLeases(rules)
}

// guestStore checks how a store is reached that is somebody's.
func (c *checker) guestStore(s *Store, kind storeKind) {
	const where = "not where your %s is: write it like https://a:2379,https://b:2379, or postgres://host:5432/database"
	for _, one := range strings.Split(s.URL, ",") {
		if why := written(func(string) string { return "" })(nil, one, ""); c.Refuse(why != "", "store.url", "%s", why) {
			continue
		}
		u, err := url.Parse(one) // the words of a parser are not repeated: they quote the URL, and with it the password
		_ = c.Refuse(err != nil || u.Hostname() == "" || !slices.Contains(kind.schemes, u.Scheme) || u.RawQuery != "", "store.url", where, kind.name) ||
			c.Refuse(u.User != nil, "store.url", noUser) || c.Refuse(noPort(u) != "", "store.url", "%s", noPort(u)) ||
			c.Refuse(s.CA != "" && u.Scheme == "http", "store.ca", "is for TLS: write the url with https://") ||
			c.Refuse(s.Cert != "" && u.Scheme == "http", "store.cert", "is for TLS: write the url with https://")
	}
}

// wholeLeases refuses leases that the store cannot grant, as the time scale makes them.
func (c *checker) wholeLeases(rules storeKind) {
	if rules.unit == 0 || c.Invalid("time_scale") {
		return
	}
	least := rules.unit
	if c.e.Store.Servers() > 1 && rules.several > 0 {
		least = rules.several
	}
	for at, l := range entries("system.locks", c.e.System.Locks) {
		ttl := time.Duration(float64(l.Policy.TTL) * c.e.TimeScale).Round(time.Microsecond)
		_ = c.Refuse(ttl%rules.unit == 0 && ttl > 0 && ttl < least, at, "several servers of %s grant no lease under %s, and ttl %s at time_scale %v is %s: choose another ttl or time_scale, or one server",
			rules.name, least, l.Policy.TTL, c.e.TimeScale, ttl) ||
			c.Refuse(ttl%rules.unit != 0 || ttl < rules.unit, at, "a lease of %s is a whole number of seconds, and ttl %s at time_scale %v is %s: choose another ttl or time_scale", rules.name, l.Policy.TTL, c.e.TimeScale, ttl)
	}
}

// outsideRedis says why a fault cannot be done where the locks are in another store, or behind a socket; "" = it can.
func (c *checker) outsideRedis(f *Fault) string {
	if _, _, socket := Socket(c.e.Redis.URL); socket && !c.e.Observed() && (f.Net() || f.Traits().Via == fault.ViaProxy) {
		return "is done on the way to the Redis, and a socket of this host has no room for a proxy: write redis.url with a host and a port"
	}
	if c.e.InRedis() {
		return ""
	}
	kind := c.e.storeKind()
	switch t := f.Traits(); {
	case c.e.Store.Mode == StoreExternal && !kind.objects && (t.AtStore || t.AtKey):
		return "is done to a store of the run's own only, and this one is yours: say store: {mode: spawn}, or kill or pause the holder"
	case f.Net() && kind.objects:
		return "faults of the network are for locks in a Redis, an etcd or a PostgreSQL, and these are Lease objects: pause the holder"
	case f.Net() && strings.HasPrefix(c.e.Store.URL, "https:") && strings.Contains(c.e.Store.URL, ","):
		return "leads the replicas through proxies of one name, and the certificates of several servers name several: name one server in store.url"
	case t.Via == fault.ViaProxy && kind.objects:
		return "via: proxy reads the protocols of Redis, etcd and PostgreSQL, and these are Lease objects: say via: worker"
	case t.Via == fault.ViaProxy && strings.HasPrefix(c.e.Store.URL, "https:"):
		return "via: proxy reads what clients say to an etcd, and this one is reached by TLS: say via: worker, or store: {mode: spawn}"
	case t.Via == fault.ViaProxy && kind.session && c.e.Store.Mode == StoreExternal:
		return "via: proxy reads what clients say to a PostgreSQL of the run's own, without TLS: say via: worker, or store: {mode: spawn}"
	case t.Via == fault.ViaProxy && kind.session && t.Fails == lockcore.OpRenew:
		return "an advisory lock has no renewals: its session keeps it"
	case t.Via == fault.ViaProxy && kind.session && f.Form() == string(fault.ModeError):
		return "on the way to a PostgreSQL calls can be lost or late, and not refused: say mode: lost_reply, timeout or delay, or via: worker"
	case t.AtKey && !t.Session && kind.session:
		return "takes a key of a Redis from its holder, and the locks are in postgres: end the holder's session by the fault terminate"
	case t.Plants:
		return fmt.Sprintf("gives a key of a Redis to a stranger, and the locks are in %s: leave to out, and the key vanishes", kind.name)
	}
	return ""
}
