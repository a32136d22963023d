package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// ErrDenied: the role may not see whose session a lock is.
var ErrDenied = errors.New("this role does not see other users' sessions: GRANT pg_read_all_stats TO it")

// Backend is the server process of one session. A number is used again, so its start belongs to it.
type Backend struct {
	PID     int
	Started time.Time
}

// ID names a backend in one word: number@start, the start in microseconds of Unix time. BackendID is how a session asks for its own.
func (b Backend) ID() string { return fmt.Sprintf("%d@%d", b.PID, b.Started.UnixMicro()) }

// BackendID gives a session its own ID.
const BackendID = "SELECT pid || '@' || (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid()"

// ParseBackend reads an ID.
func ParseBackend(id string) (b Backend, ok bool) {
	var start int64
	n, err := fmt.Sscanf(id, "%d@%d", &b.PID, &start)
	b.Started = time.UnixMicro(start)
	return b, n == 2 && err == nil && b.ID() == id
}

// Session is a backend, and what is known of who opened it.
type Session struct {
	Backend
	Application string // application_name: whatever its client has set
	Client      string // address:port, as the server sees it; "" = a socket of the server's own host
}

// Name is what a session is called in an account of who held a lock.
func (s *Session) Name() string {
	if s.Application != "" {
		return s.Application
	}
	return s.Client
}

// Key is an advisory lock's, as pg_locks has it.
type Key struct {
	Class, Object uint32
	Sub           int16 // 1 = one key of 64 bits, 2 = two of 32
}

var (
	two = regexp.MustCompile(`^(-?[0-9]+):(-?[0-9]+)$`)
	one = regexp.MustCompile(`^-?[0-9]+$`)
)

// ParseKey reads a lock's key as an experiment file has it: "7:42" is pg_advisory_lock(7, 42), "42" is pg_advisory_lock(42). named: it is
// none of these, and means pg_advisory_lock(hashtext(text)). An error: a number does not fit.
func ParseKey(text string) (k Key, named bool, err error) {
	if m := two.FindStringSubmatch(text); m != nil {
		class, err1 := strconv.ParseInt(m[1], 10, 32)
		object, err2 := strconv.ParseInt(m[2], 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return k, false, fmt.Errorf("advisory lock %s: both numbers are of 32 bits: %w", text, err)
		}
		return Key{uint32(class), uint32(object), 2}, false, nil
	}
	if !one.MatchString(text) {
		return k, true, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return k, false, fmt.Errorf("advisory lock %s: a number is of 64 bits: %w", text, err)
	}
	return Big(n), false, nil
}

// Big is the key of one number.
func Big(n int64) Key { return Key{uint32(uint64(n) >> 32), uint32(uint64(n)), 1} }

// Life is which server answers.
type Life struct {
	Run     string // of this start: a restart changes it
	Data    string // of its data: a server that lost them is another
	Version string
	Folder  string // of its data; "" = the role may not know
	Standby bool
}

// HolderOf is the session that holds a key of an experiment file exclusively.
func (c *Client) HolderOf(ctx context.Context, key string) (s Session, held bool, err error) {
	id, named, err := ParseKey(key)
	if err == nil && named {
		var ids []Key
		if ids, err = c.Hash(ctx, []string{key}); err == nil {
			id = ids[0]
		}
	}
	if err != nil {
		return s, false, err
	}
	all, _, err := c.Held(ctx)
	s, held = all[id]
	return s, held, err
}

// Holder is the session that has the lock of a key; its name is its epoch.
func (c *Client) Holder(ctx context.Context, key string) (name, epoch, token string, err error) {
	session, is, err := c.HolderOf(ctx, key)
	if err != nil || !is {
		return "", "", "", err
	}
	return session.ID(), session.ID(), "", nil
}

// End ends a session; none = it was gone.
func (c *Client) End(ctx context.Context, name, _ string) (none bool, err error) {
	b, ok := ParseBackend(name)
	if !ok {
		return false, fmt.Errorf("%q is no session", name)
	}
	return c.Terminate(ctx, b)
}

// Lives reports whether a session is there.
func (c *Client) Lives(ctx context.Context, name, _ string) (bool, error) {
	b, _ := ParseBackend(name)
	return c.Alive(ctx, b)
}
