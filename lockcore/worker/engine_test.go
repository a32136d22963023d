package worker_test

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

const patience = 30 * time.Second

// session is a replica on a stranger's lock, as its runner sees it.
type session struct {
	t      *testing.T
	in     io.WriteCloser
	events chan history.Event
	done   chan error
}

// begin starts a replica with one job lock.
func begin(t *testing.T, addr, incarnation string, p lockcore.Policy) *session {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &session{t: t, in: inW, events: make(chan history.Event, 256), done: make(chan error, 1)}
	go func() {
		defer close(s.events)
		for lines := bufio.NewScanner(outR); lines.Scan(); {
			var e history.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("line %q: %v", lines.Text(), err)
			}
			if err := e.Check(); err != nil {
				t.Errorf("line %s: %v", lines.Text(), err)
			}
			s.events <- e
		}
	}()
	go func() {
		s.done <- worker.Run(t.Context(), inR, outW, open, worker.Options{})
		_ = outW.Close()
	}()
	t.Cleanup(func() { _ = inW.Close() })
	s.send(protocol.Command{Cmd: protocol.CmdConfigure, Configure: &protocol.Configure{
		Name: "r1", Incarnation: incarnation, Script: redisstore.EffectScript(), Locks: []protocol.Lock{{Name: "job", Policy: p}},
		Store: protocol.Endpoint{Addr: addr, Prefix: "run:"}, Ledger: protocol.Endpoint{Addr: addr, Prefix: "run:"},
	}})
	s.until(history.ReplicaReady)
	return s
}

func (s *session) send(c protocol.Command) {
	s.t.Helper()
	if err := json.NewEncoder(s.in).Encode(c); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) offer(job string, hold time.Duration) {
	s.t.Helper()
	s.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: job, Key: "job:" + job, Hold: hold}})
}

// until gives the kinds of events up to the first of a kind, and that one.
func (s *session) until(k history.Kind) (kinds []history.Kind, e history.Event) {
	s.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case e, open := <-s.events:
			if kinds = append(kinds, e.Kind); !open {
				s.t.Fatalf("no %s, only %v; the worker ended with %v", k, kinds, <-s.done)
			}
			if e.Kind == k {
				return kinds, e
			}
		case <-limit:
			s.t.Fatalf("no %s within %s, only %v", k, patience, kinds)
		}
	}
}

func (s *session) end() {
	s.t.Helper()
	s.send(protocol.Command{Cmd: protocol.CmdStop})
	if err := <-s.done; err != nil {
		s.t.Errorf("the worker ended with %v", err)
	}
}

func policy(ttl time.Duration) lockcore.Policy {
	return lockcore.Policy{TTL: ttl, Class: lockcore.Standard, OpTimeout: time.Second,
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second},
		Release: lockcore.Release{Mode: lockcore.ReleaseSingle, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonStopped},
	}
}

// A lock that knows nothing of drills, in the lines that the documentation shows, says everything that a job says, in its order.
func TestAStrangersLockStandsADrill(t *testing.T) {
	addr := redistest.Start(t)
	a, b := begin(t, addr, "r1.1", policy(time.Minute)), begin(t, addr, "r2.1", policy(time.Minute))
	a.offer("one", 20*time.Millisecond)
	kinds, ack := a.until(history.JobAck)
	want := []history.Kind{history.AcquireInvoke, history.AcquireReturn, history.WorkEnter, history.WriteInvoke, history.WriteReturn,
		history.WriteInvoke, history.WriteReturn, history.WorkExit, history.ReleaseInvoke, history.ReleaseReturn, history.JobAck}
	if !slices.Equal(kinds, want) || ack.Job.Ack != history.AckDone || ack.Epoch == "" {
		t.Errorf("it said %v, answer %+v; want %v, done", kinds, ack.Job, want)
	}
	b.offer("one", time.Millisecond)
	if _, ack := b.until(history.JobAck); ack.Job.Ack != history.AckSkipped {
		t.Errorf("a job that another has done is answered %q, want skipped", ack.Job.Ack)
	}
	a.offer("two", time.Minute)
	a.until(history.WorkEnter)
	b.offer("two", time.Minute)
	if _, ack := b.until(history.JobAck); ack.Job.Ack != history.AckBusy {
		t.Errorf("a job that another has under way is answered %q, want busy", ack.Job.Ack)
	}
	b.send(protocol.Command{Cmd: protocol.CmdArm, Arm: &protocol.Arm{Fault: "burst", Shot: 1, Spec: burst.Spec{Op: burst.Renew, Mode: burst.Error, Count: 1}}})
	if _, void := b.until(history.FaultReverted); void.Op != "burst#1" || void.Fault.Kind != "renew_failures" || void.Fault.Hits != 0 {
		t.Errorf("a fault that it cannot make is answered by %+v", void)
	}
	b.end()
	a.end()
}

// Its lease ends the work, the work's end says by how much it was late, and the next one may go on.
func TestAStrangersLeaseEndsItsWork(t *testing.T) {
	s := begin(t, redistest.Start(t), "r1.1", policy(300*time.Millisecond))
	s.offer("one", time.Minute)
	said, exit := s.until(history.WorkExit)
	if exit.Work.Why != "fenced" || !exit.Work.HasValid || exit.Work.Valid > int64(100*time.Millisecond) {
		t.Errorf("the work ended as %+v after %v", exit.Work, said)
	}
	s.until(history.ReleaseReturn)
	s.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: "two", Key: "job:one", Hold: time.Millisecond}})
	if _, ack := s.until(history.JobAck); ack.Job.Ack != history.AckDone {
		t.Errorf("another job under the same key is answered %q", ack.Job.Ack)
	}
	s.end()
}
