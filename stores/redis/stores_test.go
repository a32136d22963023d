package redis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/servertest"
	"github.com/lockdrill/lockdrill/internal/spawn"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
)

const patience = 20 * time.Second

func open(t *testing.T, mode experiments.RedisMode, dir string) *Stores {
	t.Helper()
	if mode != experiments.RedisEmbedded {
		redistest.Need(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := OpenStores(ctx, Options{Redis: experiments.Redis{Mode: mode}, Run: "test", Dir: dir})
	if err != nil {
		t.Fatalf("OpenStores(%s): %v", mode, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func bothModes(t *testing.T, f func(*testing.T, experiments.RedisMode)) {
	for _, mode := range []experiments.RedisMode{experiments.RedisEmbedded, experiments.RedisSpawn} {
		t.Run(string(mode), func(t *testing.T) { f(t, mode) })
	}
}

func TestStoresAreApartAndTellTheirLife(t *testing.T) {
	bothModes(t, func(t *testing.T, mode experiments.RedisMode) {
		s := open(t, mode, t.TempDir())
		if s.Notice == "" || s.Locks.Addr == s.Ledger.Addr || s.Locks.Prefix != "lockdrill:test:" {
			t.Errorf("stores %+v and %+v (%q): want two addresses, the run's prefix, a notice", s.Locks, s.Ledger, s.Notice)
		}
		if s.Locks.Info.RunID == "" || s.Locks.Info.RunID == s.Ledger.Info.RunID || s.Locks.Info.Version == "" {
			t.Errorf("infos %+v and %+v: want versions and two run ids", s.Locks.Info, s.Ledger.Info)
		}
		expectLife := func(store *Store, want bool) {
			t.Helper()
			id, marker, err := store.Life(t.Context())
			if err != nil || id != store.Info.RunID || marker != want {
				t.Errorf("Life = %q, %v, %v; want %q, %v", id, marker, err, store.Info.RunID, want)
			}
		}
		expectLife(s.Locks, true)
		testkit.Must(t, s.Locks.client.FlushAll(t.Context()).Err())
		expectLife(s.Locks, false)
		expectLife(s.Ledger, true)
		testkit.Must(t, s.Locks.Mark(t.Context()))
		expectLife(s.Locks, true)
	})
}

func TestSpawnedStoresLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, experiments.RedisSpawn, dir)
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d folders below Dir, want 2", len(entries))
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left below Dir: %v", entries)
	}
	for _, store := range []*Store{s.Locks, s.Ledger} {
		if servertest.Alive(store.PID) {
			t.Errorf("redis-server %d is alive", store.PID)
		}
		if _, _, err := store.Life(t.Context()); err == nil {
			t.Error("a closed store tells its life")
		}
	}
}

func TestADeadStoreIsAnErrorAndCanBeClosed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, experiments.RedisSpawn, dir)
	p, err := os.FindProcess(s.Locks.PID)
	testkit.Must(t, err)
	testkit.Must(t, p.Kill())
	servertest.AwaitDeath(t, patience, s.Locks.PID)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := s.Locks.Life(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Life of a killed store: %v, %v", err, ctx.Err())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left below Dir: %v", entries)
	}
}

// A server whose port was taken between the choice and the use ends at once, and another port is tried. Here every try fails.
func TestAServerThatEndsAtOnceLeavesNothing(t *testing.T) {
	dir, sp := t.TempDir(), spawn.New()
	defer sp.Close()
	_, err := openSpawned(t.Context(), &stores.Own{Spawner: sp, Binary: "false", Dir: dir}, "locks", "p:", false)
	if !errors.Is(err, stores.ErrEnded) || strings.Count(err.Error(), stores.ErrEnded.Error()) != 5 {
		t.Errorf("openSpawned of a command that fails = %v, want %d times %v", err, 5, stores.ErrEnded)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left below Dir: %v", entries)
	}
}

func TestOpenStoresRefuses(t *testing.T) {
	for _, o := range []Options{{Redis: experiments.Redis{Mode: experiments.RedisExternal}, Run: "r"}, {Redis: experiments.Redis{Mode: experiments.RedisEmbedded}}} {
		if s, err := OpenStores(t.Context(), o); err == nil {
			t.Errorf("OpenStores(%+v) succeeded", o)
			_ = s.Close(t.Context())
		}
	}
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(dir+"/file", nil, 0o600))
	redistest.Need(t)
	if _, err := OpenStores(t.Context(), Options{Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Run: "r", Dir: dir + "/file"}); err == nil {
		t.Error("OpenStores below a file succeeded")
	}
	if _, err := os.Stat(dir + "/file"); errors.Is(err, fs.ErrNotExist) {
		t.Error("a failing OpenStores removed what it had not made")
	}
}

// No key may go before its time, or the store itself would break mutual exclusion.
func TestExpiryIsNeverEarly(t *testing.T) {
	bothModes(t, func(t *testing.T, mode experiments.RedisMode) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		s := open(t, mode, t.TempDir())
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(g)))
				for i := range 25 {
					key := fmt.Sprintf("early:%d:%d", g, i)
					ttl := time.Duration(5+rng.IntN(30)) * time.Millisecond
					sent := time.Now()
					if err := s.Locks.client.Set(t.Context(), key, "v", ttl).Err(); err != nil {
						t.Error(err)
						return
					}
					for n := int64(1); n == 1; {
						n, _ = s.Locks.client.Exists(t.Context(), key).Result()
					}
					if d := time.Since(sent); d < ttl {
						t.Errorf("a key with TTL %s was gone after %s", ttl, d)
					}
				}
			})
		}
		wg.Wait()
	})
}

// The fence is made of the server's clock, and "compare, then act" needs one instant for a whole script.
func TestServerTimeIsRightAndStandsStillInAScript(t *testing.T) {
	spin := redis.NewScript(`
		local a = redis.call('TIME')
		redis.call('SET', KEYS[1], 'v', 'PX', 1)
		for i = 1, 300000 do end
		local still = redis.call('EXISTS', KEYS[1])
		local b = redis.call('TIME')
		return {a[1], a[2], b[1], b[2], still}`)
	s := open(t, experiments.RedisEmbedded, "")
	for range 3 {
		before := time.Now()
		direct, err := s.Locks.client.Time(t.Context()).Result()
		if err != nil || direct.Before(before.Truncate(time.Microsecond)) || direct.After(time.Now()) {
			t.Errorf("TIME = %v, %v; want now, %v", direct, err, before)
		}
		before = time.Now()
		r, err := spin.Run(t.Context(), s.Locks.client, []string{"k"}).Slice()
		testkit.Must(t, err)
		at := func(i int) time.Time {
			sec, _ := strconv.ParseInt(r[i].(string), 10, 64)
			us, _ := strconv.ParseInt(r[i+1].(string), 10, 64)
			return time.Unix(sec, us*1000)
		}
		if a := at(0); a.Before(before.Truncate(time.Microsecond)) || a.After(time.Now()) {
			t.Errorf("TIME in a script = %v, want after %v", a, before)
		}
		if !at(0).Equal(at(2)) || r[4].(int64) != 1 {
			t.Errorf("script: time went from %v to %v, key exists %v; want both to stand still", at(0), at(2), r[4])
		}
	}
}

func TestCalibrate(t *testing.T) {
	bothModes(t, func(t *testing.T, mode experiments.RedisMode) {
		s := open(t, mode, t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), patience) // less than a second, where the machine does little else
		defer cancel()
		began := time.Now()
		c, err := s.Calibrate(ctx)
		if err != nil {
			t.Fatalf("Calibrate: %v", err)
		}
		t.Logf("%+v in %s", c, time.Since(began))
		if c.RTT50 <= 0 || c.RTT99 < c.RTT50 || c.Timer99 <= 0 || c.Expiry < 0 {
			t.Errorf("Calibrate = %+v: senseless", c)
		}
	})
}

// What is put up is written down, and what is gone is marked as undone: the journal can be closed.
func TestStandsAreWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), undo.File)
	j, err := undo.Create(path, undo.Header{Run: "r"})
	testkit.Must(t, err)
	redistest.Need(t)
	s, err := OpenStores(t.Context(), Options{Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Run: "r", Dir: t.TempDir(), Journal: j})
	testkit.Must(t, err)
	c, err := undo.Read(path)
	if err != nil || len(c.Open()) != 2 {
		t.Fatalf("%+v, %v; want two servers", c, err)
	}
	for i, pid := range []int{s.Ledger.PID, s.Locks.PID} {
		e := c.Open()[i]
		if r := e.Record; r.Kind != undo.StandServer || r.Process.PID != pid || r.Process.Started != undo.Find(pid).Started || r.Process.Mark == "" || r.Process.Folder != r.Folder || e.State != undo.Injected {
			t.Errorf("record %+v of process %d", e, pid)
		}
		if _, err := os.Stat(e.Record.Folder); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// A journal that cannot be written refuses the server, and nothing of it is left.
func TestNothingIsPutUpWithoutAJournal(t *testing.T) {
	j, err := undo.Create(filepath.Join(t.TempDir(), undo.File), undo.Header{Run: "r"})
	testkit.Must(t, err)
	testkit.Must(t, j.Close())
	redistest.Need(t)
	dir := t.TempDir()
	if s, err := OpenStores(t.Context(), Options{Redis: experiments.Redis{Mode: experiments.RedisSpawn}, Run: "r", Dir: dir, Journal: j}); err == nil {
		t.Errorf("a server was started that nobody can end: %+v", s)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

// A Valkey says as redis_version which Redis it works like; a KeyDB, and a server whose INFO has nothing, say no name.
func TestAServerIsCalledWhatItIs(t *testing.T) {
	for text, want := range map[string]string{
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nredis_mode:standalone\r\n": "Valkey 8.0.1",
		"# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\n":                                            "Redis 7.0.15",
		"# Server\r\nredis_version:6.3.4\r\n":                                                                        "Redis 6.3.4",
		"":                                                                                                           "Redis",
	} {
		if got := (history.StoreInfo{Version: versionIn(infoIn(text))}).Called("Redis"); got != want {
			t.Errorf("%q is called %q, want %q", text, got, want)
		}
	}
}
