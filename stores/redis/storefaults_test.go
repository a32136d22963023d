package redis

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
)

// openFor opens spawned stores that can suffer one fault of the store.
func openFor(t *testing.T, f fault.Store, dir string) *Stores {
	t.Helper()
	redistest.Need(t)
	s, err := OpenStores(t.Context(), Options{
		Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Faults: []experiments.Fault{{ID: "f", Spec: &f}}, Run: "test", Dir: dir,
	})
	testkit.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left below Dir: %v", left)
		}
	})
	return s
}

func life(t *testing.T, s *Store) (string, bool) {
	t.Helper()
	id, marker, err := s.Life(t.Context())
	testkit.Must(t, err)
	return id, marker
}

func TestARestartedServerIsAnotherOneAtTheSameAddress(t *testing.T) {
	for name, keep := range map[string]bool{"with its data": true, "empty": false} {
		t.Run(name, func(t *testing.T) {
			s := openFor(t, fault.Store{Do: fault.StoreRestart, Keep: keep}, t.TempDir())
			before, _ := life(t, s.Locks)
			ledger, _ := life(t, s.Ledger)
			first := s.Locks.Process()
			for range 20 { // the last writes before the kill count
				testkit.Must(t, redistest.Dial(t, s.Locks.Addr).Incr(t.Context(), "n").Err())
			}
			testkit.Must(t, s.Locks.Kill(t.Context()))
			if alive, err := first.Lives(); err != nil || alive {
				t.Errorf("the killed server lives: %v, %v", alive, err)
			}
			testkit.Must(t, s.Locks.Start(t.Context(), keep))
			after, marker := life(t, s.Locks)
			n, _ := redistest.Dial(t, s.Locks.Addr).Get(t.Context(), "n").Int()
			if after == before || marker != keep || (n == 20) != keep {
				t.Errorf("run id %s after %s, marker %v, %d of 20 writes there; want another server, data kept: %v", after, before, marker, n, keep)
			}
			if now, _ := life(t, s.Ledger); now != ledger {
				t.Error("the ledger was restarted, too")
			}
		})
	}
}

func TestAServerThatKeptNothingIsNotStartedWithItsData(t *testing.T) {
	s := openFor(t, fault.Store{Do: fault.StoreRestart}, t.TempDir())
	testkit.Must(t, s.Locks.Kill(t.Context()))
	if err := s.Locks.Start(t.Context(), true); err == nil {
		t.Error("started with data that it does not have")
	}
}

func TestAFailOverLosesWhatWasWrittenSinceTheCut(t *testing.T) {
	s := openFor(t, fault.Store{Do: fault.StoreFailover}, t.TempDir())
	c := redistest.Dial(t, s.Locks.Addr)
	for range 2 { // the new standby is as good as the first
		before, _ := life(t, s.Locks)
		testkit.Must(t, errors.Join(c.Set(t.Context(), "old", "1", 0).Err(), c.Del(t.Context(), "new").Err(), c.Wait(t.Context(), 1, 0).Err()))
		testkit.Must(t, s.Locks.Cut(t.Context()))
		testkit.Must(t, c.Set(t.Context(), "new", "1", 0).Err())
		testkit.Must(t, s.Locks.FailOver(t.Context()))
		after, marker := life(t, s.Locks)
		c = redistest.Dial(t, s.Locks.Addr)
		old, err := c.Exists(t.Context(), "old").Result()
		lost, err2 := c.Exists(t.Context(), "new").Result()
		role, err3 := c.Do(t.Context(), "ROLE").Slice()
		testkit.Must(t, errors.Join(err, err2, err3))
		if after == before || !marker || old != 1 || lost != 0 || role[0] != "master" {
			t.Errorf("run id %s after %s, marker %v, old %d, new %d, role %v", after, before, marker, old, lost, role[0])
		}
		testkit.Must(t, s.Locks.Start(t.Context(), false))
	}
}

// What a restart has started is in the journal, so that whoever finds it ends it and removes the folder.
func TestTheJournalKnowsTheServerOfNow(t *testing.T) {
	redistest.Need(t)
	path := t.TempDir() + "/" + undo.File
	j, err := undo.Create(path, undo.Header{Run: "test"})
	testkit.Must(t, err)
	s, err := OpenStores(t.Context(), Options{Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Run: "test", Dir: t.TempDir(), Journal: j})
	testkit.Must(t, err)
	testkit.Must(t, errors.Join(s.Locks.Kill(t.Context()), s.Locks.Start(t.Context(), false)))
	content, err := undo.Read(path)
	testkit.Must(t, err)
	known := false
	for _, e := range content.Entries {
		known = known || e.Record.Process != nil && *e.Record.Process == *s.Locks.Process() && e.Record.Folder != ""
	}
	if !known {
		t.Errorf("the server of now, %+v, is not in the journal: %+v", s.Locks.Process(), content.Entries)
	}
	if err := errors.Join(s.Close(t.Context()), j.Close()); err != nil {
		t.Error(err)
	}
}

func TestTheEmbeddedStoreSuffersWhatItCan(t *testing.T) {
	s := open(t, experiments.RedisEmbedded, "")
	before, _ := life(t, s.Locks)
	testkit.Must(t, s.Locks.Flush(t.Context()))
	if id, marker := life(t, s.Locks); id != before || marker {
		t.Errorf("after a flush: run id %s (before %s), marker %v", id, before, marker)
	}
	testkit.Must(t, errors.Join(s.Locks.Mark(t.Context()), s.Locks.Kill(t.Context())))
	if _, _, err := s.Locks.Life(t.Context()); err == nil {
		t.Error("a killed store answers")
	}
	testkit.Must(t, s.Locks.Start(t.Context(), false))
	if id, marker := life(t, s.Locks); id == before || marker {
		t.Errorf("after a restart: run id %s (before %s), marker %v", id, before, marker)
	}
}

func TestTheEmbeddedStoreIsRefusedForWhatItCannot(t *testing.T) {
	for _, f := range []fault.Store{
		{Do: fault.StorePause}, {Do: fault.StoreFreeze}, {Do: fault.StoreFailover}, {Do: fault.StoreRestart, Keep: true},
	} {
		_, err := OpenStores(t.Context(), Options{
			Redis: experiments.Redis{Mode: experiments.RedisEmbedded}, Faults: []experiments.Fault{{ID: "f", Spec: &f}}, Run: "test",
		})
		if !errors.Is(err, stores.ErrSettings) || !strings.Contains(err.Error(), "mode: spawn") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
