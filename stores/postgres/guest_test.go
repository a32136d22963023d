//go:build full

package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/sqltest"
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
		if name, said, err := environment(t.Context(), s); err != nil || name != want || said != (want != "") {
			t.Errorf("it says %q, %v, %v, want %q", name, said, err, want)
		}
		if _, err := owner.Exec(t.Context(), "ALTER DATABASE postgres SET lockdrill.environment = 'staging'"); err != nil {
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
	if run, marked, err := first.Life(t.Context()); err != nil || run == "" || !marked {
		t.Errorf("life %q, %v, %v", run, marked, err)
	}
	if _, err := stay(t, "second", s); err == nil || !strings.Contains(err.Error(), "one run at a time") {
		t.Errorf("a second run: %v, want that another has it", err)
	}
	if _, can := first.(stores.Server); can {
		t.Error("something is done to somebody's own servers")
	}
	if err := first.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	again := soon(t, func() (stores.Store, error) { return stay(t, "third", s) }) // the server notices the end of a session
	if err := again.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
