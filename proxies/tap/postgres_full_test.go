//go:build full

package tap

import (
	"context"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Answers to calls of advisory locks are lost, and to no others; the server has carried them out, and their connection ends with the fault.
func TestPostgresLosesAnswersOfAdvisoryLocks(t *testing.T) {
	at, err := url.Parse(sqltest.Postgres(t))
	testkit.Must(t, err)
	direct := at.String()
	seen := &hits{}
	tap := New(Options{Clock: monotime.Now, Seed: 1, OnHit: seen.add, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", at.Host)
	}})
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	through := *at
	if through.Host, err = tap.ListenPostgres("r1", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx := patient(t)
	dial := func(dsn string) *pgx.Conn {
		t.Helper()
		c, err := pgx.Connect(ctx, dsn)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	sky := dial(direct)
	held := func(want int) func() bool {
		return func() bool {
			n := -1
			return sky.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").Scan(&n) == nil && n == want
		}
	}
	const take, give = "SELECT pg_try_advisory_lock(hashtext($1))", "SELECT pg_advisory_unlock(hashtext($1))"
	call := func(c *pgx.Conn, statement string, args ...any) error { // an answer that says no is one
		var yes bool
		return c.QueryRow(ctx, statement, args...).Scan(&yes)
	}
	for _, how := range []struct {
		name string
		mode pgx.QueryExecMode
	}{{"prepared", pgx.QueryExecModeCacheStatement}, {"unnamed", pgx.QueryExecModeExec}, {"simple", pgx.QueryExecModeSimpleProtocol}} {
		t.Run(how.name, func(t *testing.T) {
			before := len(seen.list())
			for i, op := range []string{burst.Acquire, burst.Release} {
				c, id := dial(through.String()), how.name+op
				if i == 1 {
					testkit.Must(t, call(c, take, how.mode, "k"))
				}
				if _, err := tap.Inject(Fault{ID: id, Op: op, Mode: burst.LostReply, Count: 1, Key: "k", For: within}); err != nil {
					t.Fatal(err)
				}
				if err := call(c, map[string]string{burst.Acquire: take, burst.Release: give}[op], how.mode, "other"); err != nil {
					t.Fatalf("another lock: %v", err)
				}
				if err := call(c, give, how.mode, "other"); err != nil {
					t.Fatalf("another lock: %v", err)
				}
				said := make(chan error, 1)
				go func() {
					said <- call(c, map[string]string{burst.Acquire: take, burst.Release: give}[op], how.mode, "k")
				}()
				eventually(t, "the server to carry it out", held(1-i))
				select {
				case err := <-said:
					t.Fatalf("it heard %v", err)
				default:
				}
				tap.End(id, "enough")
				if err := <-said; err == nil {
					t.Error("it heard an answer after all")
				}
				eventually(t, "the end of the session", held(0))
			}
			var ops []string
			for _, h := range seen.list()[before:] {
				ops = append(ops, h.Name+" "+h.Op+" "+h.Key)
			}
			if want := []string{"r1 acquire k", "r1 release k"}; !slices.Equal(ops, want) {
				t.Errorf("hit %v, want %v", ops, want)
			}
		})
	}

	// What is never sent on is not carried out; what is late is, later.
	c := dial(through.String())
	if _, err := tap.Inject(Fault{ID: "late", Op: burst.Acquire, Mode: burst.Delay, Delay: 200 * time.Millisecond, Count: 1, For: within}); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := call(c, take, "k"); err != nil || time.Since(begun) < 200*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	if _, err := tap.Inject(Fault{ID: "never", Op: burst.Release, Mode: burst.Timeout, Count: 1, For: within}); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() { said <- call(c, give, "k") }()
	eventually(t, "the hit", func() bool { return tap.Faults()[len(tap.Faults())-1].Hits == 1 })
	if !held(1)() {
		t.Error("what was never sent on was carried out")
	}
	tap.End("never", "enough")
	if err := <-said; err == nil {
		t.Error("it heard an answer")
	}
}
