//go:build full

package testbed

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/sqltest"
)

const guestPatience = time.Minute

// guest opens the store of a run, which is somebody's.
func guest(t *testing.T, run string, s *experiments.Store, open OpenLocks) (LockStore, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestPatience)
	defer cancel()
	return open(ctx, &Ground{Options: Options{Store: s, Run: run, Folder: "/" + run}, Prefix: prefixOf(run)})
}

// soon is what try gives when it no longer fails.
func soon[T any](t *testing.T, try func() (T, error)) T {
	t.Helper()
	look, end := time.NewTicker(20*time.Millisecond), time.After(guestPatience)
	defer look.Stop()
	for {
		got, err := try()
		if err == nil {
			return got
		}
		select {
		case <-look.C:
		case <-end:
			t.Fatal(err)
		}
	}
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
		if name, said, err := EtcdEnvironment(t.Context(), s); err != nil || name != want || said != (want != "") {
			t.Errorf("it says %q, %v, %v, want %q", name, said, err, want)
		}
		if _, err := c.Put(t.Context(), EnvironmentKey, "staging"); err != nil {
			t.Fatal(err)
		}
	}
	first, err := guest(t, "first", s, OpenEtcd)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, marked, err := first.Life(t.Context()); err != nil || id == "" || !marked {
		t.Errorf("life %q, %v, %v", id, marked, err)
	}
	var held *HeldError
	if _, err := guest(t, "second", s, OpenEtcd); !errors.As(err, &held) || held.Run != "first" {
		t.Errorf("a second run: %v, want that the first one has it", err)
	}
	if err := first.Kill(t.Context()); !errors.Is(err, errGuest) {
		t.Errorf("kill: %v", err)
	}
	if err := first.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	all, err := c.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil || len(all.Kvs) != 1 || string(all.Kvs[0].Key) != EnvironmentKey {
		t.Errorf("left: %v, %v", all, err)
	}
	s.PasswordEnv = "LOCKDRILL_TEST_NOT_SET"
	if _, _, err := EtcdEnvironment(t.Context(), s); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "store.password_env") {
		t.Errorf("a variable that is not set: %v", err)
	}
}

// A PostgreSQL that is somebody's says what it is, and takes one run at a time.
func TestAGuestOfAPostgres(t *testing.T) {
	u, err := url.Parse(sqltest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKDRILL_TEST_USER", u.User.Username())
	password, _ := u.User.Password()
	t.Setenv("LOCKDRILL_TEST_PASSWORD", password)
	s := &experiments.Store{Kind: experiments.StorePostgres, Mode: experiments.StoreExternal, URL: "postgres://" + u.Host + "/postgres",
		UsernameEnv: "LOCKDRILL_TEST_USER", PasswordEnv: "LOCKDRILL_TEST_PASSWORD"}
	owner := soon(t, func() (*pgx.Conn, error) { return pgx.Connect(t.Context(), u.String()) })
	defer owner.Close(context.WithoutCancel(t.Context()))
	for _, want := range []string{"", "staging"} {
		if name, said, err := PostgresEnvironment(t.Context(), s); err != nil || name != want || said != (want != "") {
			t.Errorf("it says %q, %v, %v, want %q", name, said, err, want)
		}
		if _, err := owner.Exec(t.Context(), "ALTER DATABASE postgres SET lockdrill.environment = 'staging'"); err != nil {
			t.Fatal(err)
		}
	}
	first, err := guest(t, "first", s, OpenPostgres)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, marked, err := first.Life(t.Context()); err != nil || run == "" || !marked {
		t.Errorf("life %q, %v, %v", run, marked, err)
	}
	if _, err := guest(t, "second", s, OpenPostgres); err == nil || !strings.Contains(err.Error(), "one run at a time") {
		t.Errorf("a second run: %v, want that another has it", err)
	}
	if err := first.Kill(t.Context()); !errors.Is(err, errGuest) {
		t.Errorf("kill: %v", err)
	}
	if err := first.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	again := soon(t, func() (LockStore, error) { return guest(t, "third", s, OpenPostgres) }) // the server notices the end of a session
	if err := again.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// An etcd and a PostgreSQL that ask their clients for a certificate take the run by that of the file, and nobody without.
func TestAGuestShowsItsCertificate(t *testing.T) {
	for _, c := range []struct {
		kind        experiments.StoreKind
		url, user   string
		start       func() (addr, ca, cert, key string)
		environment func(context.Context, *experiments.Store) (string, bool, error)
		open        OpenLocks
	}{
		{experiments.StoreEtcd, "https://", "", func() (addr, ca, cert, key string) {
			server, ca, cert, key := etcdtest.StartTLS(t)
			return server.Addr, ca, cert, key
		}, EtcdEnvironment, OpenEtcd},
		{experiments.StorePostgres, "postgres://", "LOCKDRILL_TEST_USER", func() (addr, ca, cert, key string) { return sqltest.PostgresTLS(t) }, PostgresEnvironment, OpenPostgres},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Setenv("LOCKDRILL_TEST_USER", "lockdrill")
			addr, ca, cert, key := c.start()
			s := &experiments.Store{Kind: c.kind, Mode: experiments.StoreExternal, URL: c.url + addr, UsernameEnv: c.user, CA: ca}
			bare, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if name, said, err := c.environment(bare, s); err == nil {
				t.Errorf("it takes whoever shows no certificate: %q, %v", name, said)
			}
			s.Cert, s.Key = cert, key
			if name, said, err := c.environment(t.Context(), s); err != nil || said {
				t.Errorf("by its certificate: %q, %v, %v", name, said, err)
			}
			store, err := guest(t, "first", s, c.open)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Mark(t.Context()); err != nil {
				t.Error(err)
			}
			if life, marked, err := store.Life(t.Context()); err != nil || life == "" || !marked {
				t.Errorf("life %q, %v, %v", life, marked, err)
			}
			if e := store.Endpoint(); !e.TLS || e.CA != ca || e.Cert != cert || e.Key != key { // by which replicas go there
				t.Errorf("replicas are led by %+v", e)
			}
			if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			s.Key = ca
			if _, _, err := c.environment(t.Context(), s); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "store.cert") {
				t.Errorf("a key of another certificate: %v", err)
			}
		})
	}
}
