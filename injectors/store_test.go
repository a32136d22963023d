package injectors

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/stores"
	redisstores "github.com/lockdrill/lockdrill/stores/redis"
)

// idle is a server to which nothing is done, whatever is asked: every fault of it is silently ineffective.
type idle struct{ where undo.Store }

func (s idle) Where() undo.Store                 { return s.where }
func (s idle) Process() *undo.Process            { return nil }
func (s idle) Processes() ([]int, bool)          { return nil, false }
func (s idle) Kill(context.Context) error        { return nil }
func (s idle) Start(context.Context, bool) error { return nil }
func (s idle) Flush(context.Context) error       { return nil }
func (s idle) Cut(context.Context) error         { return nil }
func (s idle) FailOver(context.Context) error    { return nil }

// somebodys is a redis-server that is somebody's own: done to it is only what is told it.
func (w *world) somebodys() *redis.Client {
	w.Helper()
	w.Store, w.Open = idle{undo.Store{Addr: redistest.Start(w)}}, redisstores.Kind.Outside
	return w.client(w.Store.Where())
}

// somewhere is a store with which nothing can be done.
type somewhere struct{}

func (somewhere) Where() undo.Store { return undo.Store{} }

// What a fault does to a store is asked of the store's type: one that cannot do it makes no such fault.
func TestAFaultNeedsWhatTheStoreCanDo(t *testing.T) {
	needs := map[fault.Do]bool{
		fault.StorePause: false, fault.StoreFill: false, fault.StoreFreeze: true, fault.StoreFreezeLeader: true, fault.StoreStop: true,
		fault.StoreStopLeader: true, fault.StoreRestart: true, fault.StoreFlush: true, fault.StoreFailover: true,
	}
	for do := range ofStores {
		needed, known := needs[fault.Do(do)]
		if can, cannot := (&Reach{Store: idle{}}), (&Reach{Store: somewhere{}}); !known || !can.Makes(&fault.Store{Do: fault.Do(do)}) || cannot.Makes(&fault.Store{Do: fault.Do(do)}) == needed {
			t.Errorf("%s: known %v, made of a store that can, and of one that cannot: %v", do, known, !needed)
		}
	}
}

func TestAStoreFaultThatDidNotHappenIsVoid(t *testing.T) {
	w := newWorld(t)
	w.somebodys()
	w.lasts = 200 * time.Millisecond
	for _, f := range []fault.Store{
		{Do: fault.StoreRestart}, {Do: fault.StoreRestart, Keep: true}, {Do: fault.StoreStop}, {Do: fault.StoreFlush}, {Do: fault.StoreFreeze},
	} {
		if _, _, err := w.strike(&f); voidOf(err) == "" {
			t.Errorf("%+v: %v, want a void shot", f, err)
		}
	}
	if _, _, err := w.strike(&fault.Store{Do: fault.StoreFailover}); err == nil {
		t.Error("a fail-over without a standby was confirmed")
	}
}

// A store that is filled refuses writes and evicts nothing, for its time; then it has what it had before. Another process, which has
// nothing but the record, gives it back likewise, and leaves what somebody else has set meanwhile.
func TestAFilledStoreHasItsMemoryBack(t *testing.T) {
	w := newWorld(t)
	c := w.somebodys()
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
	s, _, err := w.strike(&fault.Store{Do: fault.StoreFill})
	if err != nil || *s.Rec.Store.Memory != had {
		t.Fatalf("record %+v, %v", s.Rec.Store.Memory, err)
	}
	undone := func() {
		t.Helper()
		if err := s.elsewhere(); err != nil {
			t.Fatal(err)
		}
	}
	has(filled)
	undone()
	has(had)
	if err := fill(t.Context(), nil, c); err != nil { // killed before it was undone, and undone twice
		t.Fatal(err)
	}
	undone()
	undone()
	has(had)
	if err := c.ConfigSet(t.Context(), evictionPolicy, filled.Policy).Err(); err != nil { // killed between the two
		t.Fatal(err)
	}
	undone()
	has(had)
	theirs := undo.Memory{Max: "200000000", Policy: "volatile-ttl"}
	set(theirs)
	undone()
	has(theirs)
	again := &Reach{Open: w.Open, Again: true}
	if err := again.end(t.Context(), s.Rec); err != nil {
		t.Errorf("asked after once it is undone: %v", err)
	}
	set(filled)
	if err := again.end(t.Context(), s.Rec); !errors.Is(err, undo.ErrStill) {
		t.Errorf("asked after while it is there: %v", err)
	}
	has(filled) // it may be another run's
	if n := c.Exists(t.Context(), "lock").Val(); n != 1 {
		t.Error("a lock was evicted")
	}
}

// restarting is a store that takes no writes at first.
type restarting struct {
	stores.Outside
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
	w := newWorld(t)
	w.somebodys()
	open := w.Open
	for refuses, ends := range map[int]bool{3: true, 1 << 30: false} {
		w.Open = open
		s := w.prepare(&fault.Store{Do: fault.StoreFlush})
		w.Open = func(where undo.Store) (stores.Outside, error) {
			c, err := open(where)
			return &restarting{c, refuses}, err
		}
		if _, err := s.Revert(t.Context()); (err == nil) != ends {
			t.Errorf("after %d refusals: %v", refuses, err)
		}
	}
}

// A write that is sent late, because the machine is busy, still shows the pause, if it is kept waiting for half of it; one that somebody
// ends is none.
func TestAPauseOfTheStoreThatIsNotFeltIsVoid(t *testing.T) {
	w := newWorld(t)
	c := w.somebodys()
	w.lasts = 2 * time.Second
	s := w.prepare(&fault.Store{Do: fault.StorePause})
	for _, pause := range []struct {
		late time.Duration
		over bool
		void string
	}{{late: w.lasts / 5}, {w.lasts * 3 / 4, false, "was sent only after"}, {0, true, "was answered after"}} {
		err := c.Do(t.Context(), "CLIENT", "PAUSE", time.Hour.Milliseconds(), "WRITE").Err()
		if err == nil && pause.over {
			err = c.Do(t.Context(), "CLIENT", "UNPAUSE").Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, seen, err := s.confirm(history.At(monotime.Now() - int64(pause.late)))
		if (err == nil) != (pause.void == "") || err != nil && (voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), pause.void)) {
			t.Errorf("%+v: %+v, %v", pause, seen, err)
		}
	}
}

// A run that is stopped does not wait until the pause of somebody's store is over by itself; nor does whoever has the record.
func TestAPauseOfTheStoreIsGivenUpWithTheRun(t *testing.T) {
	for _, by := range []string{"the runner", "its record"} {
		w := newWorld(t)
		c := w.somebodys()
		w.lasts = 5 * time.Minute
		s := w.prepare(&fault.Store{Do: fault.StorePause})
		applied, err := s.Inject(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, stop)
		if window, _, _ := s.Confirm(ctx, applied); time.Duration(window.Width()) > w.lasts/2 {
			t.Errorf("the confirmation went on for %s", time.Duration(window.Width()))
		}
		if by == "the runner" {
			_, err = s.Revert(t.Context())
		} else {
			err = s.elsewhere()
		}
		if err != nil || refuses(c)() {
			t.Errorf("undone by %s, it takes no writes: %v", by, err)
		}
	}
}
