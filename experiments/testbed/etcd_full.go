//go:build full

package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

const (
	etcdReady   = 20 * time.Second // until started servers have a leader: half a second, where the disk is not busy
	etcdAnswers = time.Second      // for one question to the servers
	etcdLeases  = 4                // that the lateness of expiry is taken from
	etcdLate    = time.Second      // of a lease's end at least: the servers look for those that are over twice a second, and revoke them by their log
)

// etcdStore is a cluster of etcd servers of this run.
type etcdStore struct {
	etcdKeys
	version string
	noSync  bool // the servers need not sync their disk: the system's cache outlives them

	mu      sync.Mutex // what is done to the servers is done one thing after the other
	servers []*etcdServer
	cluster string // its name: one that has lost its data is another
	lives   int    // how often all of it was started
}

// etcdServer is one of them.
type etcdServer struct {
	*spawned
	peers string // host:port for the others
}

// OpenEtcd starts as many servers as the experiment says, and waits until they have a leader; or takes those that it names.
func OpenEtcd(ctx context.Context, g *Ground) (LockStore, error) {
	if g.Store.Mode == experiments.StoreExternal {
		return openEtcdGuest(ctx, g)
	}
	binary, err := exec.LookPath("etcd")
	if err != nil {
		return nil, fmt.Errorf("store.kind is etcd %w: there is no etcd on the PATH: install it (Debian: apt install etcd-server)", ErrSettings)
	}
	help, _ := exec.CommandContext(ctx, binary, "--help").CombinedOutput() // its status differs between versions
	g.servers.binary = binary
	var errs []error
	for range spawnTries {
		s := &etcdStore{etcdKeys: etcdKeys{prefix: g.Prefix}, noSync: strings.Contains(string(help), "--unsafe-no-fsync")}
		err := s.open(ctx, g)
		if err == nil {
			return s, nil
		}
		errs = append(errs, abandon(ctx, err, s.Close))
		if ctx.Err() != nil || !errors.Is(err, errEnded) { // between finding a free port and using it another process may take it
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (s *etcdStore) open(ctx context.Context, g *Ground) error {
	var addrs []string
	for i := range g.Store.Servers() {
		port, err1 := freePort()
		peers, err2 := freePort()
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		server, err := g.server("etcd", fmt.Sprintf("locks%d", i+1), addr)
		if err != nil {
			return err
		}
		s.servers, addrs = append(s.servers, &etcdServer{server, net.JoinHostPort("127.0.0.1", peers)}), append(addrs, addr)
	}
	clients, err := endpoint.EachEtcd(protocol.Endpoint{Addrs: addrs})
	if err != nil {
		return err
	}
	s.clients = clients
	s.found()
	return s.launch(ctx)
}

// found gives the cluster a name that none had before.
func (s *etcdStore) found() { s.cluster = fmt.Sprintf("%s%08x", folderPrefix, rand.Uint32()) }

// launch starts the servers that do not run, and waits until all have a leader.
func (s *etcdStore) launch(ctx context.Context) error {
	if !slices.ContainsFunc(s.servers, (*etcdServer).runs) {
		s.lives++
	}
	all := make([]string, len(s.servers))
	for i, server := range s.servers {
		all[i] = server.name + "=http://" + server.peers
	}
	for _, server := range s.servers {
		if server.runs() {
			continue
		}
		clients, peers := "http://"+server.addr, "http://"+server.peers
		args := []string{"--name", server.name, "--data-dir", filepath.Join(server.dir, "data"), "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
			"--initial-cluster", strings.Join(all, ","), "--initial-cluster-token", s.cluster}
		if len(s.servers) == 1 { // the shortest lease is 1.5 times this, in whole seconds
			args = append(args, "--heartbeat-interval", "100", "--election-timeout", "600")
		}
		if s.noSync {
			args = append(args, "--unsafe-no-fsync")
		}
		cmd := exec.Command(server.how.binary, args...)
		cmd.Dir = server.dir
		if err := server.run(cmd); err != nil {
			return err
		}
	}
	return s.awaitReady(ctx)
}

// awaitReady polls each server until it says that there is a leader.
func (s *etcdStore) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdReady)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for i, server := range s.servers {
		for {
			status, err := s.status(ctx, i)
			if err == nil && status.Leader != 0 {
				s.version = status.Version
				break
			}
			select {
			case <-poll.C:
			case <-server.done:
				return fmt.Errorf("start etcd: %w (%s): %s", errEnded, server.cmd.ProcessState, &server.log)
			case <-ctx.Done():
				return fmt.Errorf("wait until etcd %s has a leader: %w: %s", server.name, errors.Join(ctx.Err(), err), &server.log)
			}
		}
	}
	return nil
}

func (s *etcdStore) About() history.StoreInfo {
	return history.StoreInfo{Kind: "spawned", Version: "etcd " + s.version, RunID: s.id()}
}

// id is this life's.
func (s *etcdStore) id() string { return fmt.Sprintf("%s-%d", s.cluster, s.lives) }

func (s *etcdStore) addrs() []string {
	var all []string
	for _, server := range s.servers {
		all = append(all, server.addr)
	}
	return all
}

func (s *etcdStore) Endpoint() protocol.Endpoint {
	return protocol.Endpoint{Kind: protocol.KindEtcd, Addr: s.servers[0].addr, Addrs: s.addrs(), Prefix: s.prefix}
}

func (s *etcdStore) Where() undo.Store {
	return undo.Store{Kind: protocol.KindEtcd, Addr: s.servers[0].addr, Addrs: s.addrs(), Owned: true}
}

func (s *etcdStore) Life(ctx context.Context) (runID string, marker bool, err error) {
	there, err := s.There(ctx, s.marker())
	if err != nil {
		return "", false, fmt.Errorf("look for marker: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id(), there, nil
}

func (s *etcdStore) Processes() (pids []int, busy bool) {
	if !s.mu.TryLock() {
		return nil, true
	}
	defer s.mu.Unlock()
	for _, server := range s.servers {
		pids = append(pids, server.self.PID)
	}
	return pids, false
}

// Process is the only server; nil where there are several.
func (s *etcdStore) Process() *undo.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.servers) > 1 {
		return nil
	}
	return s.servers[0].process()
}

// Leader is the server that says itself that it leads the others.
func (s *etcdStore) Leader(ctx context.Context) (*undo.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, server := range s.servers {
		status, err := s.status(ctx, i)
		if err == nil && status.Leader == status.Header.MemberId {
			return server.process(), nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errors.New("there is no leader now"))...)
}

// KillServer kills one of the servers.
func (s *etcdStore) KillServer(ctx context.Context, p undo.Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.servers {
		if server.self == p {
			return server.kill(ctx)
		}
	}
	return fmt.Errorf("kill etcd %d: it is not one of this run's servers of now", p.PID)
}

func (s *etcdStore) Kill(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.kill(ctx))
	}
	return errors.Join(errs...)
}

// Start starts those servers that do not run. Where none runs and the data is to be gone, they are another cluster.
func (s *etcdStore) Start(ctx context.Context, keep bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !keep && !slices.ContainsFunc(s.servers, (*etcdServer).runs) {
		for _, server := range s.servers {
			if err := empty(server.dir); err != nil {
				return fmt.Errorf("drop the data of etcd: %w", err)
			}
		}
		s.found()
	}
	return s.launch(ctx)
}

var errNotEtcd = errors.New("cannot be done to etcd")

func (s *etcdStore) Flush(context.Context) error    { return fmt.Errorf("flush %w", errNotEtcd) }
func (s *etcdStore) Cut(context.Context) error      { return fmt.Errorf("fail over %w", errNotEtcd) }
func (s *etcdStore) FailOver(context.Context) error { return fmt.Errorf("fail over %w", errNotEtcd) }

func (s *etcdStore) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.clients.Close()
	for _, server := range s.servers {
		err = errors.Join(err, server.end(ctx))
	}
	return err
}

// etcdKeys are the keys below a prefix of an etcd, whoever has started its servers.
type etcdKeys struct {
	clients endpoint.EtcdServers
	prefix  string
}

func (k etcdKeys) marker() string { return k.prefix + "marker" }

// Mark implements LockStore.
func (k etcdKeys) Mark(ctx context.Context) error { return k.Put(ctx, k.marker(), 0) }

func (k etcdKeys) roundTrip(ctx context.Context) error {
	_, err := k.clients[0].Get(ctx, k.marker())
	return err
}

// expiryLateness lets keys run out with the shortest leases that there are.
func (k etcdKeys) expiryLateness(ctx context.Context) (time.Duration, error) {
	c, prefix := k.clients[0], k.prefix+"calibrate/"
	ended := c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterPut())
	due, worst := map[string]time.Time{}, etcdLate
	for i := range etcdLeases {
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
func (k etcdKeys) get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswers)
	defer cancel()
	return k.clients.Get(ctx, key, o...)
}

// do does something by whichever server answers first.
func (k etcdKeys) do(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswers)
	defer cancel()
	return k.clients.Do(ctx, do)
}

// status is what the i-th server says of itself.
func (k etcdKeys) status(ctx context.Context, i int) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswers)
	defer cancel()
	return k.clients[i].Status(ctx, k.clients[i].Endpoints()[0])
}

// EtcdOutside is the store of a record over connections of its own.
func EtcdOutside(w undo.Store) (etcdOutside, error) {
	clients, err := endpoint.EachEtcd(endpointOf(w))
	return etcdOutside{etcdKeys{clients: clients}}, err
}

// etcdOutside is an etcd as whoever looks at it from outside sees it.
type etcdOutside struct{ etcdKeys }

func (o etcdOutside) Close() error { return o.clients.Close() }

// Who is the cluster and its term of office: every start and every change of the leader begins a new one.
func (o etcdOutside) Who(ctx context.Context) (id string, err error) {
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

func (k etcdKeys) Put(ctx context.Context, key string, ttl time.Duration) error {
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

func (k etcdKeys) There(ctx context.Context, key string) (bool, error) {
	got, err := k.get(ctx, key)
	return err == nil && got.Count == 1, err
}

func (k etcdKeys) Drop(ctx context.Context, keys ...string) error {
	return k.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		for _, key := range keys {
			if _, err := c.Delete(ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
}
