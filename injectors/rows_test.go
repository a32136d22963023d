package injectors

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
	redisstores "github.com/lockdrill/lockdrill/stores/redis"
)

// world is what rows are tried on: real processes, real servers, and a history of them.
type world struct {
	*testing.T
	*Reach
	log   *runner.Log
	dir   string        // where commands are run
	look  func() bool   // of the test's own: whether the fault is in effect; nil = nothing goes on after it
	halts func() bool   // and of a process: whether any of it stands
	lasts time.Duration // of a shot
	shot  history.Event // what it has beside fault and victim

	proxies *testbed.Proxies // before redis, for r1 and r2
	redis   string

	mu sync.Mutex
	n  int64 // events in the log, which are numbered as a recorder does it
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, log: runner.NewLog(), dir: t.TempDir(), lasts: 500 * time.Millisecond}
	w.Reach = &Reach{
		Clock: monotime.Now, Await: w.log.Await, Past: func() []history.Event { return w.log.Since(0) }, Write: w.add,
		Run: "test", Replicas: []string{"r1"}, Prefix: "lockdrill:test:", Keys: "p:",
		Mark: func(name string) string { return "test/" + name },
	}
	return w
}

func (w *world) add(e history.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	e.N = w.n
	w.log.Add([]history.Event{e})
	return nil
}

// process is a victim r1.1 of that script: its start and end are in the history.
func (w *world) process(script string) undo.Process {
	w.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), undo.MarkEnv+"="+w.Name())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil { // it has said that it goes
		w.Fatal(err)
	}
	p := undo.Find(cmd.Process.Pid)
	if _, err := p.Lives(); err != nil {
		w.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	_ = w.add(history.Event{Kind: history.ReplicaStart, Span: history.At(monotime.Now()), Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: p.PID, Started: p.Started}})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait()
		_ = w.add(history.Event{Kind: history.ReplicaExit, Span: history.At(monotime.Now()),
			Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", Exit: cmd.ProcessState.String(), By: history.ByKernel}})
	}()
	w.Cleanup(func() { _ = syscall.Kill(-p.PID, syscall.SIGKILL); <-over })
	w.Grace = time.Second
	w.Signal = func(_ string, sig syscall.Signal) (history.Span, error) {
		span := history.At(w.Clock())
		err := syscall.Kill(-p.PID, sig)
		span.To = w.Clock()
		return span, err
	}
	return p
}

// store is a redis-server as a drill starts one, which can suffer f.
func (w *world) store(f fault.Spec) *redisstores.Store {
	w.Helper()
	redistest.Need(w)
	opened, err := redisstores.OpenStores(w.Context(), redisstores.Options{
		Redis: experiments.Redis{Mode: experiments.RedisSpawn}, NoLedger: true, Run: "test", Dir: w.TempDir(), Faults: []experiments.Fault{{Spec: f}},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := opened.Close(context.WithoutCancel(w.Context())); err != nil {
			w.Error(err)
		}
	})
	w.Store, w.Open = opened.Locks, redisstores.Kind.Outside
	return opened.Locks
}

// client is the test's own connection to a store.
func (w *world) client(where undo.Store) *redis.Client {
	w.Helper()
	c, err := redisstores.Dial(where)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// refuses reports that the store takes no write now.
func refuses(c *redis.Client) func() bool {
	return func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		return c.Set(ctx, "mine", "1", time.Minute).Err() != nil
	}
}

// leading is a store of which one server leads.
type leading struct{ *redisstores.Store }

func (l leading) Leader(context.Context) (*undo.Process, error)        { return l.Process(), nil }
func (l leading) KillServer(ctx context.Context, _ undo.Process) error { return l.Kill(ctx) }

// lock is one that r1.1 holds in a store.
func (w *world) lock() *redis.Client {
	w.Helper()
	c := w.somebodys()
	if _, err := redisstore.NewStore(c, "p:").Acquire(w.Context(), "job", "tok", time.Minute); err != nil {
		w.Fatal(err)
	}
	w.shot.Lock, w.shot.Key, w.shot.Epoch = "job", "job", lockcore.Fingerprint("tok")
	return c
}

// until reports that something came true in time.
func (w *world) until(is func() bool) bool {
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	for range poll.Every(ctx, time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// tried is a row of the suite: a fault, and what it is tried on.
type tried struct {
	name  string
	spec  fault.Spec
	stand func(w *world)
}

const alive, stubborn = "sleep 60 & echo started; wait", "trap '' TERM; echo started; while :; do sleep 0.02; done"

func rowsTried() []tried {
	me := fault.Aim{Replica: "r1"}
	victim := func(w *world, script string) undo.Process {
		p := w.process(script)
		w.halts = func() bool { _, any, _ := standing(p); return any }
		w.look = w.halts
		return p
	}
	store := func(does fault.Store, look func(w *world, s *redisstores.Store)) tried {
		name := "store " + string(does.Do)
		if does.Keep {
			name += " keep"
		}
		return tried{name, &does, func(w *world) {
			s := w.store(&does)
			w.look = refuses(w.client(s.Where()))
			if look != nil {
				look(w, s)
			}
		}}
	}
	isLeading := func(w *world, s *redisstores.Store) { w.Store = leading{s} }
	over := func(w *world, _ *redisstores.Store) { w.look = nil }
	inStep := func(w *world, s *redisstores.Store) {
		w.look = nil
		if n, err := w.client(s.Where()).Wait(w.Context(), 1, 20*time.Second).Result(); n < 1 {
			w.Fatal(err)
		}
	}
	key := func(w *world) {
		c := w.lock()
		w.look, w.lasts = func() bool { v := c.Get(w.Context(), "p:job").Val(); return v != "" && v != "tok" }, time.Minute
	}
	return append(networks(), []tried{
		{"pause", &fault.Pause{Aim: me}, func(w *world) { victim(w, alive) }},
		{"pause of somebody's own", &fault.Pause{Aim: me}, func(w *world) { victim(w, "echo started; exec sleep 60"); w.Alone = true }},
		{"starve", &fault.Starve{Aim: me, Share: 0.5, Period: 20 * time.Millisecond}, func(w *world) {
			p := victim(w, alive)
			w.Clock = ofStanding(p) // goes on only while it stands, however busy the machine
			w.look = func() bool { return w.halts() && resume(w.Context(), p) == nil }
		}},
		{"kill", &fault.Kill{}, func(w *world) { w.process(alive) }},
		{"kill graceful", &fault.Kill{How: fault.Graceful}, func(w *world) { w.process(alive) }},
		{"kill graceful of one that does not listen", &fault.Kill{How: fault.Graceful}, func(w *world) { w.process(stubborn) }},
		store(fault.Store{Do: fault.StorePause}, nil),
		store(fault.Store{Do: fault.StoreFill}, nil),
		store(fault.Store{Do: fault.StoreFreeze}, nil),
		store(fault.Store{Do: fault.StoreStop}, nil),
		store(fault.Store{Do: fault.StoreRestart}, over),
		store(fault.Store{Do: fault.StoreRestart, Keep: true}, over),
		store(fault.Store{Do: fault.StoreFlush}, over),
		store(fault.Store{Do: fault.StoreFailover, Lag: 10 * time.Millisecond}, inStep),
		store(fault.Store{Do: fault.StoreFreezeLeader}, isLeading),
		store(fault.Store{Do: fault.StoreStopLeader}, isLeading),
		{"delete_key", &fault.DeleteKey{}, func(w *world) { key(w); w.look = nil }},
		{"delete_key stranger", &fault.DeleteKey{To: FormStranger}, key},
		{"clock", &fault.Clock{Aim: me, Offset: 2 * time.Second}, func(w *world) {
			w.answering(history.Event{Kind: history.FaultHit, Fault: &history.Fault{Detail: sawOffset + "2s"}})
		}},
		{"renew_failures", faultOf("renew_failures", fault.Failures{Aim: me, Mode: "error"}), func(w *world) {
			w.shot.Fault = &history.Fault{Want: 1, Via: fault.ViaWorker}
			w.answering(history.Event{Kind: history.FaultHit, Fault: &history.Fault{}}, history.Event{Kind: history.FaultReverted, Fault: &history.Fault{Hits: 1}})
		}},
		{"renew_failures on the way", faultOf("renew_failures", fault.Failures{Aim: fault.Aim{HolderOf: "job"}, Mode: "error", Via: fault.ViaProxy}), func(w *world) {
			w.shot, w.lasts = history.Event{Lock: "job", Key: "k", Fault: &history.Fault{Via: fault.ViaProxy}}, time.Second
			w.look = renewing(w, w.tapped())
		}},
		{"renew_failures at a lockdrill proxy", faultOf("renew_failures", fault.Failures{Aim: fault.Aim{All: true}, Mode: "error", Via: fault.ViaProxy}), func(w *world) {
			w.shot, w.lasts = history.Event{Fault: &history.Fault{Via: fault.ViaProxy}}, time.Second
			w.look = renewing(w, w.tapped())
			api := httptest.NewServer(w.Tap.API())
			w.Cleanup(api.Close)
			w.Tap, w.API = nil, api.URL
		}},
		{"hook", &fault.Hook{Commands: fault.Commands{Within: 20 * time.Second, Do: []string{"touch", "on"}, Confirm: []string{"test", "-f", "on"}, Undo: []string{"rm", "-f", "on"}}}, func(w *world) {
			w.process(alive)
			w.look = func() bool { _, err := os.Stat(filepath.Join(w.dir, "on")); return err == nil }
		}},
	}...)
}

// Every row strikes what it is made for and sees it. Then the runner ends it; or it is dead, and whoever has the record does, twice: either
// way the test's own look finds nothing of it left.
func TestEveryRowStrikesAndIsUndoneByAnybody(t *testing.T) {
	for _, c := range rowsTried() {
		c.try(t, "the runner", "its record")
	}
}

func (c tried) try(t *testing.T, undone ...string) {
	for _, by := range undone {
		t.Run(c.name+", undone by "+by, func(t *testing.T) {
			w := newWorld(t)
			c.stand(w)
			if h, ok := c.spec.(*fault.Hook); ok {
				h.Dir = w.dir
			}
			s := w.prepare(c.spec)
			if w.look != nil && w.look() {
				t.Fatal("it is in effect before it is made")
			}
			applied, err := s.Inject(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen := make(chan bool, 1)
			if burst, is := c.spec.(*fault.Failures); is && burst.Via == fault.ViaProxy { // nothing is hit but what somebody asks
				go func() { first := w.look(); seen <- w.look() && first }()
			} else {
				seen <- w.look == nil || w.until(w.look)
			}
			window, saw, err := s.confirm(applied)
			if err != nil || saw.Hits == 0 && saw.Observed < saw.Expected || window.To < window.From || window.From < applied.From {
				t.Fatalf("window %v of %v, saw %+v: %v", window, applied, saw, err)
			}
			if wire, is := fault.Of(c.spec).Wire(); is && (!strings.Contains(saw.Detail, "r1") || saw.Observed < saw.Expected || saw.Baseline <= 0 || saw.Expected <= 0 && wire.Cut == "" && wire.Ends == 0) {
				t.Errorf("nothing was measured: %+v", saw)
			}
			if !<-seen {
				t.Error("the test's own look does not find it")
			}
			if saw.Expected == int64(w.lasts) && w.Clock()-applied.To < int64(w.lasts)*9/10 {
				t.Error("it was not watched for its time")
			}
			if w.halts != nil && (w.halts() != (c.spec.Kind() == "pause") || !s.Rec.Halts()) {
				t.Error("a paused process goes before its end, a starved one stands when its time is up, or it is undone after faults that it holds up")
			}
			for range 2 { // it may be called again
				if by == "the runner" {
					_, err = s.Revert(t.Context())
				} else {
					err = s.elsewhere()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if w.look != nil && !s.dead(c.name) && w.look() {
				t.Error("it is still in effect")
			}
		})
	}
}

// dead: undone elsewhere, what the runner had to itself ends with the runner, and not by the record.
func (s *struck) dead(row string) bool {
	if !s.isElsewhere {
		return false
	}
	switch row {
	case "store " + string(fault.StoreStop), "store " + string(fault.StorePause), "store " + string(fault.StoreFill), "store " + string(fault.StoreStopLeader): // a server of its own
		return true
	case "clock", "renew_failures", "renew_failures on the way":
		return true
	}
	return false
}

// struck is a fault on its way.
type struck struct {
	*Hit
	isElsewhere bool
}

func (w *world) prepare(spec fault.Spec) *struck {
	w.Helper()
	s, err := w.prepared(spec)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) prepared(spec fault.Spec) (*struck, error) {
	shot := w.shot
	b := history.Fault{}
	if shot.Fault != nil {
		b = *shot.Fault
	}
	of := fault.Of(spec)
	b.ID, b.Shot, b.Kind, b.Form, b.Victim, b.Declared = "x", 1, spec.Kind(), of.Form(), "r1.1", int64(w.lasts)
	if of.Traits().AtStore {
		b.Victim = history.VictimStore
	}
	shot.Op, shot.Fault = "x#1", &b
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	h, err := w.Prepare(ctx, spec, shot)
	return &struck{Hit: h}, err
}

// strike is the life of a fault up to its confirmation.
func (w *world) strike(spec fault.Spec) (*struck, history.Fault, error) {
	s, err := w.prepared(spec)
	if err != nil {
		return s, history.Fault{}, err
	}
	applied, err := s.Inject(w.Context())
	if err != nil {
		return s, history.Fault{}, err
	}
	_, saw, err := s.confirm(applied)
	return s, saw, err
}

func (s *struck) confirm(applied history.Span) (history.Span, history.Fault, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Confirm(ctx, applied)
}

// elsewhere undoes as another process does, which has the record from a file and nothing else.
func (s *struck) elsewhere() error {
	s.isElsewhere = true
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	line, err := json.Marshal(s.Record())
	var read undo.Record
	if err := errors.Join(err, json.Unmarshal(line, &read)); err != nil {
		return err
	}
	reach := &Reach{Open: redisstores.Kind.Outside}
	return reach.Reverters(true)[read.Kind](ctx, read)
}

// A kind of fault is whole: what the file can name has rows here, and nothing else has.
func TestEveryKindHasItsRows(t *testing.T) {
	all := kinds()
	for word := range all {
		if !slices.Contains(fault.Kinds(), word) {
			t.Errorf("there is no fault %s", word)
		}
	}
	for _, word := range fault.Kinds() {
		if k := all[word]; len(k.any)+len(k.forms) == 0 {
			t.Errorf("fault %s has no row: list it in kinds.go", word)
		}
	}
}
