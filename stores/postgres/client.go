package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	askWithin = 5 * time.Second // whoever cannot wait so long says so by the context; also the server's own limit: a question does not outlive who asked it
	most      = 10_000          // advisory locks that are held in one database: more are no locks of jobs and loops
	rereads   = 3               // sessions may end between the two tables of a look
)

// Client asks a server over one connection, which it opens anew after an error: a late answer is never taken for another's.
type Client struct {
	config *pgx.ConnConfig
	mu     sync.Mutex
	conn   *pgx.Conn
}

// Dial returns a client of the database that dsn names; it does not dial yet. application is what its session is called there.
func Dial(dsn, application string) (*Client, error) {
	c, err := pgx.ParseConfig(dsn)
	if err != nil { // the words of a parser may quote the name, and with it the password
		return nil, errors.New("this is no address of a PostgreSQL database: postgres://user@host:port/database")
	}
	c.ConnectTimeout = askWithin
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // nothing is prepared: a pooler on the way is none of our business
	c.RuntimeParams["application_name"] = application
	c.RuntimeParams["statement_timeout"] = strconv.FormatInt(askWithin.Milliseconds(), 10)
	return &Client{config: c}, nil
}

// As is another client of the same database, whose session is called by another name.
func (c *Client) As(application string) (*Client, error) {
	own := c.config.Copy()
	own.RuntimeParams["application_name"] = application
	return &Client{config: own}, nil
}

// Addr is host:port.
func (c *Client) Addr() string {
	return net.JoinHostPort(c.config.Host, strconv.Itoa(int(c.config.Port)))
}

// Close closes its connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	return nil
}

func (c *Client) drop() {
	if c.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // a frozen server says no goodbye
		defer cancel()
		_ = c.conn.Close(ctx)
		c.conn = nil
	}
}

// ask does something on the connection, within askWithin.
func (c *Client) ask(ctx context.Context, do func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		if c.conn, err = pgx.ConnectConfig(ctx, c.config); err != nil {
			return c.said(err)
		}
	}
	if err = do(ctx, c.conn); err != nil {
		c.drop()
	}
	return c.said(err)
}

// said is an error without the password.
func (c *Client) said(err error) error {
	if err == nil || errors.Is(err, ErrDenied) || errors.Is(err, errEnding) {
		return err
	}
	text := err.Error()
	if c.config.Password != "" {
		text = strings.ReplaceAll(text, c.config.Password, "***")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", askWithin, context.DeadlineExceeded)
	}
	return errors.New(text)
}

// Raw logs in at addr, whatever host the client's own is, and gives the connection, on which nobody asks anything by itself. What is
// wrong there tells no password.
func (c *Client) Raw(ctx context.Context, addr string) (net.Conn, error) {
	config := c.config.Config.Copy()
	config.ConnectTimeout = 0 // as long as ctx lasts: the way may be slow
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	all, err := conn.Hijack()
	if err != nil {
		return nil, err
	}
	return all.Conn, nil
}

// Life asks who answers.
func (c *Client) Life(ctx context.Context) (l Life, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text, system_identifier::text,
			split_part(current_setting('server_version'), ' ', 1), pg_is_in_recovery() FROM pg_control_system()`).Scan(&l.Run, &l.Data, &l.Version, &l.Standby)
	})
	if err != nil {
		return l, err
	}
	var refused *pgconn.PgError
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&l.Folder); !errors.As(err, &refused) {
			return err
		}
		return nil // only some roles may know
	})
	return l, err
}

// Hash gives the keys of names: what pg_advisory_lock(hashtext(name)) takes.
func (c *Client) Hash(ctx context.Context, names []string) (keys []Key, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT hashtext(n)::bigint FROM unnest($1::text[]) WITH ORDINALITY AS t(n, i) ORDER BY i", names)
		if err != nil {
			return err
		}
		keys, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (Key, error) {
			var n int64
			err := r.Scan(&n)
			return Big(n), err
		})
		if err == nil && len(keys) != len(names) {
			err = fmt.Errorf("got %d hashes of %d names", len(keys), len(names))
		}
		return err
	})
	return keys, err
}

// look has a row for each lock, or one that only says the time. It asks for at most one lock more than there may be: then the answer is no
// whole one.
const look = `SELECT t.now, l.pid, l.classid::bigint, l.objid::bigint, l.objsubid, a.pid IS NOT NULL, a.backend_start, coalesce(a.application_name, ''),
	coalesce(host(a.client_addr), ''), coalesce(a.client_port, 0)
	FROM (SELECT clock_timestamp() AS now) t
	LEFT JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock'
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	LIMIT $1`

var errEnding = errors.New("a session that holds an advisory lock is on its way out")

// Held lists the advisory locks that are held exclusively in this database, and the server's time. What a look costs depends on the locks
// and the sessions of the server, and not on how many keys somebody watches.
func (c *Client) Held(ctx context.Context) (held map[Key]Session, now time.Time, err error) {
	for range rereads {
		err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			held, now, err = heldOf(ctx, conn)
			return err
		})
		if !errors.Is(err, errEnding) {
			break
		}
	}
	return held, now, err
}

func heldOf(ctx context.Context, conn *pgx.Conn) (map[Key]Session, time.Time, error) {
	rows, err := conn.Query(ctx, look, most+1)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer rows.Close()
	held, n := map[Key]Session{}, 0
	var now time.Time
	for rows.Next() {
		var (
			pid           *int
			class, object *int64
			sub           *int16
			s             Session
			there         bool
			start         *time.Time
			host          string
			port          int
		)
		if err := rows.Scan(&now, &pid, &class, &object, &sub, &there, &start, &s.Application, &host, &port); err != nil {
			return nil, now, err
		}
		if pid == nil { // nobody holds any
			continue
		}
		switch n++; {
		case !there:
			return nil, now, errEnding
		case start == nil:
			return nil, now, ErrDenied
		}
		if s.PID, s.Started = *pid, *start; host != "" {
			s.Client = net.JoinHostPort(host, strconv.Itoa(port))
		}
		held[Key{uint32(*class), uint32(*object), *sub}] = s
	}
	if n > most {
		return nil, now, fmt.Errorf("more than %d advisory locks are held in this database", most)
	}
	return held, now, rows.Err()
}

// Terminate ends a session, as an administrator or a failing network would. none: it was gone already, or its number is another's by now.
func (c *Client) Terminate(ctx context.Context, b Backend) (none bool, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var told bool
		err := conn.QueryRow(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2", b.PID, b.Started).Scan(&told)
		if none = errors.Is(err, pgx.ErrNoRows) || err == nil && !told; none {
			return nil
		}
		return err
	})
	return none, err
}

// Alive reports whether a session is there.
func (c *Client) Alive(ctx context.Context, b Backend) (alive bool, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)", b.PID, b.Started).Scan(&alive)
	})
	return alive, err
}

// Environment is what the database says it is, by the setting lockdrill.environment of its own; "" = nothing.
func (c *Client) Environment(ctx context.Context) (name string, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(current_setting('lockdrill.environment', true), '')").Scan(&name)
	})
	return name, err
}

// exists is the error of a role that is there.
const exists = "42710"

// Role makes a role that may log in, and has no other right than to make tables in a schema of its name, where it looks first. One that is
// there stays.
func (c *Client) Role(ctx context.Context, name string) error {
	return c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		role := pgx.Identifier{name}.Sanitize()
		_, err := conn.Exec(ctx, "CREATE ROLE "+role+" LOGIN")
		if pg := new(pgconn.PgError); err != nil && (!errors.As(err, &pg) || pg.Code != exists) {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS AUTHORIZATION "+role)
		return err
	})
}

// Take takes the lock of a name for this client's session.
func (c *Client) Take(ctx context.Context, name string) error {
	return c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var taken bool
		err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtext($1))", name).Scan(&taken)
		if err == nil && !taken {
			err = errors.New("another session has it")
		}
		return err
	})
}

// Taken reports whether any session has the lock of a name.
func (c *Client) Taken(ctx context.Context, name string) (taken bool, err error) {
	err = c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
			AND (classid::bigint << 32) | objid::bigint = hashtext($1)::bigint
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, name).Scan(&taken)
	})
	return taken, err
}

// Free gives back what this client's session has taken.
func (c *Client) Free(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
		return err
	})
}
