//go:build full

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
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
	if os.Getenv(postgresEnv) == "" {
		t.Skip("it takes a minute: make postgres")
	}
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

// advisoryWorker is another worker than the scripted one.
var advisoryWorker = runAdvisory

// advisory is a replica with one leader loop under an advisory lock of PostgreSQL, by pgx as its documents show it: a connection takes the
// lock and keeps it, and a statement on that connection now and then says whether it is still there. There is no fence and no lease.
type advisory struct {
	scripted
	conn *pgx.Conn
	n    int
}

func runAdvisory() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var c protocol.Command
	if !lines.Scan() {
		return lines.Err()
	}
	if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
		return err
	}
	a := &advisory{scripted: scripted{cfg: *c.Configure, lock: c.Configure.Locks[0]}}
	at := a.cfg.Store
	if at.Kind != protocol.KindPostgres {
		return fmt.Errorf("a store of kind %q", at.Kind)
	}
	a.ledger = redis.NewClient(&redis.Options{Addr: a.cfg.Ledger.Addr, MaxRetries: -1})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // stop, or the runner's end
		for lines.Scan() {
			if json.Unmarshal(lines.Bytes(), &c) == nil && c.Cmd == protocol.CmdStop {
				break
			}
		}
		cancel()
	}()
	dsn := fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&application_name=%s", at.User, at.Addr, at.Database, a.cfg.Incarnation)
	ready := false
	for ctx.Err() == nil {
		dial, done := context.WithTimeout(ctx, a.lock.Policy.OpTimeout)
		a.conn, _ = pgx.Connect(dial, dsn)
		done()
		if a.conn == nil {
			_ = pause(ctx, a.lock.Policy.Loop.Poll)
			continue
		}
		if !ready {
			a.say(history.Event{Kind: history.ReplicaReady, Replica: &history.Replica{Name: a.cfg.Name, Incarnation: a.cfg.Incarnation, PID: os.Getpid()}})
			ready = true
		}
		a.ask(ctx)
		_ = a.conn.Close(context.Background())
	}
	return nil
}

// bounded is a call of at most the policy's op_timeout.
func (a *advisory) bounded(ctx context.Context, statement string, into any, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, a.lock.Policy.OpTimeout)
	defer cancel()
	return a.conn.QueryRow(ctx, statement, args...).Scan(into)
}

// ask asks for the lock until it has it, and leads until it has it no more; or until the connection fails.
func (a *advisory) ask(ctx context.Context) {
	var id string
	if a.bounded(ctx, postgres.BackendID, &id) != nil {
		return
	}
	for ctx.Err() == nil {
		a.n++
		e := a.event(fmt.Sprintf("%s/%d", a.cfg.Incarnation, a.n))
		ret := a.call(e, history.AcquireInvoke, &history.Call{Demand: true, Attempt: 1})
		var got bool
		err := a.bounded(ctx, "SELECT pg_try_advisory_lock(hashtext($1))", &got, a.lock.Key)
		ret.Kind, ret.To = history.AcquireReturn, monotime.Now()
		switch {
		case err != nil:
			ret.Outcome, ret.Call = history.Unknown, &history.Call{Result: history.ResultError, Err: err.Error()}
		case !got:
			ret.Outcome, ret.Call = history.Fail, &history.Call{Result: history.ResultHeld}
		default:
			ret.Outcome, ret.Call = history.OK, &history.Call{Result: history.ResultGranted, ID: id}
		}
		a.write(ret)
		if got && err == nil {
			a.lead(ctx, e)
		}
		if got || err != nil {
			return
		}
		_ = pause(ctx, a.lock.Policy.Loop.Poll)
	}
}

// lead ticks. The connection is asked every renew_every; when it is gone, so is the lock.
func (a *advisory) lead(ctx context.Context, e history.Event) {
	asked := time.Now()
	for n := 1; ; n++ {
		if err := a.effect(e, n); err != nil {
			return
		}
		if pause(ctx, a.lock.Policy.Loop.Poll) != nil {
			ret := a.call(e, history.ReleaseInvoke, &history.Call{Attempt: 1})
			err := a.conn.Close(context.Background())
			ret.Kind, ret.To, ret.Outcome, ret.Call = history.ReleaseReturn, monotime.Now(), history.OK, &history.Call{Result: history.ResultReleased}
			if err != nil {
				ret.Outcome, ret.Call = history.Unknown, &history.Call{Result: history.ResultError}
			}
			a.write(ret)
			return
		}
		if time.Since(asked) < a.lock.Policy.RenewEvery {
			continue
		}
		asked = time.Now()
		var one int
		ret := a.call(e, history.RenewInvoke, &history.Call{Attempt: 1})
		err := a.bounded(ctx, "SELECT 1", &one)
		ret.Kind, ret.To, ret.Outcome, ret.Call = history.RenewReturn, monotime.Now(), history.OK, &history.Call{Result: history.ResultRenewed}
		if err != nil {
			ret.Outcome, ret.Call = history.Unknown, &history.Call{Result: history.ResultError, Err: err.Error()}
		}
		a.write(ret)
		if err != nil && ctx.Err() == nil {
			lost := e
			lost.Kind, lost.Span, lost.Abandon = history.FenceObserved, history.At(monotime.Now()), &history.Abandon{Reason: "not_owned"}
			a.write(lost)
			return
		}
	}
}

// effect is one tick of work.
func (a *advisory) effect(e history.Event, n int) error {
	work := a.next(e)
	work.Kind, work.Span, work.Work = history.WorkEnter, history.At(monotime.Now()), &history.Work{Subject: a.lock.Name}
	a.write(work)
	for _, state := range []string{history.StateBegin, history.StateTick}[min(n-1, 1):] {
		w := e
		w.Kind, w.Op, w.Write = history.WriteInvoke, fmt.Sprintf("%s:%d:%s", e.Epoch, n, state), &history.Write{Subject: a.lock.Name, State: state}
		w.Span = history.At(monotime.Now())
		a.write(w)
		reply, err := a.ledger.Eval(context.Background(), a.cfg.Script, redisstore.KeysOf(a.cfg.Ledger.Prefix).List(),
			e.Key, a.lock.Name, 1, state, 0, e.Epoch, 0, w.Op, a.cfg.Incarnation, 1, 0).Slice()
		if err != nil {
			return err
		}
		w.Kind, w.To, w.Outcome = history.WriteReturn, monotime.Now(), history.OK
		w.Write = &history.Write{Subject: a.lock.Name, State: state, Accepted: len(reply) > 1 && reply[1] == int64(1)}
		a.write(w)
	}
	work.Kind, work.Span, work.Work = history.WorkExit, history.At(monotime.Now()), &history.Work{Subject: a.lock.Name, Why: "done"}
	a.write(work)
	return nil
}
