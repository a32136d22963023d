// Package stores is what a drill knows of kinds of stores that locks can be in: a kind is a package below this one, which is registered once
// (Register), and whatever can be done with its stores is found by type.
//
// What servers of a run's own have in common is here too, and so is the run's turn at what is somebody else's. It decides nothing about a
// drill and records nothing in its history.
//
// Its one invariant: what it started is gone after Close, and whatever is a process of its own is also gone when the runner is killed with
// -9 (Linux: by the kernel); a store that it did not start has no key of the run any more.
package stores

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores/witness"
)

// Kind is a kind of store that the locks of a drill can be in.
type Kind struct {
	Name   experiments.StoreKind
	Needs  []string // programs that must be on the PATH for one of the run's own
	Remedy string   // what is to be installed for these
	// Open starts a store, or takes the one that the file names. On an error nothing is left behind.
	Open func(context.Context, *Ground) (Store, error)
	// Environment is what a store that is somebody's says it is; Says is how its owner has it say that, with %s for the name.
	Environment func(context.Context, *experiments.Store) (name string, said bool, err error)
	Says        string
	// Outside opens a connection of its own, for whoever looks what a fault has done to a store; nil = no fault of the store befalls it.
	Outside func(undo.Store) (Outside, error)
	// Leave undoes a stay by its record, from any process that reaches the store; nil = nothing of the run is left there.
	Leave func(context.Context, undo.Record) error
	// Later is what only a write tells of a store that is somebody's, with %s for the drill's shortest lease: a plan says that it is not known; "" = nothing.
	Later string
}

var kinds = map[experiments.StoreKind]Kind{}

// Register makes kinds known. It is for variables of packages, before anything asks.
func Register(all ...Kind) struct{} {
	for _, k := range all {
		kinds[k.Name] = k
	}
	return struct{}{}
}

// Of is the kind of that name. The error names the build that has it.
func Of(name experiments.StoreKind) (Kind, error) {
	kind, has := kinds[name]
	if !has {
		return kind, fmt.Errorf("store.kind %s: this build has no driver of it: use the release or the image, or build it with -tags full (make build does)", name)
	}
	return kind, nil
}

// Store is a store of locks as a drill sees it. What it can do beyond this it says by the interfaces below.
type Store interface {
	About() history.StoreInfo
	Endpoint() protocol.Endpoint // how a replica reaches it
	Where() undo.Store           // how it is dialled, also by another process; without secrets
	// Mark sets a marker that goes with the data. Life is the server's id, which a restart changes, and whether the marker is there.
	Mark(context.Context) error
	Life(context.Context) (id string, marked bool, err error)
	RoundTrip(context.Context) error // asks it something that is quickly answered
	// Watch begins to look at the keys that it is told of; clock is that of the looks. Whoever asked closes it.
	Watch(clock func() int64) (Watch, error)
	Close(context.Context) error // may be called again
}

// Watch looks at the keys that it is told of.
type Watch interface {
	witness.Watch
	Watch(lock, key string)
}

// Near looks more often at the keys that somebody may be about to take.
type Near interface {
	Expect(lock, key string) // Watch for the key of a job, each time that it is offered
	Asked(key string)        // somebody is about to take it
}

// Server is a store whose servers the run has started. Each call waits until it is done.
type Server interface {
	Processes() (pids []int, busy bool) // busy: something is being done to them now, which is not waited for
	Process() *undo.Process             // that a fault of the whole store freezes; nil = none, or several
	Kill(context.Context) error
	Start(ctx context.Context, keep bool) error // with the data that it had, or without; one that runs goes on
}

// Leading is a Server of several servers, one of which leads the others. Which that is, it is asked anew each time.
type Leading interface {
	Leader(context.Context) (*undo.Process, error)
	KillServer(ctx context.Context, p undo.Process) error // Start starts it again
}

// Flushing is a store that can be emptied.
type Flushing interface{ Flush(context.Context) error }

// Standby is a store that another server follows.
type Standby interface {
	Cut(context.Context) error      // the standby follows no longer
	FailOver(context.Context) error // kills the server; the standby takes its address
}

// Kept is a store of somebody's own with standbys, among which Sentinels, or a cluster, choose the primary.
type Kept interface {
	Primary(ctx context.Context, key string) (addr string, err error) // of those that have a key
	HandOver(ctx context.Context, key string) error                   // asks for another
}

// Holders is a store that says who holds: name is that of a key or a session as the store knows it, epoch which one of that name it is.
type Holders interface {
	// Holder is who has the lock of a key; name "" = nobody. token is what the key carries, where that names the epoch as well.
	Holder(ctx context.Context, key string) (name, epoch, token string, err error)
	End(ctx context.Context, name, epoch string) (none bool, err error) // none: it was gone already
	Lives(ctx context.Context, name, epoch string) (bool, error)
}

// Expiring is a store that ends leases by itself. Its lateness is an upper bound: a round trip and the polling are in it.
type Expiring interface {
	ExpiryLateness(context.Context) (worst time.Duration, err error)
}

// Asked is a store that can be asked by whoever measures the way there. first is where the first replica's way begins.
type Asked interface {
	Question(first protocol.Endpoint) (endpoint.Question, error)
}

// Tapped is a store before which a proxy can stand that reads what replicas say to it.
type Tapped interface {
	// Tap opens it, with listeners for each replica; a proxy beside an error is to be closed.
	Tap(o tap.Options, replicas []string) (*tap.Tap, Hop, error)
}

// Hop is a proxy on the way to a store: a replica finds it where that is said to be.
type Hop func(replica string, behind protocol.Endpoint) protocol.Endpoint

// OneServer lets a proxy listen for each replica, before a store of one server. What it is told has no TLS.
func OneServer(replicas []string, listen func(name, addr string) (string, error)) (_ Hop, err error) {
	listeners := map[string]string{}
	for _, name := range replicas {
		if listeners[name], err = listen(name, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	return func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Addr, e.TLS, e.ServerName, e.CA, e.Cert, e.Key = listeners[replica], false, "", "", "", ""
		return e
	}, nil
}

// Outside is a store over a connection of its own, as whoever looks at it from outside sees it.
type Outside interface {
	// Who is the server's id, which a restart changes; "" = it answers and does not tell. Of several servers, their ids together.
	Who(context.Context) (string, error)
	Put(ctx context.Context, key string, ttl time.Duration) error // 0 = for good
	There(ctx context.Context, key string) (bool, error)
	Drop(ctx context.Context, keys ...string) error
	Close() error
}

// Ground is what the run has for a store.
type Ground struct {
	Own
	Store   *experiments.Store
	Cluster *kube.Cluster // of kinds that live in one
	Run     string
	Folder  string        // of the run, absolute: it is shown to whoever wants to run there as well
	Prefix  string        // before every key of the run
	TTL     time.Duration // the shortest of its locks, which the store must grant; 0 = none is told
}

// Server makes the folder of a server of this run, which is written down; Run starts it.
func (g *Ground) Server(kind, name, addr string) (*Spawned, error) {
	s := &Spawned{How: &g.Own, Name: name, Kind: kind, Addr: addr}
	return s, s.MakeFolder()
}

// ErrSettings is wrapped by errors that a person mends by a setting: a variable that is not set, a server that is too old.
var ErrSettings = endpoint.ErrSettings

// At reads the store section of a file, of a store that is somebody's: the first of its servers, and all of them. port is where such a
// server listens, if nobody says otherwise.
func At(s *experiments.Store, port string) (w undo.Store, err error) {
	w = undo.Store{Kind: string(s.Kind), CA: s.CA, Cert: s.Cert, Key: s.Key, UsernameEnv: s.UsernameEnv, PasswordEnv: s.PasswordEnv}
	for _, one := range strings.Split(s.URL, ",") {
		u, err := url.Parse(one)
		if err != nil || u.Hostname() == "" {
			return w, fmt.Errorf("store.url %w: it names no server", ErrSettings) // the words of the parser would show the URL
		}
		w.Addrs = append(w.Addrs, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
		w.TLS = w.TLS || u.Scheme == "https" || s.CA+s.Cert != ""
		w.Database = strings.Trim(u.Path, "/")
	}
	w.Addr = w.Addrs[0]
	return w, Place(&w)
}

// Place makes the paths of a store's files absolute: recover may be run anywhere.
func Place(w *undo.Store) (err error) {
	for _, path := range []*string{&w.CA, &w.Cert, &w.Key} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find the files of certificates: %w", err)
		}
	}
	return nil
}

// EndpointOf is how the store of a record is reached.
func EndpointOf(w undo.Store) protocol.Endpoint {
	return protocol.Endpoint{Kind: w.Kind, Addr: w.Addr, Addrs: w.Addrs, DB: w.DB, Database: w.Database, TLS: w.TLS, CA: w.CA, Cert: w.Cert, Key: w.Key, UsernameEnv: w.UsernameEnv, PasswordEnv: w.PasswordEnv}
}

// Target names a store for a person, without secrets.
func Target(w undo.Store) string { return w.Kind + " " + strings.Join(w.Addrs, ",") }

// EndKeys undoes a stay at a store that the run did not start, as its kind leaves it.
func EndKeys(ctx context.Context, r undo.Record) error {
	if r.Store == nil || r.Key == nil || !strings.HasPrefix(r.Key.Name, "lockdrill:") || strings.Count(r.Key.Name, ":") != 2 || !strings.HasSuffix(r.Key.Name, ":") {
		return fmt.Errorf("remove keys: the record does not name a run's prefix")
	}
	kind, err := Of(experiments.StoreKind(cmp.Or(r.Store.Kind, protocol.KindRedis)))
	if err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	if kind.Leave == nil {
		return nil
	}
	return kind.Leave(ctx, r)
}
