package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

const patience = 30 * time.Second

// rig is a worker in this process, with pipes for its standard streams and a Redis for both stores.
type rig struct {
	t     *testing.T
	redis *redis.Client
	in    io.WriteCloser
	done  chan error // what Run returned

	mu     sync.Mutex
	events []history.Event
	news   chan struct{}
}

// startRedis runs a redis-server of the test's own.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	addr := redistest.Start(t)
	c := redisstore.NewClient(addr)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// launch runs a worker with the given locks; it is stopped at the end of the test at the latest.
func launch(t *testing.T, c *redis.Client, incarnation string, locks ...protocol.Lock) *rig {
	t.Helper()
	return launchOn(t, c, batched, incarnation, locks...)
}

// launchOn runs a worker on a store of the test's choice.
func launchOn(t *testing.T, c *redis.Client, open opener, incarnation string, locks ...protocol.Lock) *rig {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &rig{t: t, redis: c, in: inW, done: make(chan error, 1), news: make(chan struct{}, 1)}
	read := make(chan struct{})
	go r.read(outR, read)
	go func() {
		err := run(t.Context(), inR, outW, open)
		_ = outW.Close()
		<-read
		r.done <- err
	}()
	t.Cleanup(func() { _ = inW.Close() })
	addr := c.Options().Addr
	r.send(protocol.Command{Cmd: protocol.CmdConfigure, Configure: &protocol.Configure{
		Name: "r1", Incarnation: incarnation, Seed: 1, Locks: locks, Script: redisstore.EffectScript(),
		Store: protocol.Endpoint{Addr: addr, Prefix: "run:"}, Ledger: protocol.Endpoint{Addr: addr, Prefix: "run:"},
	}})
	r.await(history.ReplicaReady, nil)
	return r
}

func (r *rig) read(out io.Reader, done chan<- struct{}) {
	defer close(done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e history.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.t.Errorf("line %q: %v", lines.Text(), err)
			continue
		}
		if err := e.Check(); err != nil {
			r.t.Errorf("line %s: %v", lines.Text(), err)
		}
		if now := monotime.Now(); e.To > now || e.From <= 0 {
			r.t.Errorf("line %s: stamped outside the past (now %d)", lines.Text(), now)
		}
		r.mu.Lock()
		r.events = append(r.events, e)
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
}

func (r *rig) send(c protocol.Command) {
	r.t.Helper()
	line, err := json.Marshal(c)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		r.t.Fatalf("send %s: %v", c.Cmd, err)
	}
}

func (r *rig) offer(job string, hold time.Duration) {
	r.t.Helper()
	r.send(protocol.Command{Cmd: protocol.CmdOffer, Offer: &protocol.Offer{Lock: "job", Job: job, Key: "job:" + job, Hold: hold}})
}

// await gives the first event of a kind that ok accepts (nil: any).
func (r *rig) await(k history.Kind, ok func(history.Event) bool) history.Event {
	r.t.Helper()
	limit := time.After(patience)
	for {
		for _, e := range r.all(k) {
			if ok == nil || ok(e) {
				return e
			}
		}
		select {
		case <-r.news:
		case <-limit:
			r.t.Fatalf("no %s within %s; got %v", k, patience, r.kinds())
		}
	}
}

func (r *rig) awaitAck(job, answer string) {
	r.t.Helper()
	r.await(history.JobAck, func(e history.Event) bool { return e.Job.ID == job && e.Job.Ack == answer })
}

// all gives the events so far, of one kind ("" = any).
func (r *rig) all(k history.Kind) []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []history.Event
	for _, e := range r.events {
		if k == "" || e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

func (r *rig) kinds() []history.Kind {
	var kinds []history.Kind
	for _, e := range r.all("") {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// stop tells the worker to finish and returns what Run returned.
func (r *rig) stop() error {
	r.t.Helper()
	r.send(protocol.Command{Cmd: protocol.CmdStop})
	return r.end()
}

func (r *rig) end() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatalf("Run did not return within %s", patience)
		return nil
	}
}

// holder is the value of a lock key, "" where it is free.
func (r *rig) holder(key string) string {
	r.t.Helper()
	v, err := r.redis.Get(context.Background(), "run:"+key).Result()
	if err != nil && err != redis.Nil {
		r.t.Fatal(err)
	}
	return v
}

func jobLock() protocol.Lock {
	return protocol.Lock{Name: "job", Policy: lockcore.Policy{
		TTL: 5 * time.Second, RenewEvery: 50 * time.Millisecond, Class: lockcore.Standard, OpTimeout: time.Second,
		Drift: 50 * time.Millisecond, StopBudget: 500 * time.Millisecond,
		Release: lockcore.Release{Mode: lockcore.ReleaseBoundedRetry, Attempts: 2, Timeout: time.Second, AfterAbandon: lockcore.AfterAbandonSkip},
		Acquire: lockcore.Acquire{Mode: lockcore.AcquireTry, Timeout: time.Second},
	}}
}

func loopLock(mode lockcore.LoopMode) protocol.Lock {
	l := jobLock()
	l.Name, l.Key = "loop", "loop:leader"
	l.Policy.Loop = &lockcore.Loop{Poll: 20 * time.Millisecond, Jitter: 0.1, Mode: mode, Tick: 5 * time.Millisecond}
	return l
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func decode(t *testing.T, line []byte) history.Event {
	t.Helper()
	var e history.Event
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	if err := e.Check(); err != nil {
		t.Errorf("line %s: %v", line, err)
	}
	return e
}
