//go:build full

package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/stores"
)

const guestPatience = time.Minute

// stay opens the store of a run, which is somebody's.
func stay(t *testing.T, run string, s *experiments.Store) (stores.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestPatience)
	defer cancel()
	return open(ctx, &stores.Ground{Store: s, Run: run, Folder: "/" + run, Prefix: "lockdrill:" + run + ":"})
}

// An etcd that is somebody's says what it is, takes one run at a time, and has nothing of it afterwards; what its owner keeps there stays.
func TestAGuestOfAnEtcd(t *testing.T) {
	addr := etcdtest.Start(t).Addr
	s := &experiments.Store{Kind: experiments.StoreEtcd, Mode: experiments.StoreExternal, URL: "http://" + addr}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range []string{"", "staging"} {
		if name, said, err := environment(t.Context(), s); err != nil || name != want || said != (want != "") {
			t.Errorf("it says %q, %v, %v, want %q", name, said, err, want)
		}
		if _, err := c.Put(t.Context(), stores.EnvironmentKey, "staging"); err != nil {
			t.Fatal(err)
		}
	}
	first, err := stay(t, "first", s)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, marked, err := first.Life(t.Context()); err != nil || id == "" || !marked {
		t.Errorf("life %q, %v, %v", id, marked, err)
	}
	var held *stores.HeldError
	if _, err := stay(t, "second", s); !errors.As(err, &held) || held.Run != "first" {
		t.Errorf("a second run: %v, want that the first one has it", err)
	}
	if _, can := first.(stores.Server); can {
		t.Error("something is done to somebody's own servers")
	}
	if err := first.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	all, err := c.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil || len(all.Kvs) != 1 || string(all.Kvs[0].Key) != stores.EnvironmentKey {
		t.Errorf("left: %v, %v", all, err)
	}
	s.PasswordEnv = "LOCKDRILL_TEST_NOT_SET"
	if _, _, err := environment(t.Context(), s); !errors.Is(err, stores.ErrSettings) || !strings.Contains(err.Error(), "store.password_env") {
		t.Errorf("a variable that is not set: %v", err)
	}
}
