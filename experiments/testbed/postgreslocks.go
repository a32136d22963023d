package testbed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/postgres"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Postgres is a PostgreSQL of the run's own whose advisory locks are drilled.
type Postgres struct {
	advisoryLocks
	mu     sync.Mutex // what is done to the server is done one thing after the other
	server *postgresServer
}

// OpenPostgres starts a server, or takes the one that the file names.
func OpenPostgres(ctx context.Context, g *Ground) (LockStore, error) {
	if g.Store.Mode == experiments.StoreExternal {
		return openPostgresGuest(ctx, g.Store)
	}
	s, err := spawnPostgres(ctx, g.servers, "locks")
	if err != nil {
		return nil, err
	}
	info := history.StoreInfo{Kind: "spawned", Version: "PostgreSQL " + s.life.Version, RunID: s.life.Run}
	return &Postgres{advisoryLocks: advisoryLocks{client: s.client, info: info}, server: s}, nil
}

// Endpoint implements LockStore. Keys have no prefix: their numbers are what the file says.
func (p *Postgres) Endpoint() protocol.Endpoint {
	return protocol.Endpoint{Kind: protocol.KindPostgres, Addr: p.server.addr, User: postgresUser, Database: "postgres"}
}

// Where implements LockStore.
func (p *Postgres) Where() undo.Store { return undo.Store{Addr: p.server.addr, Owned: true} }

// DialPostgres makes a connection to a server of a run's own as replicas do; it does not dial yet.
func DialPostgres(w undo.Store) (*postgres.Client, error) {
	return postgres.Dial("postgres://"+postgresUser+"@"+w.Addr+"/postgres?sslmode=disable", "lockdrill")
}

// Processes implements LockStore.
func (p *Postgres) Processes() (pids []int, busy bool) {
	if !p.mu.TryLock() {
		return nil, true
	}
	defer p.mu.Unlock()
	return []int{p.server.self.PID}, false
}

// Process implements LockStore.
func (p *Postgres) Process() *undo.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.process()
}

// Kill implements LockStore.
func (p *Postgres) Kill(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.kill(ctx)
}

// Start implements LockStore.
func (p *Postgres) Start(ctx context.Context, _ bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.start(ctx)
}

// Close implements LockStore.
func (p *Postgres) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server.end(ctx)
}

var errNotPostgres = errors.New("no such fault befalls a PostgreSQL")

// Flush implements LockStore.
func (*Postgres) Flush(context.Context) error { return errNotPostgres }

// Cut implements LockStore.
func (*Postgres) Cut(context.Context) error { return errNotPostgres }

// FailOver implements LockStore.
func (*Postgres) FailOver(context.Context) error { return errNotPostgres }

// advisoryLocks are those of a PostgreSQL, whoever has started it. They are those of sessions: a server that is started again has none of
// them, whatever it has kept, so its marker is gone with each restart.
type advisoryLocks struct {
	client *postgres.Client // the store's own
	info   history.StoreInfo

	marking sync.Mutex
	marked  string // the life of the server that was marked
}

// About implements LockStore.
func (l *advisoryLocks) About() history.StoreInfo { return l.info }

// Client asks the server over a connection of its own. Its owner closes it.
func (l *advisoryLocks) Client(application string) (*postgres.Client, error) {
	return l.client.As(application)
}

// Sessions tells of the sessions of the server, and ends them. It is the store's own: whoever asks for it does not close it.
func (l *advisoryLocks) Sessions() *postgres.Client { return l.client }

// Mark implements LockStore.
func (l *advisoryLocks) Mark(ctx context.Context) error {
	life, err := l.client.Life(ctx)
	if err != nil {
		return err
	}
	l.marking.Lock()
	defer l.marking.Unlock()
	l.marked = life.Run
	return nil
}

// Life implements LockStore.
func (l *advisoryLocks) Life(ctx context.Context) (run string, marker bool, err error) {
	life, err := l.client.Life(ctx)
	if err != nil {
		return "", false, err
	}
	l.marking.Lock()
	defer l.marking.Unlock()
	return life.Run, life.Run == l.marked, nil
}

func (l *advisoryLocks) roundTrip(ctx context.Context) error {
	_, err := l.client.Lives(ctx, postgres.Backend{})
	return err
}

// expiryLateness: a lock has no lease that could end late.
func (*advisoryLocks) expiryLateness(context.Context) (time.Duration, error) { return 0, nil }
