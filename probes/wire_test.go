package probes

import (
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
	"github.com/lockdrill/lockdrill/lockcore"
)

// scriptedServer hands out its connections, on which the test answers lines.
func scriptedServer(t *testing.T) (addr string, connections <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

// An answer that has not come yet can be taken later; one to a question that was given up is never taken for that to the next.
func TestAWireTakesTheAnswerToItsQuestion(t *testing.T) {
	addr, connections := scriptedServer(t)
	w := newWire(&redis.Options{Addr: addr})
	w.within = time.Minute
	defer w.close()
	soon := func() time.Time { return time.Now().Add(time.Millisecond) }
	answer := func(want string) {
		t.Helper()
		got, ok, err := w.answer(time.Now().Add(time.Hour))
		if err != nil || !ok || string(got) != want {
			t.Fatalf("the answer is %q, %v, %v, want %q", got, ok, err, want)
		}
	}
	w.ask([]byte("A\r\n"), 2)
	first := <-connections
	defer first.Close()
	sent := func() { // once it is connected
		t.Helper()
		for more := true; more; more = w.conn == nil {
			if got, ok, err := w.answer(soon()); ok || err != nil {
				t.Fatalf("before there is an answer: %q, %v", got, err)
			}
		}
	}
	sent()
	read(t, first, "A\r\n")
	say(t, first, "+a\r\n$5\r\nab")
	if got, ok, err := w.answer(soon()); ok || err != nil {
		t.Fatalf("in the middle of the answer: %q, %v", got, err)
	}
	say(t, first, "cde\r\n")
	answer("+a\r\n$5\r\nabcde\r\n")

	w.ask([]byte("B\r\n"), 1)
	read(t, first, "B\r\n")
	w.ask([]byte("C\r\n"), 1) // nobody waits for the answer to B any more
	second := <-connections
	defer second.Close()
	_, _ = first.Write([]byte("+b\r\n"))
	sent()
	read(t, second, "C\r\n")
	say(t, second, "+c\r\n")
	answer("+c\r\n")

	w.ask([]byte("D\r\n"), 1)
	read(t, second, "D\r\n")
	say(t, second, "+d\r\n+more\r\n")
	if got, _, err := w.answer(time.Now().Add(time.Hour)); !errors.Is(err, resp.ErrSyntax) {
		t.Fatalf("two replies to one command: %q, %v", got, err)
	}
	w.ask([]byte("E\r\n"), 1) // on a new connection
	third := <-connections
	defer third.Close()
	sent()
	_ = third.Close()
	if got, ok, err := w.answer(time.Now().Add(time.Hour)); err == nil || ok {
		t.Fatalf("after the end of the connection: %q, %v", got, ok)
	}
	w.ask([]byte("F\r\n"), 1)
	fourth := <-connections
	defer fourth.Close()
	sent()
	read(t, fourth, "F\r\n")
	say(t, fourth, "+f\r\n")
	answer("+f\r\n")
}

// Nobody waits for a server that takes connections and then says nothing, until the wire's own limit.
func TestAWireThatCannotLogIn(t *testing.T) {
	addr, connections := scriptedServer(t)
	w := newWire(&redis.Options{Addr: addr, Password: "x"})
	defer w.close()
	w.within = 10 * time.Millisecond
	w.ask([]byte("A\r\n"), 1)
	defer func(c net.Conn) { _ = c.Close() }(<-connections)
	if got, ok, err := w.answer(time.Now().Add(time.Millisecond)); ok || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("while the server says nothing: %q, %v", got, err)
	}
	if got, ok, err := w.answer(time.Now().Add(time.Hour)); ok || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after the limit: %q, %v, want %v", got, err, os.ErrDeadlineExceeded)
	}
}

// A look goes to the database that is named, with the password, through TLS.
func TestLooksLogIn(t *testing.T) {
	addr, ca, plain := redistest.StartTLS(t)
	c := redis.NewClient(&redis.Options{Addr: plain, DB: 3, DisableIdentity: true})
	defer c.Close()
	set(t, c, "run:a", "one", time.Minute)
	if err := c.ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
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
