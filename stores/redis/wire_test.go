package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
)

// scriptedServer hands out its connections, on which the test answers lines.
func scriptedServer(t *testing.T) (addr string, connections <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	into := make(chan net.Conn, 8)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			into <- c
		}
	}()
	return l.Addr().String(), into
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	for n := 0; n < len(b); {
		more, err := c.Read(b[n:])
		if n += more; err != nil {
			t.Fatalf("the server has read %q: %v, want %q", b[:n], err, want)
		}
	}
	if string(b) != want {
		t.Fatalf("the server has read %q, want %q", b, want)
	}
}

func say(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if _, err := c.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
}

// An answer may come in pieces; one to a question that was given up is never taken for that to the next.
func TestAWireTakesTheAnswerToItsQuestion(t *testing.T) {
	addr, connections := scriptedServer(t)
	w := newWire(&redis.Options{Addr: addr})
	defer w.close()
	type answered struct {
		text string
		err  error
	}
	ask := func(ctx context.Context, question string, replies int) <-chan answered {
		got := make(chan answered, 1)
		go func() {
			text, err := w.ask(ctx, []byte(question), replies)
			got <- answered{string(text), err}
		}()
		return got
	}
	ctx := t.Context()
	a := ask(ctx, "A\r\n", 2)
	first := <-connections
	defer first.Close()
	read(t, first, "A\r\n")
	say(t, first, "+a\r\n$5\r\nab")
	say(t, first, "cde\r\n")
	if got := <-a; got != (answered{"+a\r\n$5\r\nabcde\r\n", nil}) {
		t.Fatalf("A: %+v", got)
	}
	late, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	b := ask(late, "B\r\n", 1)
	read(t, first, "B\r\n")
	if got := <-b; !errors.Is(got.err, os.ErrDeadlineExceeded) {
		t.Fatalf("B, which has no answer: %+v", got)
	}
	_, _ = first.Write([]byte("+b\r\n"))
	c := ask(ctx, "C\r\n", 1)
	second := <-connections
	defer second.Close()
	read(t, second, "C\r\n")
	say(t, second, "+c\r\n")
	if got := <-c; got != (answered{"+c\r\n", nil}) {
		t.Fatalf("C: %+v", got)
	}
	d := ask(ctx, "D\r\n", 1)
	read(t, second, "D\r\n")
	say(t, second, "+d\r\n+more\r\n")
	if got := <-d; !errors.Is(got.err, resp.ErrSyntax) {
		t.Fatalf("two replies to one command: %+v", got)
	}
	e := ask(ctx, "E\r\n", 1) // on a new connection
	third := <-connections
	_ = third.Close()
	if got := <-e; got.err == nil {
		t.Fatalf("after the end of the connection: %+v", got)
	}
}

// Nobody waits for long for a server that takes connections and then says nothing.
func TestAWireThatCannotLogIn(t *testing.T) {
	addr, connections := scriptedServer(t)
	w := newWire(&redis.Options{Addr: addr, Password: "x"})
	defer w.close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	got, err := w.ask(ctx, []byte("A\r\n"), 1)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q, %v, want %v", got, err, os.ErrDeadlineExceeded)
	}
	_ = (<-connections).Close()
}

// A look goes to the database that is named, with the password, through TLS.
func TestLooksLogIn(t *testing.T) {
	addr, ca, plain := redistest.StartTLS(t)
	c := redis.NewClient(&redis.Options{Addr: plain, DB: 3, DisableIdentity: true})
	defer c.Close()
	set(t, c, "run:a", "one", time.Minute)
	testkit.Must(t, c.ConfigSet(t.Context(), "requirepass", "secret").Err())
	pem, err := os.ReadFile(ca)
	testkit.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	o := &redis.Options{Addr: addr, DB: 3, Password: "secret", TLSConfig: &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}}
	p := NewLockKeys(o, "run:")
	defer p.Close()
	p.Watch("job", "a")
	if events := look(t, p, at(1), false); len(events) != 1 || events[0].Epoch != lockcore.Fingerprint("one") {
		t.Errorf("the look shows %+v, want the key of database 3", events)
	}
	wrong := *o
	wrong.Password = "guess"
	q := NewLockKeys(&wrong, "run:")
	defer q.Close()
	q.Watch("job", "a")
	if _, err := q.Look(t.Context(), false); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a look with a wrong password: %v", err)
	}
}
