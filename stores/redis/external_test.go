package redis

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
)

const secret = "hush-hush"

// owned is a Redis that somebody else has started, with a password, and their connection to it.
func owned(t *testing.T) (experiments.Redis, *redis.Client) {
	t.Helper()
	addr := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: addr, DB: 2, DisableIdentity: true})
	testkit.Must(t, c.ConfigSet(t.Context(), "requirepass", secret).Err())
	_ = c.Close()
	c = redis.NewClient(&redis.Options{Addr: addr, DB: 2, Password: secret, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("TESTBED_TEST_PASSWORD", secret)
	return experiments.Redis{Mode: experiments.RedisExternal, URL: "redis://" + addr + "/2", PasswordEnv: "TESTBED_TEST_PASSWORD"}, c
}

func openGuest(t *testing.T, r experiments.Redis, run string, j *undo.Journal) (*Stores, error) {
	t.Helper()
	s, err := OpenStores(t.Context(), Options{Redis: r, Run: run, Folder: "/runs/" + run, Dir: t.TempDir(), Journal: j})
	if err == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = s.Close(ctx) // again, where the test has done it
		})
	}
	return s, err
}

func keysAt(t *testing.T, c *redis.Client) []string {
	t.Helper()
	keys, err := c.Keys(t.Context(), "*").Result()
	testkit.Must(t, err)
	return keys
}

func TestAGuestTakesOnlyItsOwnKeysAway(t *testing.T) {
	r, c := owned(t)
	path := t.TempDir() + "/" + undo.File
	j, err := undo.Create(path, undo.Header{Run: "r1"})
	testkit.Must(t, err)
	theirs := []string{"job:1", "lockdrill:environment", "lockdrill:r10:job", "{lockdrill:r10:job}:fence", "lockdrill:r?:x"}
	for _, k := range theirs {
		testkit.Must(t, c.Set(t.Context(), k, "theirs", 0).Err())
	}
	s, err := openGuest(t, r, "r1", j)
	testkit.Must(t, err)
	if s.Locks.Info.Kind != "external" || s.Ledger.Info.Kind == "external" || s.Ledger.Addr == s.Locks.Addr {
		t.Errorf("stores %+v and %+v: the ledger must be the run's own", s.Locks.Info, s.Ledger.Info)
	}
	if _, err := s.Calibrate(t.Context()); err != nil {
		t.Error(err)
	}
	id, marker, err := s.Locks.Life(t.Context())
	if err != nil || id == "" || !marker {
		t.Errorf("Life = %q, %v, %v", id, marker, err)
	}
	for _, k := range []string{"lockdrill:r1:job", "{lockdrill:r1:job}:fence", "{lockdrill:r1:job}:line"} {
		testkit.Must(t, c.Set(t.Context(), k, "ours", 0).Err())
	}
	testkit.Must(t, errors.Join(s.Close(t.Context()), j.Close()))
	left := strings.Join(keysAt(t, c), " ")
	if len(keysAt(t, c)) != len(theirs) {
		t.Errorf("left: %s; want just %v", left, theirs)
	}
	journal, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(journal), secret) || !strings.Contains(string(journal), "TESTBED_TEST_PASSWORD") {
		t.Errorf("the journal shows the password, or does not name its variable (%v):\n%s", err, journal)
	}
	for _, shown := range []any{s.Notice, s.Locks.Endpoint(), s.Locks.Where()} {
		if text, _ := json.Marshal(shown); strings.Contains(string(text), secret) {
			t.Errorf("the password is shown: %s", text)
		}
	}
}

func TestOneRunAtATimePerTarget(t *testing.T) {
	r, c := owned(t)
	first, err := openGuest(t, r, "r1", nil)
	testkit.Must(t, err)
	var held *stores.HeldError
	if _, err := openGuest(t, r, "r2", nil); !errors.As(err, &held) || held.Open || held.Run != "r1" || held.Folder != "/runs/r1" || held.Since.IsZero() {
		t.Errorf("a second run: %v (%+v)", err, held)
	}
	if n, _ := c.Exists(t.Context(), "lockdrill:r2:marker").Result(); n != 0 {
		t.Error("the refused run has left a key")
	}
	if held = nil; !errors.As(Taken(t.Context(), r), &held) || held.Open || held.Run != "r1" {
		t.Errorf("a look at the target shows %+v", held)
	}
	testkit.Must(t, first.Close(t.Context()))
	second, err := openGuest(t, r, "r2", nil)
	if err != nil {
		t.Fatalf("after the first has left: %v", err)
	}
	testkit.Must(t, second.Close(t.Context()))
	if left := keysAt(t, c); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if err := Taken(t.Context(), r); err != nil {
		t.Errorf("a target that nobody has: %v", err)
	}
}

// A runner that dies keeps the target closed until its journal is: its lease ends by itself, its mark does not.
func TestADeadRunKeepsTheTargetClosedUntilItIsUndone(t *testing.T) {
	r, c := owned(t)
	path := t.TempDir() + "/" + undo.File
	j, err := undo.Create(path, undo.Header{Run: "r1"})
	testkit.Must(t, err)
	dead, err := openGuest(t, r, "r1", j)
	testkit.Must(t, err)
	stay := dead.Locks.host.(*external)
	stay.Stop() // a dead one renews no lease
	content, err := undo.Read(path)
	testkit.Must(t, err)
	if err := c.Del(t.Context(), stores.TurnKey).Err(); err != nil { // as after its time
		t.Fatal(err)
	}
	var held *stores.HeldError
	if _, err := openGuest(t, r, "r2", nil); !errors.As(err, &held) || !held.Open || !strings.Contains(err.Error(), "lockdrill recover /runs/r1") {
		t.Errorf("a run after a dead one: %v", err)
	}
	if n, _ := c.Exists(t.Context(), stores.TurnKey).Result(); n != 0 {
		t.Error("the refused run has kept the lease")
	}
	if held = nil; !errors.As(Taken(t.Context(), r), &held) || !held.Open {
		t.Errorf("a look at the target shows %+v", held)
	}
	undone := false
	for _, e := range content.Entries {
		if e.Record.Kind == undo.StandKeys {
			undone = true
			for range 2 {
				if err := stores.EndKeys(t.Context(), e.Record); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if left := keysAt(t, c); !undone || len(left) != 0 {
		t.Errorf("undone %v, left %v", undone, left)
	}
	if _, err := openGuest(t, r, "r3", nil); err != nil {
		t.Errorf("after the undoing: %v", err)
	}
}

// The lease of another run that came meanwhile is not taken from it.
func TestUndoingDoesNotEndAnothersStay(t *testing.T) {
	r, c := owned(t)
	w, err := whereIs(r)
	testkit.Must(t, err)
	if _, err := openGuest(t, r, "r2", nil); err != nil {
		t.Fatal(err)
	}
	old := undo.Record{Kind: undo.StandKeys, Store: &w, Key: &undo.Key{Name: "lockdrill:r1:", Token: `{"run":"r1"}`}}
	testkit.Must(t, stores.EndKeys(t.Context(), old))
	if n, _ := c.Exists(t.Context(), stores.TurnKey, stores.OpenKey, "lockdrill:r2:marker").Result(); n != 3 {
		t.Errorf("%d of 3 keys of the other run are left", n)
	}
	for _, prefix := range []string{"", "lockdrill:", "job:1:", "lockdrill:r1", "lockdrill:*"} {
		if err := stores.EndKeys(t.Context(), undo.Record{Store: &w, Key: &undo.Key{Name: prefix}}); err == nil {
			t.Errorf("keys below %q were removed", prefix)
		}
	}
}

func TestALeaseIsKeptTakenAgainOrLost(t *testing.T) {
	r, c := owned(t)
	s, err := openGuest(t, r, "r1", nil)
	testkit.Must(t, err)
	e := s.Locks.host.(*external)
	for what, edit := range map[string]func() error{
		"about to end":    func() error { return c.PExpire(t.Context(), stores.TurnKey, stores.TurnTTL/4).Err() },
		"gone in a flush": func() error { return c.Del(t.Context(), stores.TurnKey).Err() },
	} {
		testkit.Must(t, edit())
		ttl, kept := time.Duration(0), e.RenewOnce(t.Context(), e.renew)
		if ttl, err = c.PTTL(t.Context(), stores.TurnKey).Result(); !kept || err != nil || ttl < stores.TurnTTL/2 {
			t.Errorf("%s: kept %v, %s left, %v", what, kept, ttl, err)
		}
	}
	testkit.Must(t, c.Set(t.Context(), stores.TurnKey, `{"run":"r2"}`, 0).Err())
	if e.RenewOnce(t.Context(), e.renew) {
		t.Error("another run's lease was taken for the own one")
	}
	var held *stores.HeldError
	if _, _, err := s.Locks.Life(t.Context()); !errors.As(err, &held) || held.Run != "r2" {
		t.Errorf("Life = %v: the drill goes on at a target that is another's", err)
	}
}

func TestAFlushOfSomebodysRedisTakesOnlyTheRunsKeys(t *testing.T) {
	r, c := owned(t)
	testkit.Must(t, c.Set(t.Context(), "theirs", "1", 0).Err())
	s, err := openGuest(t, r, "r1", nil)
	testkit.Must(t, err)
	testkit.Must(t, s.Locks.Flush(t.Context()))
	_, marker, err := s.Locks.Life(t.Context())
	n, _ := c.Exists(t.Context(), "theirs", stores.TurnKey, stores.OpenKey).Result()
	if err != nil || marker || n != 3 {
		t.Errorf("marker %v (%v), %d of 3 other keys left", marker, err, n)
	}
	if err := s.Locks.Kill(t.Context()); err == nil {
		t.Error("somebody's Redis was killed")
	}
}

func TestTLSNeedsTheRightAuthority(t *testing.T) {
	addr, ca, _ := redistest.StartTLS(t)
	r := experiments.Redis{Mode: experiments.RedisExternal, URL: "rediss://" + addr, CA: ca}
	s, err := openGuest(t, r, "r1", nil)
	testkit.Must(t, err)
	if e := s.Locks.Endpoint(); !e.TLS || e.ServerName != "127.0.0.1" || e.CA != ca {
		t.Errorf("endpoint %+v", e)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := openGuest(t, experiments.Redis{Mode: experiments.RedisExternal, URL: "rediss://" + addr}, "r2", nil); err == nil {
		t.Error("a server was believed that no known authority vouches for")
	}
}

func TestTheTargetSaysWhatItIs(t *testing.T) {
	r, c := owned(t)
	if _, said, err := Environment(t.Context(), r); said || err != nil {
		t.Errorf("nothing is set: %v, %v", said, err)
	}
	testkit.Must(t, c.Set(t.Context(), stores.EnvironmentKey, "staging", 0).Err())
	if name, said, err := Environment(t.Context(), r); name != "staging" || !said || err != nil {
		t.Errorf("Environment = %q, %v, %v", name, said, err)
	}
}

func TestWhatIsSetWrongIsSaidWithoutThePassword(t *testing.T) {
	r, _ := owned(t)
	for name, c := range map[string]struct {
		edit func(*experiments.Redis)
		want string
		is   error
	}{
		"no such variable": {func(r *experiments.Redis) { r.PasswordEnv = "BED_TEST_NO_SUCH" }, "BED_TEST_NO_SUCH", stores.ErrSettings},
		"no such authority": {func(r *experiments.Redis) {
			r.URL, r.CA = strings.Replace(r.URL, "redis:", "rediss:", 1), "/no/such.pem"
		}, "/no/such.pem", stores.ErrSettings},
		"nobody there": {func(r *experiments.Redis) { r.URL = "redis://127.0.0.1:1" }, "127.0.0.1:1", nil},
	} {
		bad := r
		c.edit(&bad)
		_, err := openGuest(t, bad, "r1", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("TESTBED_TEST_PASSWORD", "wrong-"+secret)
	if _, err := openGuest(t, r, "r1", nil); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a wrong password: %v", err)
	}
}

// A ledger of somebody's is a stay like that at the locks' store: its own lease and mark, its own keys, its own record.
func TestAGuestOfTwoServers(t *testing.T) {
	locks, c1 := owned(t)
	ledger, c2 := owned(t)
	path := t.TempDir() + "/" + undo.File
	j, err := undo.Create(path, undo.Header{Run: "r1"})
	testkit.Must(t, err)
	open := func(run string, j *undo.Journal) (*Stores, error) {
		return OpenStores(t.Context(), Options{Redis: locks, Ledger: experiments.LedgerStore{URL: ledger.URL, PasswordEnv: ledger.PasswordEnv}, Run: run, Journal: j})
	}
	s, err := open("r1", j)
	testkit.Must(t, err)
	if s.Locks.Info.Kind != "external" || s.Ledger.Info.Kind != "external" || s.Ledger.Endpoint().PasswordEnv != "TESTBED_TEST_PASSWORD" || !strings.Contains(s.Notice, "at both as a guest") {
		t.Errorf("%s: %+v", s.Notice, s.Ledger.Endpoint())
	}
	for _, c := range []*redis.Client{c1, c2} {
		if n, err := c.Exists(t.Context(), stores.TurnKey, stores.OpenKey, "lockdrill:r1:marker").Result(); n != 3 || err != nil {
			t.Errorf("%d of 3 keys of the run (%v)", n, err)
		}
	}
	// Another run is refused by the ledger as well, and leaves nothing at the locks' store, where it came first.
	other, c3 := owned(t)
	var held *stores.HeldError
	_, err = OpenStores(t.Context(), Options{Redis: other, Ledger: experiments.LedgerStore{URL: ledger.URL, PasswordEnv: ledger.PasswordEnv}, Run: "r2"})
	if !errors.As(err, &held) || held.Run != "r1" || len(keysAt(t, c3)) != 0 {
		t.Errorf("a second run: %v; left at its locks' store: %v", err, keysAt(t, c3))
	}
	testkit.Must(t, errors.Join(s.Close(t.Context()), j.Close()))
	if left := append(keysAt(t, c1), keysAt(t, c2)...); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	content, err := undo.Read(path)
	testkit.Must(t, err)
	stays := map[string]bool{}
	for _, e := range content.Entries {
		stays[e.Record.Store.Addr] = e.Record.Kind == undo.StandKeys
	}
	if len(stays) != 2 {
		t.Errorf("the journal has stays at %v", stays)
	}
	// A server is known by itself, not by how it is written.
	ledger.URL = strings.Replace(locks.URL, "127.0.0.1", "localhost", 1)
	ledger.URL = strings.TrimSuffix(ledger.URL, "/2") + "/3"
	if _, err := open("r3", nil); !errors.Is(err, stores.ErrSettings) || !strings.Contains(err.Error(), "very server") {
		t.Errorf("the locks' store as the ledger's: %v", err)
	}
	if left := keysAt(t, c1); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Where only the ledger is somebody's, the locks have a store of the run's own.
func TestAGuestWithTheLedgerOnly(t *testing.T) {
	r, c := owned(t)
	s, err := OpenStores(t.Context(), Options{Redis: experiments.Redis{Mode: experiments.RedisEmbedded}, Ledger: experiments.LedgerStore{URL: r.URL, PasswordEnv: r.PasswordEnv}, Run: "r1", Dir: t.TempDir()})
	testkit.Must(t, err)
	if s.Locks.Info.Kind != "embedded" || s.Ledger.Info.Kind != "external" || !strings.HasPrefix(s.Notice, "the ledger at redis://127") {
		t.Errorf("%s: %+v, %+v", s.Notice, s.Locks.Info, s.Ledger.Info)
	}
	if err := s.Close(t.Context()); err != nil || len(keysAt(t, c)) != 0 {
		t.Errorf("closed (%v), and left %v", err, keysAt(t, c))
	}
}

// A cluster of which one server does not answer has not answered: the first connection is made, and no other.
func TestAClusterAnswersWithAllItsServers(t *testing.T) {
	addr := redistest.Start(t)
	connected := 0
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:2"}}},
			}, nil
		},
		Dialer: func(context.Context, string, string) (net.Conn, error) { // onServers asks one after another
			if connected++; connected > 1 {
				return nil, errors.New("gone")
			}
			return net.Dial("tcp", addr)
		},
		MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
	})
	defer c.Close()
	if info, err := serverInfo(t.Context(), c); err == nil || info != nil {
		t.Errorf("%v, %v", info, err)
	}
}
