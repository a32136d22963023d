//go:build full

package etcd

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/etcdservers"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/servertest"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// Three servers lose their leader, all of their number with their data kept, and then with it lost; then nothing of them is left.
func TestAnEtcdOfThreeSuffersAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds")
	}
	etcdtest.Need(t)
	redistest.Need(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := redis.OpenStores(ctx, redis.Options{Store: &experiments.Store{Kind: experiments.StoreEtcd, Mode: experiments.StoreSpawn, Members: 3}, Kind: Kind, Run: "test", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	etcd := s.Held.(*store)
	outside, err := fromOutside(s.Held.Where())
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	// life polls until the servers answer: one of them may still look for the leader that was killed.
	life := func() (id, who string, marker bool) {
		t.Helper()
		for {
			id, marker, err := s.Held.Life(ctx)
			who, err2 := outside.Who(ctx)
			if err == nil && err2 == nil {
				return id, who, marker
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("the servers never answer: %v, %v", err, err2)
			}
		}
	}
	first, term, marker := life()
	if pids, busy := etcd.Processes(); len(pids) != 3 || busy || !marker || s.Locks != nil || etcd.Process() != nil {
		t.Errorf("processes %v, %v, marker %v", pids, busy, marker)
	}
	leader, err := etcd.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := etcd.KillServer(ctx, *leader); err != nil {
		t.Fatal(err)
	}
	if servertest.Alive(leader.PID) {
		t.Error("the leader is alive")
	}
	if id, _, marker := life(); id != first || !marker {
		t.Errorf("life %q, marker %v after the leader's death, want the same life %q, and its data", id, marker, first)
	}
	if err := etcd.Start(ctx, true); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{true, false} {
		before, _, _ := life()
		if err := etcd.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := outside.Who(ctx); err == nil {
			t.Error("killed servers answer")
		}
		if err := etcd.Start(ctx, keep); err != nil {
			t.Fatal(err)
		}
		id, now, marker := life()
		if id == before || now == term || marker != keep {
			t.Errorf("keep %v: life %q after %q, %q after %q from outside, marker %v", keep, id, before, now, term, marker)
		}
		term = now
	}
	pids, _ := etcd.Processes()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if servertest.Alive(pid) {
			t.Errorf("etcd %d is alive", pid)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left below Dir: %v", entries)
	}
}

// An etcd of somebody's own may prolong every lease: then nobody of the drill would ever get a lock, and it is refused before it stays.
func TestAGuestNeedsTheLeaseOfItsLocks(t *testing.T) {
	at := &experiments.Store{Kind: experiments.StoreEtcd, Mode: experiments.StoreExternal, URL: "http://" + etcdtest.Start(t, "--election-timeout", "3000").Addr}
	for ttl, refused := range map[time.Duration]bool{0: false, 4 * time.Second: true, 5 * time.Second: false} {
		s, err := openGuest(t.Context(), &stores.Ground{Store: at, Run: "r", Folder: "/r", Prefix: "lockdrill:r:", TTL: ttl})
		if errors.Is(err, stores.ErrSettings) != refused || refused && !strings.Contains(err.Error(), "grant no lease under 5 s") {
			t.Errorf("%s: %v", ttl, err)
		}
		if !refused && err == nil {
			err = s.Close(t.Context())
		}
		if !refused && err != nil {
			t.Error(err)
		}
	}
}

// The holder of a lock is the key itself, or the oldest below it. Its key is deleted only as long as it is that epoch's.
func TestHoldersOfEtcd(t *testing.T) {
	clients, err := etcdservers.Each(protocol.Endpoint{Addrs: []string{etcdtest.Start(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	s, ctx := &store{keys: keys{clients: clients}}, t.Context()
	for _, key := range []string{"p:one", "p:many/b", "p:many/a", "p:manyfold"} {
		if _, err := clients[0].Put(ctx, key, "token of "+key); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"p:one": "p:one", "p:many": "p:many/b", "p:none": ""} {
		key, epoch, token, err := s.Holder(ctx, name)
		if err != nil || key != want || want != "" && token != "token of "+want {
			t.Errorf("%s is held by %q %s with %q: %v, want %q", name, key, epoch, token, err, want)
		}
		if key == "" {
			continue
		}
		if none, err := s.End(ctx, key, "rev-1"); err != nil || !none {
			t.Errorf("the key of another epoch was deleted: %v, %v", none, err)
		}
		if there, err := s.Lives(ctx, key, epoch); err != nil || !there {
			t.Errorf("%s %s lives: %v, %v", key, epoch, there, err)
		}
		if none, err := s.End(ctx, key, epoch); err != nil || none {
			t.Errorf("end %s %s: %v, %v", key, epoch, none, err)
		}
		if there, err := s.Lives(ctx, key, epoch); err != nil || there {
			t.Errorf("%s %s lives on: %v, %v", key, epoch, there, err)
		}
	}
}
