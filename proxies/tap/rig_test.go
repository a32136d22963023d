package tap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
)

// within bounds every wait of these tests: far more than anything takes.
const within = 20 * time.Second

// hits notes what is hit.
type hits struct {
	mu  sync.Mutex
	all []Hit
}

func (h *hits) add(x Hit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, x)
}

func (h *hits) list() []Hit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// openTap puts a tap in front of addr, with the listeners r1 and r2.
func openTap(t testing.TB, addr string, rules Rules) (tap *Tap, seen *hits, r1, r2 string) {
	t.Helper()
	seen = &hits{}
	tap = New(Options{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		Clock: monotime.Now, Rules: rules, Seed: 1, OnHit: seen.add,
	})
	t.Cleanup(func() {
		if err := tap.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if r1, err = tap.Listen("r1", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if r2, err = tap.Listen("r2", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return tap, seen, r1, r2
}

func realTap(t testing.TB) (tap *Tap, seen *hits, direct, r1, r2 string) {
	t.Helper()
	direct = redistest.Start(t)
	tap, seen, r1, r2 = openTap(t, direct, Rules{})
	return tap, seen, direct, r1, r2
}

// client speaks the protocol byte by byte.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(within))
	return &client{t, conn, bufio.NewReader(conn)}
}

// send writes commands, words divided by blanks, in one piece.
func (c *client) send(commands ...string) {
	c.t.Helper()
	var b strings.Builder
	for _, cmd := range commands {
		words := strings.Fields(cmd)
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		c.t.Fatal(err)
	}
}

// line reads one line of a reply; a string's is its body.
func (c *client) line() string {
	c.t.Helper()
	text, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("read a reply: %v", err)
	}
	if text[0] == '$' && text[1] != '-' {
		return c.line()
	}
	return strings.TrimSpace(text)
}

func (c *client) want(replies ...string) {
	c.t.Helper()
	for _, w := range replies {
		if got := c.line(); !strings.HasPrefix(got, w) {
			c.t.Fatalf("reply %q, want %q", got, w)
		}
	}
}

// silent checks that nothing comes for a while: it can only be too lenient.
func (c *client) silent() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := c.r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%q came, %v", b, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
}

// closed checks that the connection is closed, and nothing came before.
func (c *client) closed() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("the connection is not closed: %q, %v", b, err)
	}
}

func inject(t testing.TB, tap *Tap, f Fault) string {
	t.Helper()
	if f.For == 0 {
		f.For = within
	}
	s, err := tap.Inject(f)
	testkit.Must(t, err)
	return s.ID
}

func status(t testing.TB, tap *Tap, id string) Status {
	t.Helper()
	for _, s := range tap.Faults() {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("no fault %s", id)
	return Status{}
}

func over(t testing.TB, tap *Tap, id string) Status {
	t.Helper()
	select {
	case <-tap.Over(id):
	case <-time.After(within):
		t.Fatalf("%+v does not end", status(t, tap, id))
	}
	return status(t, tap, id)
}

// eventually polls.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	return ctx
}
