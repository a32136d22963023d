// Package etcd is etcd as a store of locks: servers of a run's own, or somebody's; watches of its keys; the proxy that reads what clients
// say to it.
//
// Its one invariant is that of package stores.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/etcdservers"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores"
)

const (
	readyWithin   = 20 * time.Second // until started servers have a leader: half a second, where the disk is not busy
	answersWithin = time.Second      // one question to the servers
	calibrated    = 4                // leases that the lateness of expiry is taken from
	leastLate     = time.Second      // of a lease's end: the servers look for those that are over twice a second, and revoke them by their log
	port          = "2379"
)

// Kind is the kind etcd.
var Kind = stores.Kind{
	Name: experiments.StoreEtcd, Needs: []string{"etcd"}, Remedy: remedy, Open: open, Environment: environment,
	Says: "set it (etcdctl put " + stores.EnvironmentKey + " %s)", Outside: fromOutside, Leave: leave,
	Later: "whether its servers grant a lease of %s (to ask is a write)",
}

const remedy = "install it (Debian: apt install etcd-server)"

// store is a cluster of etcd servers of this run.
type store struct {
	keys
	version string
	noSync  bool // the servers need not sync their disk: the system's cache outlives them

	mu      sync.Mutex // what is done to the servers is done one thing after the other
	servers []*server
	cluster string // its name: one that has lost its data is another
	lives   int    // how often all of it was started
}

// server is one of them.
type server struct {
	*stores.Spawned
	peers string // host:port for the others
}

// open starts as many servers as the experiment says, and waits until they have a leader; or takes those that it names.
func open(ctx context.Context, g *stores.Ground) (stores.Store, error) {
	if g.Store.Mode == experiments.StoreExternal {
		return openGuest(ctx, g)
	}
	binary, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("store.kind is etcd %w: there is no etcd on the PATH: %s", stores.ErrSettings, remedy)
	}
	help, _ := exec.CommandContext(ctx, binary, "--help").CombinedOutput() // its status differs between versions
	g.Binary = binary
	var s *store
	err = stores.Tries(ctx, func() (func(context.Context) error, error) {
		s = &store{keys: keys{at: protocol.Endpoint{Kind: protocol.KindEtcd, Prefix: g.Prefix}}, noSync: strings.Contains(string(help), "--unsafe-no-fsync")}
		return s.Close, s.open(ctx, g)
	})
	return s, err
}

func (s *store) open(ctx context.Context, g *stores.Ground) (err error) {
	for i := range g.Store.Servers() {
		addr, err1 := stores.FreeAddr()
		peers, err2 := stores.FreeAddr()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		one, err := g.Server("etcd", fmt.Sprintf("locks%d", i+1), addr)
		if err != nil {
			return err
		}
		s.servers, s.at.Addrs = append(s.servers, &server{one, peers}), append(s.at.Addrs, addr)
	}
	s.at.Addr = s.at.Addrs[0]
	if s.clients, err = etcdservers.Each(s.at); err != nil {
		return err
	}
	s.found()
	return s.launch(ctx)
}

// found gives the cluster a name that none had before.
func (s *store) found() { s.cluster = fmt.Sprintf("%s%08x", stores.FolderPrefix, rand.Uint32()) }

// launch starts the servers that do not run, and waits until all have a leader.
func (s *store) launch(ctx context.Context) error {
	if !slices.ContainsFunc(s.servers, (*server).Runs) {
		s.lives++
	}
	all := make([]string, len(s.servers))
	for i, server := range s.servers {
		all[i] = server.Name + "=http://" + server.peers
	}
	for _, server := range s.servers {
		if server.Runs() {
			continue
		}
		clients, peers := "http://"+server.Addr, "http://"+server.peers
		args := []string{"--name", server.Name, "--data-dir", filepath.Join(server.Dir, "data"), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
			"--initial-cluster", strings.Join(all, ","), "--initial-cluster-token", s.cluster}
		if len(s.servers) == 1 { // the shortest lease is 1.5 times this, in whole seconds
			args = append(args, "--heartbeat-interval", "100", "--election-timeout", "600")
		}
		if s.noSync {
			args = append(args, "--unsafe-no-fsync")
		}
		cmd := exec.Command(server.How.Binary, args...)
		cmd.Dir = server.Dir
		if err := server.Run(cmd); err != nil {
			return err
		}
	}
	return s.awaitReady(ctx)
}

// awaitReady polls each server until it says that there is a leader.
func (s *store) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for i, server := range s.servers {
		err := server.Await(ctx, readyWithin, 10*time.Millisecond, "etcd "+server.Name+" has a leader", func(ctx context.Context) error {
			status, err := s.status(ctx, i)
			if err == nil && status.Leader == 0 {
				err = errNoLeader
			}
			if err == nil {
				s.version = status.Version
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *store) About() history.StoreInfo {
	return history.StoreInfo{Kind: "spawned", Version: "etcd " + s.version, RunID: s.id()}
}

// id is this life's.
func (s *store) id() string { return fmt.Sprintf("%s-%d", s.cluster, s.lives) }

func (s *store) Where() undo.Store {
	return undo.Store{Kind: protocol.KindEtcd, Addr: s.at.Addr, Addrs: s.at.Addrs, Owned: true}
}

func (s *store) Life(ctx context.Context) (runID string, marker bool, err error) {
	there, err := s.There(ctx, s.marker())
	if err != nil {
		return "", false, fmt.Errorf("look for marker: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id(), there, nil
}

func (s *store) Processes() (pids []int, busy bool) {
	if !s.mu.TryLock() {
		return nil, true
	}
	defer s.mu.Unlock()
	for _, server := range s.servers {
		pids = append(pids, server.Self.PID)
	}
	return pids, false
}

// Process is the only server; nil where there are several.
func (s *store) Process() *undo.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) > 1 {
		return nil
	}
	return s.servers[0].Process()
}

// Leader is the server that says itself that it leads the others.
func (s *store) Leader(ctx context.Context) (*undo.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, server := range s.servers {
		status, err := s.status(ctx, i)
		if err == nil && status.Leader == status.Header.MemberId {
			return server.Process(), nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errNoLeader)...)
}

// KillServer kills one of the servers.
func (s *store) KillServer(ctx context.Context, p undo.Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		if server.Self == p {
			return server.Kill(ctx)
		}
	}
	return fmt.Errorf("kill etcd %d: it is not one of this run's servers of now", p.PID)
}

func (s *store) Kill(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.Kill(ctx))
	}
	return errors.Join(errs...)
}

// Start starts those servers that do not run. Where none runs and the data is to be gone, they are another cluster.
func (s *store) Start(ctx context.Context, keep bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keep && !slices.ContainsFunc(s.servers, (*server).Runs) {
		for _, server := range s.servers {
			if err := server.Empty(); err != nil {
				return err
			}
		}
		s.found()
	}
	return s.launch(ctx)
}

var errNoLeader = errors.New("there is no leader now")

func (s *store) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.clients.Close()
	for _, server := range s.servers {
		err = errors.Join(err, server.End(ctx))
	}
	return err
}

// keys are those below the prefix of an etcd, whoever has started its servers.
type keys struct {
	clients etcdservers.Servers
	at      protocol.Endpoint
}

func (k keys) marker() string { return k.at.Prefix + "marker" }

// Endpoint implements stores.Store.
func (k keys) Endpoint() protocol.Endpoint { return k.at }

// Watch implements stores.Store.
func (k keys) Watch(clock func() int64) (stores.Watch, error) { return NewWatch(k.at, clock) }

// Question implements stores.Asked.
func (keys) Question(first protocol.Endpoint) (endpoint.Question, error) {
	access, err := endpoint.AccessTo(first, "store")
	return endpoint.AskEtcd(access.TLS), err
}

// Tap implements stores.Tapped, with a listener for each replica and server.
func (k keys) Tap(o tap.Options, replicas []string) (*tap.Tap, stores.Hop, error) {
	t := tap.New(o)
	ways, listeners := NewWays(t), map[string][]string{}
	for _, name := range replicas {
		var err error
		if listeners[name], err = ways.Listen(name, k.at.Addrs); err != nil {
			return t, nil, err
		}
	}
	return t, func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Addrs = listeners[replica]
		e.Addr = e.Addrs[0]
		return e
	}, nil
}

// Mark implements stores.Store.
func (k keys) Mark(ctx context.Context) error { return k.Put(ctx, k.marker(), 0) }

// RoundTrip implements stores.Store.
func (k keys) RoundTrip(ctx context.Context) error {
	_, err := k.clients[0].Get(ctx, k.marker())
	return err
}

// ExpiryLateness lets keys run out with the shortest leases that there are.
func (k keys) ExpiryLateness(ctx context.Context) (time.Duration, error) {
	c, prefix := k.clients[0], k.at.Prefix+"calibrate/"
	ended := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterPut())
	due, worst := map[string]time.Time{}, leastLate
	for i := range calibrated {
		sent := time.Now()
		lease, err := c.Grant(ctx, 1)
		if err != nil {
			return 0, err
		}
		key := fmt.Sprint(prefix, i)
		if _, err := c.Put(ctx, key, "1", clientv3.WithLease(lease.ID)); err != nil {
			return 0, err
		}
		due[key] = sent.Add(time.Duration(lease.TTL) * time.Second)
	}
	for len(due) > 0 {
		news, open := <-ended
		if !open || news.Err() != nil {
			return 0, errors.Join(ctx.Err(), news.Err(), errors.New("the watch of keys that run out was cut"))
		}
		for _, e := range news.Events {
			worst = max(worst, time.Since(due[string(e.Kv.Key)]))
			delete(due, string(e.Kv.Key))
		}
	}
	return worst, nil
}

// get reads from whichever server answers first.
func (k keys) get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	return k.clients.Get(ctx, key, o...)
}

// do does something by whichever server answers first.
func (k keys) do(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	return k.clients.Do(ctx, do)
}

// status is what the i-th server says of itself.
func (k keys) status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	return k.clients[i].Status(ctx, k.clients[i].Endpoints()[0])
}

// fromOutside is the store of a record over connections of its own.
func fromOutside(w undo.Store) (stores.Outside, error) {
	clients, err := etcdservers.Each(stores.EndpointOf(w))
	return outside{keys{clients: clients}}, err
}

// outside is an etcd as whoever looks at it from outside sees it.
type outside struct{ keys }

func (o outside) Close() error { return o.clients.Close() }

// Who is the cluster and its term of office: every start and every change of the leader begins a new one.
func (o outside) Who(ctx context.Context) (id string, err error) {
	var errs []error
	for i := range o.clients {
		status, err := o.status(ctx, i)
		if err == nil {
			return fmt.Sprintf("%x-%d", status.Header.ClusterId, status.RaftTerm), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

func (k keys) Put(ctx context.Context, key string, ttl time.Duration) error {
	return k.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if ttl == 0 {
			_, err := c.Put(ctx, key, "1")
			return err
		}
		lease, err := c.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
		if err != nil {
			return err
		}
		_, err = c.Put(ctx, key, "1", clientv3.WithLease(lease.ID))
		return err
	})
}

func (k keys) There(ctx context.Context, key string) (bool, error) {
	got, err := k.get(ctx, key)
	return err == nil && got.Count == 1, err
}

func (k keys) Drop(ctx context.Context, keys ...string) error {
	return k.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		for _, key := range keys {
			if _, err := c.Delete(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}
