//go:build full

package stores_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/etcdtest"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/etcd"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// server is one that is somebody's.
type server struct {
	stores.Kind
	*experiments.Store
	call    func(t *testing.T)       // its owner lets it say that it is staging
	left    func(t *testing.T) error // what a run has left there; nil = it can leave nothing
	another string                   // of the refusal of a second run
}

// stay opens the store of a run.
func (s *server) stay(t *testing.T, run string) (stores.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.Open(ctx, &stores.Ground{Store: s.Store, Run: run, Folder: "/" + run, Prefix: "lockdrill:" + run + ":"})
}

func anEtcd(t *testing.T) *server {
	addr := etcdtest.Start(t).Addr
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &server{
		Kind: etcd.Kind, Store: &experiments.Store{Kind: experiments.StoreEtcd, URL: "http://" + addr}, another: "run first",
		call: func(t *testing.T) {
			if _, err := c.Put(t.Context(), stores.EnvironmentKey, "staging"); err != nil {
				t.Fatal(err)
			}
		},
		left: func(t *testing.T) error {
			all, err := c.Get(t.Context(), "", clientv3.WithPrefix())
			if err == nil && (len(all.Kvs) != 1 || string(all.Kvs[0].Key) != stores.EnvironmentKey) {
				err = fmt.Errorf("%v", all.Kvs)
			}
			return err
		},
	}
}

func aPostgres(t *testing.T) *server {
	u, err := url.Parse(sqltest.Postgres(t))
	testkit.Must(t, err)
	t.Setenv("LOCKDRILL_TEST_USER", u.User.Username())
	password, _ := u.User.Password()
	t.Setenv("LOCKDRILL_TEST_PASSWORD", password)
	return &server{
		Kind: postgres.Kind, another: "one run at a time",
		Store: &experiments.Store{Kind: experiments.StorePostgres, URL: "postgres://" + u.Host + "/postgres", UsernameEnv: "LOCKDRILL_TEST_USER", PasswordEnv: "LOCKDRILL_TEST_PASSWORD"},
		call: func(t *testing.T) {
			owner, err := pgx.Connect(t.Context(), u.String())
			if err == nil {
				_, err = owner.Exec(t.Context(), "ALTER DATABASE postgres SET lockdrill.environment = 'staging'")
				_ = owner.Close(context.WithoutCancel(t.Context()))
			}
			testkit.Must(t, err)
		},
	}
}

// A server that is somebody's says what it is, takes one run at a time, and has nothing of it afterwards; what its owner keeps there stays.
func TestAGuest(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *server{"etcd": anEtcd, "postgres": aPostgres} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Mode = experiments.StoreExternal
			for _, want := range []string{"", "staging"} {
				if name, said, err := s.Environment(t.Context(), s.Store); err != nil || name != want || said != (want != "") {
					t.Errorf("it says %q, %v, %v, want %q", name, said, err, want)
				}
				s.call(t)
			}
			first, err := s.stay(t, "first")
			testkit.Must(t, err)
			testkit.Must(t, first.Mark(t.Context()))
			if id, marked, err := first.Life(t.Context()); err != nil || id == "" || !marked {
				t.Errorf("life %q, %v, %v", id, marked, err)
			}
			held := new(stores.HeldError)
			if _, err := s.stay(t, "second"); err == nil || !strings.Contains(err.Error(), s.another) || errors.As(err, &held) && held.Run != "first" {
				t.Errorf("a second run: %v, want that the first one has it", err)
			}
			if _, can := first.(stores.Server); can {
				t.Error("something is done to somebody's own servers")
			}
			testkit.Must(t, first.Close(context.WithoutCancel(t.Context())))
			if s.left != nil {
				if err := s.left(t); err != nil {
					t.Errorf("left: %v", err)
				}
			}
			testkit.Until(t, "a third run's turn", func() bool { // a PostgreSQL notices the end of a session
				third, err := s.stay(t, "third")
				return err == nil && third.Close(context.WithoutCancel(t.Context())) == nil
			})
			s.PasswordEnv = "LOCKDRILL_TEST_NOT_SET"
			if _, _, err := s.Environment(t.Context(), s.Store); !errors.Is(err, stores.ErrSettings) || !strings.Contains(err.Error(), "store.password_env") {
				t.Errorf("a variable that is not set: %v", err)
			}
		})
	}
}

// A server that asks its clients for a certificate takes the run by that of the file, and nobody without.
func TestAGuestShowsItsCertificate(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (k stores.Kind, at, ca, cert, key string){
		"etcd": func(t *testing.T) (k stores.Kind, at, ca, cert, key string) {
			s, ca, cert, key := etcdtest.StartTLS(t)
			return etcd.Kind, "https://" + s.Addr, ca, cert, key
		},
		"postgres": func(t *testing.T) (k stores.Kind, at, ca, cert, key string) {
			addr, ca, cert, key := sqltest.PostgresTLS(t)
			return postgres.Kind, "postgres://" + addr, ca, cert, key
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind, at, ca, cert, key := start(t)
			s := &server{Kind: kind, Store: &experiments.Store{Kind: kind.Name, Mode: experiments.StoreExternal, URL: at, CA: ca}}
			if name == "postgres" {
				t.Setenv("LOCKDRILL_TEST_USER", "lockdrill")
				s.UsernameEnv = "LOCKDRILL_TEST_USER"
			}
			bare, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if name, said, err := s.Environment(bare, s.Store); err == nil {
				t.Errorf("it takes whoever shows no certificate: %q, %v", name, said)
			}
			s.Cert, s.Store.Key = cert, key
			if name, said, err := s.Environment(t.Context(), s.Store); err != nil || said {
				t.Errorf("by its certificate: %q, %v, %v", name, said, err)
			}
			store, err := s.stay(t, "first")
			testkit.Must(t, err)
			if err := store.Mark(t.Context()); err != nil {
				t.Error(err)
			}
			if e := store.Endpoint(); !e.TLS || e.CA != ca || e.Cert != cert || e.Key != key { // by which replicas go there
				t.Errorf("replicas are led by %+v", e)
			}
			if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			s.Store.Key = ca
			if _, _, err := s.Environment(t.Context(), s.Store); err == nil || !strings.Contains(err.Error(), "store.cert") {
				t.Errorf("a key of another certificate: %v", err)
			}
		})
	}
}
