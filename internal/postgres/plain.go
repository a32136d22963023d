//go:build !full

package postgres

import (
	"context"
	"net"
	"time"
)

// Built: this build has the driver.
const Built = false

// Client asks a server.
type Client struct{}

// Dial returns a client of the database that dsn names.
func Dial(dsn, application string) (*Client, error) { return nil, ErrBuild }

// As is another client of the same database.
func (*Client) As(string) (*Client, error) { return nil, ErrBuild }

// Addr is host:port.
func (*Client) Addr() string { return "" }

// Close closes its connection.
func (*Client) Close() error { return nil }

// Raw logs in at addr, and gives the connection.
func (*Client) Raw(context.Context, string) (net.Conn, error) { return nil, ErrBuild }

// Life asks who answers.
func (*Client) Life(context.Context) (Life, error) { return Life{}, ErrBuild }

// Hash gives the keys of names.
func (*Client) Hash(context.Context, []string) ([]Key, error) { return nil, ErrBuild }

// Held lists the advisory locks that are held exclusively in this database.
func (*Client) Held(context.Context) (map[Key]Session, time.Time, error) {
	return nil, time.Time{}, ErrBuild
}

// Terminate ends a session.
func (*Client) Terminate(context.Context, Backend) (bool, error) { return false, ErrBuild }

// Lives reports whether a session is there.
func (*Client) Lives(context.Context, Backend) (bool, error) { return false, ErrBuild }

// Environment is what the database says it is.
func (*Client) Environment(context.Context) (string, error) { return "", ErrBuild }

// Role makes a role that may log in.
func (*Client) Role(context.Context, string) error { return ErrBuild }

// Take takes the lock of a name for this client's session.
func (*Client) Take(context.Context, string) error { return ErrBuild }

// Taken reports whether any session has the lock of a name.
func (*Client) Taken(context.Context, string) (bool, error) { return false, ErrBuild }

// Free gives back what this client's session has taken.
func (*Client) Free(context.Context) error { return ErrBuild }
