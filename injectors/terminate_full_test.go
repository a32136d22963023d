//go:build full

package injectors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/stores/postgres"
)

// sessioned is a store whose locks belong to sessions.
type sessioned struct {
	idle
	*postgres.Client
}

// The session that holds the lock is ended, and no other.
func TestTheSessionOfAHolderIsEnded(t *testing.T) {
	dsn := sqltest.Postgres(t)
	server, err := postgres.Dial(dsn, "lockdrill")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	connect := func() (c *pgx.Conn, id string) {
		t.Helper()
		for until := time.Now().Add(30 * time.Second); c == nil; { // a server that is just starting says so
			if c, err = pgx.Connect(t.Context(), dsn); err != nil && time.Now().After(until) {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		if err := c.QueryRow(t.Context(), postgres.BackendID).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return c, id
	}
	holder, id := connect()
	other, otherID := connect()
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(hashtext('orders'))"); err != nil {
		t.Fatal(err)
	}
	granted := history.Event{Kind: history.AcquireReturn, Epoch: "r1.1/1", Call: &history.Call{Result: history.ResultGranted, ID: id}}
	reach := &Reach{Store: sessioned{Client: server}, Past: recorded{granted}.past, Clock: monotime.Now}
	shot := func(key, epoch string) history.Event {
		return history.Event{Op: "t#1", Key: key, Epoch: epoch, Fault: &history.Fault{ID: "t", Shot: 1, Kind: "terminate"}}
	}
	var void *voidError
	for _, s := range []history.Event{shot("orders", "r2.1/1"), shot("orders", otherID), shot("free", "r1.1/1")} {
		if _, err := reach.Prepare(t.Context(), &fault.Terminate{}, s); !errors.As(err, &void) || void.Void() != history.Moved {
			t.Errorf("aimed at %s of %s: got %v, want it to have moved", s.Key, s.Epoch, err)
		}
	}
	if _, err := reach.Prepare(t.Context(), &fault.Terminate{}, shot("orders", id)); err != nil {
		t.Errorf("aimed by the store's own name: %v", err)
	}
	i, err := reach.Prepare(t.Context(), &fault.Terminate{}, shot("orders", "r1.1/1"))
	if err != nil {
		t.Fatal(err)
	}
	applied, err := i.Inject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	window, seen, err := i.Confirm(t.Context(), applied)
	if err != nil || seen.Hits != 1 || window.From != applied.From || window.To < applied.To {
		t.Errorf("confirmed in %v of %v: %+v, %v", window, applied, seen, err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the session goes on")
	}
	var got bool
	if err := other.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(hashtext('orders'))").Scan(&got); err != nil || !got {
		t.Errorf("its lock is not free: %v", err)
	}
	if _, err := i.Inject(t.Context()); !errors.As(err, &void) {
		t.Errorf("ended twice: %v", err)
	}
}
