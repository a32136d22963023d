//go:build full

package postgres

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/stores/witness"
)

func watching(t *testing.T, dsn string) *Watch {
	t.Helper()
	c, err := Dial(dsn, "lockdrill probe")
	testkit.Must(t, err)
	p := NewWatch(c)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// session is a connection of somebody's, with the words by which its backend is known.
type session struct {
	*pgx.Conn
	t  *testing.T
	id string
}

func connect(t *testing.T, dsn, application string) *session {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	testkit.Must(t, err)
	c.RuntimeParams["application_name"] = application
	s := &session{t: t}
	for until := time.Now().Add(30 * time.Second); s.Conn == nil; { // a server that is just starting says so
		if s.Conn, err = pgx.ConnectConfig(t.Context(), c); err != nil && time.Now().After(until) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	testkit.Must(t, s.QueryRow(t.Context(), BackendID).Scan(&s.id))
	return s
}

func (s *session) do(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.Exec(s.t.Context(), statement, args...); err != nil {
		s.t.Fatal(err)
	}
}

func TestAdvisoryLocksReportChangesOnly(t *testing.T) {
	dsn := sqltest.Postgres(t)
	a, b := connect(t, dsn, "worker-a"), connect(t, dsn, "worker-b")
	p := watching(t, dsn)
	for _, key := range []string{"42", "-7:3", "orders", "free"} {
		p.Watch("job", key)
	}
	now := int64(0)
	expect := func(what, key, epoch, named string) {
		t.Helper()
		now++
		events := testkit.Look(t, p, testkit.At(now), false)
		if key == "" {
			if len(events) != 0 {
				t.Fatalf("%s: got %+v, want no news", what, events)
			}
			return
		}
		if len(events) != 1 {
			t.Fatalf("%s: got %d events, want 1: %+v", what, len(events), events)
		}
		e, left := events[0], witness.Endless
		if epoch == "" {
			left = witness.Absent
		}
		if e.Key != key || e.Lock != "job" || e.Epoch != epoch || e.Look.Present != (epoch != "") || e.Look.PTTL != left || e.Look.Named != named ||
			e.Look.Prev == nil || *e.Look.Prev != testkit.At(now-1) {
			t.Errorf("%s: got %+v %+v, want key %s of epoch %q, held by %q, seen before at %v", what, e, e.Look, key, epoch, named, testkit.At(now-1))
		}
		if d := time.Since(time.UnixMicro(e.Look.Server)); d.Abs() > time.Minute {
			t.Errorf("%s: the server's clock is %s off", what, d)
		}
	}
	expect("nobody holds", "", "", "")
	a.do("SELECT pg_advisory_lock(42)")
	expect("one number", "42", a.id, "worker-a")
	expect("it stays", "", "", "")
	b.do("SELECT pg_advisory_lock(-7, 3)")
	expect("two numbers", "-7:3", b.id, "worker-b")
	b.do("SELECT pg_advisory_lock(-7), pg_advisory_lock(7, 3), pg_advisory_lock_shared(hashtext('orders'))")
	expect("locks that nobody watches, and a shared one", "", "", "")
	b.do("SELECT pg_advisory_unlock_shared(hashtext('orders'))")
	a.do("SELECT pg_advisory_lock(hashtext('orders'))")
	expect("a name", "orders", a.id, "worker-a")
	a.do("SELECT pg_advisory_unlock(42)")
	expect("released", "42", "", "")
	b.do("BEGIN")
	b.do("SELECT pg_advisory_xact_lock(42)")
	expect("of a transaction", "42", b.id, "worker-b")
	b.do("ROLLBACK")
	expect("rolled back", "42", "", "")

	if u, epoch, held, err := p.Now(t.Context(), "job", "orders"); err != nil || !held || epoch != a.id || u.Value != "worker-a" || u.Since != testkit.At(5).From {
		t.Errorf("now: got %+v, %q, %v, %v", u, epoch, held, err)
	}
	if _, _, held, err := p.Now(t.Context(), "job", "free"); err != nil || held {
		t.Errorf("now: a free key is held: %v, %v", held, err)
	}
	backend, ok := ParseBackend(a.id)
	if !ok {
		t.Fatalf("no backend: %s", a.id)
	}
	if none, err := p.client.Terminate(t.Context(), backend); none || err != nil {
		t.Fatalf("terminate: %v, %v", none, err)
	}
	for alive, until := true, time.Now().Add(30*time.Second); alive; {
		var err error
		if alive, err = p.client.Alive(t.Context(), backend); err != nil || time.Now().After(until) {
			t.Fatalf("the session lives: %v, %v", alive, err)
		}
	}
	expect("its session is gone", "orders", "", "")
	if none, err := p.client.Terminate(t.Context(), backend); !none || err != nil {
		t.Errorf("terminate what is gone: %v, %v", none, err)
	}
	if final := testkit.Look(t, p, testkit.At(99), true); len(final) != 4 {
		t.Errorf("final look: got %+v, want every key", final)
	}
}

// A session that is cut is a look that fails, and the next one asks over a new one.
func TestAdvisoryLocksAfterALostConnection(t *testing.T) {
	dsn := sqltest.Postgres(t)
	other := connect(t, dsn, "other")
	p := watching(t, dsn)
	p.Watch("job", "1")
	testkit.Look(t, p, testkit.At(1), false)
	other.do("SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = 'lockdrill probe'")
	if _, err := p.Look(t.Context(), false); err == nil {
		t.Error("a look over a session that was ended has no error")
	}
	other.do("SELECT pg_advisory_lock(1)")
	if events := testkit.Look(t, p, testkit.At(2), false); len(events) != 1 || events[0].Epoch != other.id || *events[0].Look.Prev != testkit.At(1) {
		t.Errorf("after the gap: got %+v, want the lock taken since the last good look", events)
	}
}

// Without its right a role sees that a lock is held and not since when its session is there: that is no epoch.
func TestAdvisoryLocksOfARoleThatMayNotSee(t *testing.T) {
	dsn := sqltest.Postgres(t)
	admin := connect(t, dsn, "admin")
	admin.do("CREATE ROLE poor LOGIN")
	admin.do("SELECT pg_advisory_lock(1)")
	u, err := url.Parse(dsn)
	testkit.Must(t, err)
	u.User = url.User("poor")
	p := watching(t, u.String())
	p.Watch("job", "1")
	if _, err := p.Look(t.Context(), false); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v, want %v", err, ErrDenied)
	}
	if life, err := p.client.Life(t.Context()); err != nil || life.Run == "" || life.Data == "" || life.Folder != "" || life.Standby {
		t.Errorf("life: got %+v, %v", life, err)
	}
	admin.do("GRANT pg_read_all_stats TO poor")
	if events := testkit.Look(t, p, testkit.At(1), false); len(events) != 1 || events[0].Epoch != admin.id {
		t.Errorf("with its right: got %+v", events)
	}
}

// A key that does not fit is said before the server is asked.
func TestAdvisoryKeys(t *testing.T) {
	for text, want := range map[string]Key{
		"0": {Sub: 1}, "-1": {Class: 1<<32 - 1, Object: 1<<32 - 1, Sub: 1}, "4294967297": {Class: 1, Object: 1, Sub: 1}, "1:-2": {Class: 1, Object: 1<<32 - 2, Sub: 2},
	} {
		if got, named, err := ParseKey(text); got != want || named || err != nil {
			t.Errorf("%s: got %+v, %v, %v", text, got, named, err)
		}
	}
	for _, text := range []string{"9223372036854775808", "2147483648:0", "0:-2147483649"} {
		if _, named, err := ParseKey(text); named || err == nil {
			t.Errorf("%s: got %v, %v, want an error", text, named, err)
		}
	}
	if _, named, err := ParseKey("a:1"); !named || err != nil {
		t.Errorf("got %v, %v, want a name", named, err)
	}
}

var _ witness.Watch = (*Watch)(nil)
