//go:build full

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// advisoryFaults does to a holder, its session and its server what can be done to them.
const advisoryFaults = `faults:
  - {id: kill, at: 0s, kill: {holder_of: loop, phase: random}}
  - {id: pause, at: 5s, for: 6s, pause: {holder_of: loop}}
  - {id: ended, at: 16s, terminate: {holder_of: loop}}
  - {id: frozen, at: 21s, for: 3s, store: {do: freeze}}
  - {id: away, at: 30s, for: 2s, store: {do: stop}}
slos:
  - {lock: loop, takeover: {max: 1m}}
`

// postgresEnv lets the drill run, which takes a minute: make postgres.
const postgresEnv = "LOCKDRILL_TEST_POSTGRES"

// A worker on an advisory lock is drilled: the lock goes with the session of a holder that is killed or cut off, and stays with one that
// stands still.
func TestAdvisoryLocksAreDrilled(t *testing.T) {
	onlyFor(t, postgresEnv, "", "it takes a minute: make postgres")
	needDrill(t)
	s := readStruck(t, runDrill(t, fmt.Sprintf(advisoryDrill, os.Args[0])+advisoryFaults, nil))
	if s.code != verdict.ExitPass && s.code != verdict.ExitInconclusive {
		t.Fatalf("exit %d\n%s", s.code, s.text)
	}
	confirmed := map[string]history.Event{}
	grants, losses := map[string]history.Event{}, map[string]history.Event{}
	for _, e := range s.events {
		switch {
		case e.Kind == history.FaultConfirmed:
			confirmed[e.Fault.ID] = e
		case e.Kind == history.AcquireReturn && e.Outcome == history.OK:
			grants[e.Epoch] = e
		case e.Kind == history.FenceObserved:
			losses[e.Epoch] = e
		}
	}
	for _, id := range []string{"kill", "pause", "ended", "frozen", "away"} {
		if _, ok := confirmed[id]; !ok {
			t.Fatalf("%s was not confirmed\n%s", id, s.text)
		}
	}
	pause, ended := confirmed["pause"], confirmed["ended"]
	for _, g := range grants {
		if g.To > pause.From && g.From < pause.To {
			t.Errorf("%s got the lock while its holder stood still, at %d of %v", g.Epoch, g.To, pause.Span)
		}
	}
	if lost, told := losses[ended.Epoch]; !told || lost.To < ended.From {
		t.Errorf("the holder %s was not told that its session had ended: %+v", ended.Epoch, lost)
	}
	next := false
	for epoch, g := range grants {
		next = next || epoch != ended.Epoch && g.To > ended.From && g.From < confirmed["frozen"].From
	}
	if !next {
		t.Errorf("nobody took the lock whose session had ended\n%s", s.text)
	}
	for _, k := range s.j.Findings {
		t.Errorf("finding: %+v", k)
	}
}

// advisoryWorker is another worker than the scripted one: locks are advisory locks of PostgreSQL, by pgx as its documents show it.
var advisoryWorker = func() error {
	return worker.Run(context.Background(), os.Stdin, os.Stdout, func(ctx context.Context, c protocol.Configure, tell *worker.Teller) (worker.Locker, error) {
		if c.Store.Kind != protocol.KindPostgres {
			return nil, fmt.Errorf("a store of kind %q", c.Store.Kind)
		}
		a := &advisory{tell: tell, incarnation: c.Incarnation, dsn: fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&application_name=%s", c.Store.User, c.Store.Addr, c.Store.Database, c.Incarnation)}
		return a, worker.Answers(ctx, "locks", func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, a.dsn)
			if err == nil {
				err = conn.Close(ctx)
			}
			return err
		})
	}, worker.Options{})
}

type advisory struct {
	tell             *worker.Teller
	incarnation, dsn string
	n                atomic.Int64
}

// session is a connection that has a lock, and keeps it: a statement on it now and then says whether it is still there. There is no fence and
// no lease.
type session struct {
	*advisory
	policy lockcore.Policy
	conn   *pgx.Conn
	who    claims.Holder
	lost   context.Context
	giveUp context.CancelFunc
	ended  chan struct{} // the work has
	asks   sync.WaitGroup
}

// bounded is a call of at most the policy's op_timeout.
func (s *session) bounded(ctx context.Context, statement string, into any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.policy.OpTimeout)
	defer cancel()
	return s.conn.QueryRow(ctx, statement, args...).Scan(into)
}

func (a *advisory) Acquire(ctx context.Context, w worker.Want) (worker.Held, error) {
	s := &session{advisory: a, policy: w.Lock.Policy, ended: make(chan struct{})}
	s.who = claims.Holder{Lock: w.Lock.Name, Key: w.Key, Epoch: fmt.Sprintf("%s/%d", a.incarnation, a.n.Add(1))}
	dial, done := context.WithTimeout(ctx, s.policy.OpTimeout)
	defer done()
	var id string
	var err error
	if s.conn, err = pgx.Connect(dial, a.dsn); err != nil {
		return nil, err
	}
	if err = s.bounded(ctx, postgres.BackendID, &id); err == nil {
		call, name, from, got := lockcore.Call{Op: lockcore.OpAcquire, Attempt: 1}, a.tell.Op("acquire"), monotime.Now(), false
		a.tell.Say(s.who.Invoke(&call, name, from))
		if err = s.bounded(ctx, "SELECT pg_try_advisory_lock(hashtext($1))", &got, w.Key); err == nil && !got {
			err = &lockcore.HeldError{}
		}
		answer := claims.AnswerOf(err, "store")
		e := s.who.Return(&call, name, history.Span{From: from, To: monotime.Now()}, &answer)
		if err == nil {
			e.Call.ID = id
		}
		a.tell.Say(e)
	}
	if err != nil {
		_ = s.conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	s.lost, s.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	s.asks.Go(s.ask)
	return s, nil
}

// ask asks the connection every renew_every; when it is gone, so is the lock.
func (s *session) ask() {
	tick := time.NewTicker(s.policy.RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		if _, err := s.tell.Call(s.who, lockcore.OpRenew, 0, func() (int64, error) { var one int64; return 0, s.bounded(s.lost, "SELECT 1", &one) }); err != nil {
			s.giveUp()
			s.tell.Act(s.who, lockcore.Action{Kind: lockcore.ActFence, Reason: lockcore.ReasonNotOwned, Working: true})
			_ = s.conn.Close(context.Background())
			return
		}
	}
}

func (s *session) stop() {
	close(s.ended)
	s.asks.Wait()
}

func (s *session) Context() context.Context { return s.lost }
func (s *session) Check() error             { return s.lost.Err() }
func (s *session) Epoch() string            { return s.who.Epoch }
func (s *session) Fence() int64             { return 0 }
func (s *session) Leave()                   { s.stop(); _ = s.conn.Close(context.Background()) }

func (s *session) Release(ctx context.Context) error {
	s.stop()
	if s.lost.Err() != nil {
		return nil // with its session
	}
	defer s.conn.Close(context.WithoutCancel(ctx))
	_, err := s.tell.Call(s.who, lockcore.OpRelease, 0, func() (int64, error) { // an end of the connection would be seen there later
		var given bool
		return 0, s.bounded(ctx, "SELECT pg_advisory_unlock(hashtext($1))", &given, s.who.Key)
	})
	return err
}
