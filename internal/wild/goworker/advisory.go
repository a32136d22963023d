package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// advisories is the connection of this process: a session of PostgreSQL, which an advisory lock belongs to.
type advisories struct {
	dsn  string
	conn *pgx.Conn
	id   string // number and start of the session's server process: its name in pg_locks
}

func openAdvisory(ctx context.Context, c protocol.Configure) (func(h *hold) Lock, error) {
	at := c.Store
	a := &advisories{dsn: fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", at.User, at.Addr, at.Database)}
	return func(h *hold) Lock { return &advisory{advisories: a, key: h.want.Key} }, a.connect(ctx)
}

func (a *advisories) connect(ctx context.Context) (err error) {
	if a.conn != nil && !a.conn.IsClosed() {
		return nil
	}
	if a.conn, err = pgx.Connect(ctx, a.dsn); err != nil {
		return err
	}
	return a.conn.QueryRow(ctx, "SELECT pid || '@' || (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&a.id)
}

// advisory is one acquisition, by pg_try_advisory_lock, as long as its session lives. There is no lease: what can be asked is whether the
// connection still answers. A new session for each acquisition gives it a name of its own.
type advisory struct {
	*advisories
	key string
	got bool
}

func (l *advisory) ask(ctx context.Context, statement string) error {
	var yes bool
	err := l.conn.QueryRow(ctx, statement, l.key).Scan(&yes)
	if err == nil && !yes {
		return errHeld
	}
	return err
}

func (l *advisory) Acquire(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	err := l.ask(ctx, "SELECT pg_try_advisory_lock(hashtext($1))")
	l.got = err == nil
	return err
}

func (l *advisory) Extend(ctx context.Context) error { return l.conn.Ping(ctx) }

func (l *advisory) Release(ctx context.Context) error {
	if l.conn.IsClosed() {
		return errLost
	}
	err := l.ask(ctx, "SELECT pg_advisory_unlock(hashtext($1))")
	_ = l.conn.Close(ctx)
	if err == errHeld {
		return errLost
	}
	return err
}

func (l *advisory) ID() string {
	if !l.got {
		return "" // a session that was refused may be granted the lock later
	}
	return l.id
}
