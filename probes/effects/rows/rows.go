// Package rows reads effects that are rows of an SQL database, whose drivers weigh much: a build has it that imports it and calls Register.
package rows

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockdrill/lockdrill/probes/effects"
)

// startWithin is how long transactions are waited for that were open when the cursor began: what they commit may lie below it.
const startWithin = 10 * time.Second

// query reads the rows of a query behind a cursor. Ids are given out before they are committed, so a read begins at the cursor of a read
// whose transactions have all ended since, and the final one where the run did.
type query struct {
	effects.SQL
	db      *sql.DB
	dialect dialect
	secret  string

	begun       bool
	start, safe string // cursors: where the run began, and up to where nothing can come any more
	marks       []mark
	had         effects.Counted
	order       []seenRow // in the order in which they were read first
	columns     []string
	whole       bool // the cursor is a whole number, and the server wants it as one
}

// mark is how far a read came, and what was open some time after it.
type mark struct {
	cursor string
	open   *standing // nil = not asked yet
}

// seenRow is a row that was read.
type seenRow struct{ cursor, key string }

// Register makes sources of rows known. It is for variables of packages.
func Register() struct{} { return effects.RegisterSQL(open) }

// open returns a reader of the rows of a query.
func open(_ context.Context, s effects.SQL) (effects.Reader, error) {
	s.Query, s.Start = strings.TrimRight(s.Query, "; \t\n"), strings.TrimRight(s.Start, "; \t\n")
	q := &query{SQL: s, had: effects.Counted{}}
	var err error
	if s.Driver == "postgres" {
		err = q.openPostgres()
	} else {
		err = q.openMySQL()
	}
	if err != nil { // the words of a parser may quote the name, and with it the password
		return nil, effects.Declared("the data source name is none of %s: see the variable that dsn_env names", s.Driver)
	}
	q.db.SetMaxOpenConns(1)
	return q, nil
}

func (q *query) openPostgres() error {
	c, err := pgx.ParseConfig(q.DSN)
	if err != nil {
		return err
	}
	q.secret, q.dialect, q.db = c.Password, postgres{}, stdlib.OpenDB(*c)
	return nil
}

func (q *query) openMySQL() error {
	c, err := mysql.ParseDSN(q.DSN)
	if err != nil {
		return err
	}
	c.Logger, c.ParseTime = &mysql.NopLogger{}, false
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	q.secret, q.dialect, q.db = c.Passwd, &mariadb{}, sql.OpenDB(connector)
	return nil
}

func (q *query) Close() error { return q.db.Close() }

// said makes an error of the server's words, without the password, and one for a person where the query is wrong.
func (q *query) said(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if q.secret != "" {
		text = strings.ReplaceAll(text, q.secret, "***")
	}
	var pg *pgconn.PgError
	var my *mysql.MySQLError
	switch {
	case errors.Is(err, effects.ErrSource):
		return err
	case errors.As(err, &pg) && slices.Contains([]string{"42", "22", "25"}, pg.Code[:2]): // syntax and access, data, no writing here
		return effects.Declared("the query fails: %s", text)
	case errors.As(err, &my) && !slices.Contains([]uint16{1040, 1045, 1203, 1205, 1213}, my.Number):
		return effects.Declared("the query fails: %s", text)
	}
	return errors.New(text)
}

func (q *query) Read(ctx context.Context, final bool) (effects.Batch, error) {
	if !q.begun {
		return effects.Batch{}, q.said(q.begin(ctx))
	}
	from := q.safe
	if final {
		from = q.start
	}
	open, err := q.dialect.open(ctx, q.db)
	if err != nil {
		return effects.Batch{}, q.said(err)
	}
	var rows []effects.Row
	err = q.reading(ctx, func(tx *sql.Tx) (err error) { rows, err = q.ask(ctx, tx, from); return err })
	if err != nil {
		return effects.Batch{}, q.said(err)
	}
	b := effects.Batch{}
	keys, late := make([]string, len(rows)), 0
	for i, r := range rows {
		keys[i] = r.Key()
		if final && !q.beyond(r[q.Cursor]) {
			late = i + 1
		}
	}
	for _, i := range q.had.News(keys) {
		b.Entries = append(b.Entries, effects.Entry{Row: rows[i], Unordered: true, Late: i < late})
		q.order = append(q.order, seenRow{rows[i][q.Cursor], keys[i]})
	}
	if final && !q.Overwrites {
		b.Lost = q.changed(keys)
	}
	q.advance(open)
	if n := len(rows); n > 0 {
		q.marks = append(q.marks, mark{cursor: rows[n-1][q.Cursor]})
	}
	return b, nil
}

// beyond reports that a row with this cursor was in every read so far, if it was there.
func (q *query) beyond(cursor string) bool {
	at, err1 := strconv.ParseInt(cursor, 10, 64)
	safe, err2 := strconv.ParseInt(q.safe, 10, 64)
	return q.safe == q.start || err1 == nil && err2 == nil && at > safe
}

// advance moves the cursor up to the last read of which every transaction that may have been open then has ended before the read that was
// just made: that one has found what they left. open is what was open before it; nil = nobody asked.
func (q *query) advance(open *standing) {
	if open == nil {
		return
	}
	for len(q.marks) > 0 && q.marks[0].open != nil && q.marks[0].open.over(*open) {
		q.safe, q.marks = q.marks[0].cursor, q.marks[1:]
	}
	for i := range q.marks {
		if q.marks[i].open == nil {
			q.marks[i].open = open
		}
	}
}

// changed says that rows which were read are gone although older ones are there, or "": a table is trimmed from its beginning.
func (q *query) changed(keys []string) string {
	there := map[string]bool{}
	for _, k := range keys {
		there[k] = true
	}
	older := false
	for _, s := range q.order {
		if older = older || there[s.key]; older && !there[s.key] {
			return "rows that were read are changed or gone, and older ones are there: if the table keeps the last state of a job alone, say overwrites: true"
		}
	}
	return ""
}

// begin finds where the cursor is, and waits for the transactions that are open then.
func (q *query) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	err := q.reading(ctx, func(tx *sql.Tx) error {
		if err := q.dialect.primary(ctx, tx); err != nil {
			return err
		}
		at, err := q.present(ctx, tx)
		if err != nil {
			return err
		}
		q.start, q.safe = at, at
		_, err = q.ask(ctx, tx, at) // its columns, and that it works
		return err
	})
	var then *standing
	for err == nil {
		var now *standing
		if now, err = q.dialect.open(ctx, q.db); err == nil && now != nil {
			if now.unknown || then != nil && then.over(*now) {
				break
			}
			then = cmp.Or(then, now)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s, or a transaction that writes was open all the time: what it commits may lie below the cursor", startWithin)
	}
	q.begun = err == nil
	return err
}

// present is where the cursor is now.
func (q *query) present(ctx context.Context, tx *sql.Tx) (string, error) {
	start := q.Start
	var args []any
	if start == "" {
		start, args = fmt.Sprintf("SELECT max(effects.%s) FROM (%s) effects", q.dialect.quote(q.Cursor), q.Query), []any{"0"}
	}
	var at any
	if err := tx.QueryRowContext(ctx, start, args...).Scan(&at); err != nil {
		return "", err
	}
	text, ok := textOf(at)
	if !ok {
		text = "0"
	}
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && q.Start == "" {
		return "", effects.Declared("the cursor %s is no whole number: say start, a query of one value that the cursor begins with", q.Cursor)
	}
	return text, nil
}

// reading does something in a transaction that may not write.
func (q *query) reading(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return do(tx)
}

// ask makes the query.
func (q *query) ask(ctx context.Context, tx *sql.Tx, from string) ([]effects.Row, error) {
	var cursor any = from
	if n, err := strconv.ParseInt(from, 10, 64); err == nil && q.whole {
		cursor = n
	}
	found, err := tx.QueryContext(ctx, q.Query, cursor)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if q.columns, err = found.Columns(); err != nil {
		return nil, err
	}
	if !slices.Contains(q.columns, q.Cursor) {
		return nil, effects.Declared("the query gives no column %s, which is to be the cursor: it gives %s", q.Cursor, strings.Join(q.columns, ", "))
	}
	if types, err := found.ColumnTypes(); err == nil && q.Driver == "mysql" { // it compares a text with numbers as floats
		q.whole = strings.Contains(types[slices.Index(q.columns, q.Cursor)].DatabaseTypeName(), "INT")
	}
	values, into := make([]any, len(q.columns)), make([]any, len(q.columns))
	for i := range values {
		into[i] = &values[i]
	}
	var rows []effects.Row
	for found.Next() {
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		row := effects.Row{}
		for i, v := range values {
			if text, ok := textOf(v); ok {
				row[q.columns[i]] = text
			}
		}
		if _, ok := row[q.Cursor]; !ok {
			return nil, effects.Declared("a row has no value in the column %s, which is the cursor", q.Cursor)
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// textOf is a value as the server would write it, and would read it again; ok is false for NULL.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case []byte:
		return string(v), true
	case string:
		return v, true
	case time.Time:
		return v.Format("2006-01-02 15:04:05.999999999Z07:00"), true
	}
	return fmt.Sprint(v), true
}

// back is how far before the present cursor the last rows are looked for.
const back = 1000

func (q *query) Last(ctx context.Context, n int) (last []effects.Row, err error) {
	err = q.reading(ctx, func(tx *sql.Tx) error {
		if err := q.dialect.primary(ctx, tx); err != nil {
			return err
		}
		at, err := q.present(ctx, tx)
		if err != nil {
			return err
		}
		if id, err := strconv.ParseInt(at, 10, 64); err == nil {
			at = strconv.FormatInt(max(0, id-back), 10)
		} else if t, err := time.Parse("2006-01-02 15:04:05.999999999Z07:00", at); err == nil {
			at, _ = textOf(t.Add(-time.Hour))
		} else if t, err := time.Parse("2006-01-02 15:04:05.999999999", at); err == nil {
			at = t.Add(-time.Hour).Format("2006-01-02 15:04:05.999999")
		}
		rows, err := q.ask(ctx, tx, at)
		last = effects.LastOf(rows, n)
		return err
	})
	return last, q.said(err)
}

// Columns are the columns of the rows, once some were asked for: they are known without a row.
func (q *query) Columns() []string { return q.columns }
