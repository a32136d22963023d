// Package postgres is PostgreSQL as a store of locks: the advisory locks that its sessions hold, whose sessions those are, and which life of
// the server answers; servers of a run's own, or somebody's; a watch of the locks.
//
// Every question is one statement on a connection of its owner's, and changes nothing, but for Terminate and what the run itself takes. Its
// one invariant is that of package stores.
package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores"
)

// Kind is the kind postgres.
var Kind = stores.Kind{
	Name: experiments.StorePostgres, Open: open, Environment: environment, Says: "set it (ALTER DATABASE ... SET lockdrill.environment = '%s')",
	Outside: func(w undo.Store) (stores.Outside, error) {
		c, err := dialOwn(w)
		return outside{c}, err
	},
}

// store is a PostgreSQL of the run's own whose advisory locks are drilled.
type store struct {
	locks
	mu     sync.Mutex // what is done to the server is done one thing after the other
	server *server
}

// open starts a server, or takes the one that the file names.
func open(ctx context.Context, g *stores.Ground) (stores.Store, error) {
	if g.Store.Mode == experiments.StoreExternal {
		return openGuest(ctx, g.Store)
	}
	s, err := start(ctx, g.Own, "locks")
	if err != nil {
		return nil, err
	}
	info := history.StoreInfo{Kind: "spawned", Version: "PostgreSQL " + s.life.Version, RunID: s.life.Run}
	return &store{locks: locks{Client: s.client, info: info}, server: s}, nil
}

// Endpoint implements stores.Store. Keys have no prefix: their numbers are what the file says.
func (p *store) Endpoint() protocol.Endpoint {
	return protocol.Endpoint{Kind: protocol.KindPostgres, Addr: p.server.Addr, User: role, Database: "postgres"}
}

// Where implements stores.Store.
func (p *store) Where() undo.Store { return undo.Store{Addr: p.server.Addr, Owned: true} }

// dialOwn makes a connection to a server of a run's own as replicas do; it does not dial yet.
func dialOwn(w undo.Store) (*Client, error) {
	return Dial("postgres://"+role+"@"+w.Addr+"/postgres?sslmode=disable", "lockdrill")
}

// Processes implements stores.Server.
func (p *store) Processes() (pids []int, busy bool) {
	if !p.mu.TryLock() {
		return nil, true
	}
	defer p.mu.Unlock()
	return []int{p.server.Self.PID}, false
}

// Process implements stores.Server.
func (p *store) Process() *undo.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.Process()
}

// Kill implements stores.Server.
func (p *store) Kill(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.kill(ctx)
}

// Start implements stores.Server. The server's locks were those of sessions, so none is left, with its data or without.
func (p *store) Start(ctx context.Context, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server.Runs() {
		return nil
	}
	return p.server.launch(ctx)
}

// Close implements stores.Store.
func (p *store) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.end(ctx)
}

// Question implements stores.Asked: as replicas log in, by one round trip.
func (p *store) Question(protocol.Endpoint) (endpoint.Question, error) {
	c, err := dialOwn(p.Where())
	return endpoint.AskPostgres(c.Raw), err
}

// Tap implements stores.Tapped, before a server of the run's own, which has no TLS.
func (p *store) Tap(o tap.Options, replicas []string) (*tap.Tap, stores.Hop, error) {
	o.Dial = func(ctx context.Context) (net.Conn, error) { return endpoint.DialPlain(ctx, p.server.Addr, nil) }
	t := tap.New(o)
	way, err := stores.OneServer(replicas, t.ListenPostgres)
	return t, way, err
}

// locks are the advisory locks of a PostgreSQL, whoever has started it. They are those of sessions: a server that is started again has none
// of them, whatever it has kept, so its marker is gone with each restart.
type locks struct {
	*Client // the store's own; it says who holds, and ends sessions
	info    history.StoreInfo

	marking sync.Mutex
	marked  string // the life of the server that was marked
}

// About implements stores.Store.
func (l *locks) About() history.StoreInfo { return l.info }

// Watch implements stores.Store.
func (l *locks) Watch(func() int64) (stores.Watch, error) {
	c, err := l.As("lockdrill probe")
	return NewWatch(c), err
}

// Mark implements stores.Store.
func (l *locks) Mark(ctx context.Context) error {
	life, err := l.Client.Life(ctx)
	if err != nil {
		return err
	}
	l.marking.Lock()
	defer l.marking.Unlock()
	l.marked = life.Run
	return nil
}

// Life implements stores.Store.
func (l *locks) Life(ctx context.Context) (run string, marker bool, err error) {
	life, err := l.Client.Life(ctx)
	if err != nil {
		return "", false, err
	}
	l.marking.Lock()
	defer l.marking.Unlock()
	return life.Run, life.Run == l.marked, nil
}

// RoundTrip implements stores.Store.
func (l *locks) RoundTrip(ctx context.Context) error {
	_, err := l.Alive(ctx, Backend{})
	return err
}

// outside is a PostgreSQL from outside. A witness is a lock of its own session: a server that was killed has none of it.
type outside struct{ *Client }

func (c outside) Who(ctx context.Context) (string, error) {
	life, err := c.Life(ctx)
	return life.Run, err
}

func (c outside) Put(ctx context.Context, key string, _ time.Duration) error { return c.Take(ctx, key) }

func (c outside) There(ctx context.Context, key string) (bool, error) { return c.Taken(ctx, key) }

func (c outside) Drop(ctx context.Context, _ ...string) error { return c.Free(ctx) }
