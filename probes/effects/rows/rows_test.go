//go:build full

package rows

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/sqltest"
	"github.com/lockdrill/lockdrill/probes/effects"
)

// table is a server with a table of ends.
type table struct {
	*sql.DB
	t    *testing.T
	from effects.SQL
}

// Both servers are asked the same: they differ in what they say of open transactions, and the readers must not.
func TestRowsOfAQuery(t *testing.T) {
	for _, c := range []struct {
		name, driver, id, parameter string
		start                       func(testing.TB) string
	}{
		{"PostgreSQL", "pgx", "BIGSERIAL PRIMARY KEY", "$1", sqltest.Postgres},
		{"MariaDB", "mysql", "BIGINT AUTO_INCREMENT PRIMARY KEY", "?", sqltest.MariaDB},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := c.start(t)
			db, err := sql.Open(c.driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			driver := map[string]string{"pgx": "postgres", "mysql": "mysql"}[c.driver]
			tb := &table{db, t, effects.SQL{Driver: driver, DSN: dsn, Query: "SELECT id, job, state, at FROM ends WHERE id > " + c.parameter + " ORDER BY id;", Cursor: "id"}}
			until := time.Now().Add(20 * time.Second)
			for err := db.Ping(); err != nil; err = db.Ping() {
				if time.Now().After(until) {
					t.Fatal(err)
				}
			}
			for _, test := range []struct {
				name string
				run  func(*table)
			}{
				{"a row that is committed late is read", committedLate},
				{"the final read finds what the cursor passed", passedOver},
				{"rows that are written over are told", writtenOver},
				{"what a query cannot be", noQuery},
			} {
				t.Run(test.name, func(t *testing.T) {
					tb := &table{tb.DB, t, tb.from}
					tb.do("DROP TABLE IF EXISTS ends")
					tb.do("CREATE TABLE ends (id " + c.id + ", job VARCHAR(40), state VARCHAR(20), at TIMESTAMP NULL)")
					tb.do("INSERT INTO ends (job, state) VALUES ('before', 'done')")
					test.run(tb)
				})
			}
		})
	}
}

func (tb *table) do(statement string) {
	tb.t.Helper()
	if _, err := tb.Exec(statement); err != nil {
		tb.t.Fatal(err)
	}
}

// open is a reader that has found where the run begins.
func (tb *table) open(s effects.SQL) effects.Reader {
	tb.t.Helper()
	r, err := open(tb.t.Context(), s)
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.t.Cleanup(func() { r.Close() })
	if b, err := r.Read(tb.t.Context(), false); err != nil || len(b.Entries) > 0 {
		tb.t.Fatalf("the first read gave %v, %v", b, err)
	}
	return r
}

// jobs are those of the entries of a read.
func jobs(t *testing.T, r effects.Reader, final bool) (names []string, b effects.Batch) {
	t.Helper()
	b, err := r.Read(t.Context(), final)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Entries {
		name := e.Row["job"]
		if e.Late {
			name += " late"
		}
		names = append(names, name)
	}
	return names, b
}

func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func committedLate(tb *table) {
	r := tb.open(tb.from)
	slow, err := tb.Begin()
	if err != nil {
		tb.t.Fatal(err)
	}
	if _, err := slow.Exec("INSERT INTO ends (job, state) VALUES ('slow', 'done')"); err != nil { // has the lower id
		tb.t.Fatal(err)
	}
	tb.do("INSERT INTO ends (job, state) VALUES ('quick', 'done')")
	got, _ := jobs(tb.t, r, false)
	wants(tb.t, "while the first is open", got, "quick")
	for until := time.Now().Add(3 * listed); time.Now().Before(until); { // the cursor stays before it, however often is read
		if got, _ = jobs(tb.t, r, false); len(got) > 0 {
			tb.t.Fatalf("read again: %v", got)
		}
	}
	if err := slow.Commit(); err != nil {
		tb.t.Fatal(err)
	}
	got, _ = jobs(tb.t, r, false)
	wants(tb.t, "after its commit", got, "slow")
	until := time.Now().Add(10 * time.Second)
	for q := r.(*query); q.safe != "3" && time.Now().Before(until); {
		jobs(tb.t, r, false)
	}
	if safe := r.(*query).safe; safe != "3" {
		tb.t.Errorf("the cursor stays at %s although nothing is open", safe)
	}
	got, b := jobs(tb.t, r, true)
	if len(got) > 0 || b.Lost != "" {
		tb.t.Errorf("the final read gives %v, %q", got, b.Lost)
	}
}

// A sequence gives ids to a session ahead of time: such a row is found by the final read, and nobody says since when it was there.
func passedOver(tb *table) {
	r := tb.open(tb.from)
	tb.do("INSERT INTO ends (id, job, state) VALUES (100, 'ahead', 'done')")
	jobs(tb.t, r, false)
	until := time.Now().Add(10 * time.Second)
	for q := r.(*query); q.safe != "100" && time.Now().Before(until); {
		jobs(tb.t, r, false)
	}
	tb.do("INSERT INTO ends (id, job, state) VALUES (50, 'behind', 'done'), (101, 'last', 'done')")
	got, _ := jobs(tb.t, r, false)
	wants(tb.t, "behind the cursor", got, "last")
	got, b := jobs(tb.t, r, true)
	wants(tb.t, "the final read", got, "behind late")
	if b.Lost != "" {
		tb.t.Error(b.Lost)
	}
}

func writtenOver(tb *table) {
	r := tb.open(tb.from)
	over := tb.from
	over.Overwrites = true
	declared := tb.open(over)
	tb.do("INSERT INTO ends (job, state) VALUES ('a', 'running'), ('b', 'running')")
	jobs(tb.t, r, false)
	jobs(tb.t, declared, false)
	tb.do("UPDATE ends SET state = 'done' WHERE job = 'b'")
	if _, b := jobs(tb.t, r, true); !strings.Contains(b.Lost, "overwrites: true") {
		tb.t.Errorf("lost: %q", b.Lost)
	}
	if got, b := jobs(tb.t, declared, true); b.Lost != "" || len(got) != 1 {
		tb.t.Errorf("of a table that is declared to: %v, %q", got, b.Lost)
	}
	tb.do("DELETE FROM ends WHERE job = 'a'") // the oldest of the run: that is how a table is trimmed
	if _, b := jobs(tb.t, tb.open(tb.from), true); b.Lost != "" {
		tb.t.Error(b.Lost)
	}
}

func noQuery(tb *table) {
	for _, c := range []struct {
		change func(*effects.SQL)
		want   string
	}{
		{func(s *effects.SQL) { s.Query = strings.Replace(s.Query, "ends", "nowhere", 1) }, "nowhere"},
		{func(s *effects.SQL) {
			s.Query, s.Start = strings.Replace(s.Query, "SELECT id,", "SELECT", 1), "SELECT 0"
		}, "no column id"},
		{func(s *effects.SQL) {
			s.Query = strings.Replace(s.Query, "id > ", "job > ", 1)
			s.Query = strings.Replace(s.Query, "BY id", "BY job", 1)
			s.Cursor = "job"
		}, "say start"},
		{func(s *effects.SQL) { s.DSN = "hunter2:hunter2:@hunter2(hunter2" }, "dsn_env"},
	} {
		s := tb.from
		c.change(&s)
		r, err := open(tb.t.Context(), s)
		if err == nil {
			_, err = r.Read(tb.t.Context(), false)
			r.Close()
		}
		if !errors.Is(err, effects.ErrSource) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			tb.t.Errorf("%s: %v, want %q", s.Query, err, c.want)
		}
	}
	tb.do("DELETE FROM ends")
	p := effects.New(tb.open(tb.from), effects.Options{Name: "effects:x", Lock: "job", Map: effects.Map{Job: "job", State: "status"}})
	if _, err := p.Last(tb.t.Context(), 5); !errors.Is(err, effects.ErrSource) || !strings.Contains(err.Error(), "no entry has the column status that map names: there are at, id, job, state") {
		tb.t.Errorf("a column that an empty table does not have: %v", err)
	}
	tb.do("INSERT INTO ends (job, state) VALUES ('before', 'done')")
	last, err := tb.open(tb.from).Last(context.Background(), 5)
	if err != nil || len(last) != 1 || last[0]["job"] != "before" {
		tb.t.Errorf("last: %v, %v", last, err)
	}
}
