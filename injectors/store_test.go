package injectors

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
)

// idle is a server to which nothing is done, whatever is asked: every fault of it is silently ineffective.
type idle struct{ where undo.Store }

func (s idle) Where() undo.Store                 { return s.where }
func (s idle) Process() *undo.Process            { return nil }
func (s idle) Kill(context.Context) error        { return nil }
func (s idle) Start(context.Context, bool) error { return nil }
func (s idle) Flush(context.Context) error       { return nil }
func (s idle) Cut(context.Context) error         { return nil }
func (s idle) FailOver(context.Context) error    { return nil }

func dial(w undo.Store) (*redis.Client, error) {
	return redis.NewClient(&redis.Options{Addr: w.Addr, MaxRetries: -1, DisableIdentity: true, ContextTimeoutEnabled: true}), nil
}

// strike is the life of a fault up to its confirmation.
func strike(t *testing.T, server Server, f fault.Store, lasts time.Duration) (undo.Record, history.Fault, error) {
	t.Helper()
	s := steps(&f, &Reach{Store: server, Open: RedisFromOutside(dial), Prefix: "lockdrill:test:", Clock: monotime.Now})
	shot := history.Event{Op: "s#1", Fault: &history.Fault{ID: "s", Shot: 1, Kind: "store", Form: string(f.Do), Victim: history.VictimStore, Declared: int64(lasts)}}
	r, err := s.Prepare(t.Context(), shot)
	r.Shot = shot
	if err != nil {
		return r, history.Fault{}, err
	}
	applied, err := s.Inject(t.Context(), r)
	if err != nil {
		return r, history.Fault{}, err
	}
	_, seen, err := s.Confirm(t.Context(), r, applied)
	return r, seen, err
}

func TestAStoreFaultThatDidNotHappenIsVoid(t *testing.T) {
	addr := redistest.Start(t)
	for _, f := range []fault.Store{
		{Do: fault.StoreRestart}, {Do: fault.StoreRestart, Keep: true}, {Do: fault.StoreStop}, {Do: fault.StoreFlush}, {Do: fault.StoreFreeze},
	} {
		_, _, err := strike(t, idle{undo.Store{Addr: addr}}, f, 200*time.Millisecond)
		if voidOf(err) == "" {
			t.Errorf("%+v: %v, want a void shot", f, err)
		}
	}
	if _, _, err := strike(t, idle{undo.Store{Addr: addr}}, fault.Store{Do: fault.StoreFailover}, 0); err == nil {
		t.Error("a fail-over without a standby was confirmed")
	}
}

func TestAPauseOfTheStoreIsFeltAndEnds(t *testing.T) {
	addr := redistest.Start(t)
	pause := fault.Store{Do: fault.StorePause}
	r, seen, err := strike(t, idle{undo.Store{Addr: addr}}, pause, time.Second)
	if err != nil || seen.Observed < int64(500*time.Millisecond) {
		t.Errorf("seen %+v, %v", seen, err)
	}
	// A long one is ended early by another process, which has nothing but the record.
	c, _ := dial(undo.Store{Addr: addr})
	defer c.Close()
	if err := c.Do(t.Context(), "CLIENT", "PAUSE", 600_000, "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	if err := elsewhere(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("a write after the end: %v", err)
	}
}

// A store that is filled refuses writes and evicts nothing, for its time; then it has what it had before. Another process, which has
// nothing but the record, gives it back likewise, and leaves what somebody else has set meanwhile.
func TestAFilledStoreHasItsMemoryBack(t *testing.T) {
	addr := redistest.Start(t)
	c, _ := dial(undo.Store{Addr: addr})
	defer c.Close()
	had := undo.Memory{Max: "100000000", Policy: "allkeys-lru"}
	set := func(m undo.Memory) {
		t.Helper()
		if err := errors.Join(c.ConfigSet(t.Context(), maxMemory, m.Max).Err(), c.ConfigSet(t.Context(), evictionPolicy, m.Policy).Err()); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want undo.Memory) {
		t.Helper()
		if now, err := memoryOf(t.Context(), c); err != nil || *now != want {
			t.Errorf("it has %+v (%v), and had %+v", now, err, want)
		}
	}
	set(had)
	if err := c.Set(t.Context(), "lock", "token", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r, seen, err := strike(t, idle{undo.Store{Addr: addr}}, fault.Store{Do: fault.StoreFill}, 500*time.Millisecond)
	if err != nil || seen.Observed < int64(400*time.Millisecond) || *r.Store.Memory != had {
		t.Fatalf("seen %+v, record %+v, %v", seen, r.Store.Memory, err)
	}
	has(filled)
	for range 2 { // killed before it was undone, and undone twice
		if err := fill(t.Context(), nil, c); err != nil {
			t.Fatal(err)
		}
		if err := c.Set(t.Context(), "k", "v", 0).Err(); !redis.IsOOMError(err) {
			t.Errorf("a full store takes a write: %v", err)
		}
		for range 2 {
			if err := elsewhere(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		has(had)
	}
	if err := c.ConfigSet(t.Context(), evictionPolicy, filled.Policy).Err(); err != nil { // killed between the two
		t.Fatal(err)
	}
	if err := elsewhere(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	has(had)
	theirs := undo.Memory{Max: "200000000", Policy: "volatile-ttl"}
	set(theirs)
	if err := elsewhere(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	has(theirs)
	if n := c.Exists(t.Context(), "lock").Val(); n != 1 {
		t.Error("a lock was evicted")
	}
}

// restarting is a store that takes no writes at first.
type restarting struct {
	Outside
	refuses int
}

func (r *restarting) Put(ctx context.Context, key string, ttl time.Duration) error {
	if r.refuses--; r.refuses >= 0 {
		return io.EOF
	}
	return r.Outside.Put(ctx, key, ttl)
}

// A run that is interrupted while a server starts again waits for it: it is dirty only where it never comes.
func TestARestartThatIsInterruptedWaitsForTheServer(t *testing.T) {
	real, dir := redistest.Need(t), t.TempDir()
	slow := filepath.Join(dir, "slow")
	wrapper := "#!/bin/sh\nif [ -e " + slow + " ]; then sleep 3; fi\nexec " + real + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	w := newWorld(t)
	f := &fault.Store{Do: fault.StoreRestart}
	w.store(f)
	if err := os.WriteFile(slow, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := w.prepare(f)
	ctx, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, interrupt)
	if _, err := s.Inject(ctx); err == nil {
		t.Error("it was back before it could be")
	}
	if _, err := s.Revert(t.Context()); err != nil {
		t.Errorf("it was not waited for: %v", err)
	}
}

// Another fault may restart the store just when the end of this one is read back.
func TestAStoreThatRestartsMeanwhileIsAskedAgain(t *testing.T) {
	addr := redistest.Start(t)
	r := undo.Record{Store: &undo.Store{Addr: addr}, Shot: history.Event{Op: "s#1", Fault: &history.Fault{ID: "s", Shot: 1, Kind: "store", Form: "flush", Victim: history.VictimStore}}}
	for refuses, ends := range map[int]bool{3: true, 1 << 30: false} {
		s := steps(&fault.Store{Do: fault.StoreFlush}, &Reach{Store: idle{undo.Store{Addr: addr}}, Prefix: "lockdrill:test:", Clock: monotime.Now})
		s.Open = func(w undo.Store) (Outside, error) {
			c, err := RedisFromOutside(dial)(w)
			return &restarting{c, refuses}, err
		}
		if _, err := s.Revert(t.Context(), r); (err == nil) != ends {
			t.Errorf("after %d refusals: %v", refuses, err)
		}
	}
}

// A write that is sent late, because the machine is busy, still shows the pause, if it is kept waiting for half of it.
func TestAPauseOfTheStoreThatIsLookedAtLate(t *testing.T) {
	addr := redistest.Start(t)
	c, _ := dial(undo.Store{Addr: addr})
	defer c.Close()
	s := steps(&fault.Store{Do: fault.StorePause}, &Reach{Store: idle{undo.Store{Addr: addr}}, Open: RedisFromOutside(dial), Prefix: "lockdrill:test:", Clock: monotime.Now})
	const lasts = 2 * time.Second
	shot := history.Event{Op: "s#1", Fault: &history.Fault{ID: "s", Shot: 1, Kind: "store", Form: "pause", Victim: history.VictimStore, Declared: int64(lasts)}}
	for late, want := range map[time.Duration]string{lasts / 5: "", lasts * 3 / 4: "unconfirmed"} {
		if err := c.Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "WRITE").Err(); err != nil {
			t.Fatal(err)
		}
		applied := history.At(monotime.Now() - int64(late))
		if _, seen, err := s.Confirm(t.Context(), undo.Record{Store: &undo.Store{Addr: addr}, Shot: shot}, applied); voidOf(err) != want || (err == nil) != (want == "") {
			t.Errorf("%s late: %+v, %v, want %q", late, seen, err, want)
		}
	}
}

// A run that is stopped does not wait until the pause of somebody's store is over by itself.
func TestAPauseOfTheStoreIsGivenUpWithTheRun(t *testing.T) {
	addr := redistest.Start(t)
	c, _ := dial(undo.Store{Addr: addr})
	defer c.Close()
	s := steps(&fault.Store{Do: fault.StorePause}, &Reach{Store: idle{undo.Store{Addr: addr}}, Open: RedisFromOutside(dial), Prefix: "lockdrill:test:", Clock: monotime.Now})
	const lasts = 5 * time.Minute
	shot := history.Event{Op: "s#1", Fault: &history.Fault{ID: "s", Shot: 1, Kind: "store", Form: "pause", Victim: history.VictimStore, Declared: int64(lasts)}}
	r, err := s.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	r.Shot = shot
	applied, err := s.Inject(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, stop)
	if window, _, _ := s.Confirm(ctx, r, applied); time.Duration(window.Width()) > lasts/2 {
		t.Errorf("the confirmation went on for %s", time.Duration(window.Width()))
	}
	if _, err := s.Revert(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("a write after the end: %v", err)
	}
}

func TestAPauseThatSomebodyEndsIsVoid(t *testing.T) {
	addr := redistest.Start(t)
	c, _ := dial(undo.Store{Addr: addr})
	defer c.Close()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // again and again: whenever the pause begins, it is ended soon
		defer close(ended)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_ = c.Do(context.Background(), "CLIENT", "UNPAUSE").Err()
			case <-over:
				tick.Stop()
				return
			}
		}
	}()
	_, _, err := strike(t, idle{undo.Store{Addr: addr}}, fault.Store{Do: fault.StorePause}, 20*time.Second)
	close(over)
	<-ended
	if voidOf(err) != "unconfirmed" {
		t.Errorf("%v, want a void shot", err)
	}
}
