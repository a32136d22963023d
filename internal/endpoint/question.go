package endpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/lockdrill/lockdrill/internal/resp"
)

// Question is how a fresh connection asks a store something in the store's own protocol, without a client of it that would dial and ask
// again by itself: for whoever measures the way there.
type Question struct {
	Dial  func(ctx context.Context, addr string) (net.Conn, error) // connects, and is let in
	Trips int                                                      // round trips of Dial at most, once it is connected
	// Ask asks on that connection, which in reads, and reads the answer. About size bytes go there and as many come back; 0 = as few as
	// possible. An error that the store answers with is an answer.
	Ask   func(conn net.Conn, in *bufio.Reader, size int) error
	Most  int  // of size
	Piped bool // bytes come back while others are still on their way there
}

// DialPlain opens a connection as it is: whoever uses it introduces itself.
func DialPlain(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
	if secure != nil {
		return (&tls.Dialer{Config: secure}).DialContext(ctx, Network(addr), addr)
	}
	return (&net.Dialer{}).DialContext(ctx, Network(addr), addr)
}

const (
	tlsTrips   = 2       // round trips to agree on TLS
	scramTrips = 4       // likewise on who asks a PostgreSQL, and for it to begin
	most       = 4 << 20 // bytes
)

// greeted is a Question's Dial: greet is told what stands before the first question.
func greeted(secure *tls.Config, greet func(net.Conn) error) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := DialPlain(ctx, addr, secure)
		if err != nil {
			return nil, err
		}
		if deadline, ok := ctx.Deadline(); ok {
			err = conn.SetDeadline(deadline)
		}
		if err = errors.Join(err, greet(conn)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}

// AskRedis asks by PING and ECHO.
func AskRedis(a Access) Question {
	q := Question{Dial: greeted(a.TLS, func(conn net.Conn) error { return a.Login(conn, bufio.NewReader(conn), 0) }), Ask: askRedis, Most: most}
	if a.TLS != nil {
		q.Trips += tlsTrips
	}
	if a.Password != "" {
		q.Trips++
	}
	return q
}

// Logins are the commands by which a connection to a Redis says who asks, and which database it is about.
func (a Access) Logins(db int) (commands [][]string) {
	switch {
	case a.Password != "" && a.User != "":
		commands = append(commands, []string{"AUTH", a.User, a.Password})
	case a.Password != "":
		commands = append(commands, []string{"AUTH", a.Password})
	}
	if db != 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(db)})
	}
	return commands
}

// Login says on a fresh connection who asks, which database it is about, and what else is to be said before a question; in reads what the
// server answers. Its refusal is a resp.ServerError, which does not tell the command.
func (a Access) Login(conn net.Conn, in *bufio.Reader, db int, more ...[]string) error {
	for _, words := range append(a.Logins(db), more...) {
		if _, err := conn.Write(resp.Command(words...)); err != nil {
			return err
		}
		answer, err := in.ReadString('\n')
		if err == nil && !strings.HasPrefix(answer, "+") {
			err = resp.ServerError(strings.TrimSpace(strings.TrimPrefix(answer, "-")))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func askRedis(conn net.Conn, in *bufio.Reader, size int) error {
	command := resp.Command("PING")
	if size > 0 {
		command = resp.Command("ECHO", strings.Repeat("x", size))
	}
	if _, err := conn.Write(command); err != nil {
		return err
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	text, long := strings.CutPrefix(strings.TrimSpace(line), "$")
	if !long {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("read the answer %q: %w", line, err)
	}
	_, err = in.Discard(n + 2)
	return err
}

// Frames of HTTP/2, which etcd's clients speak: a header of 9 bytes, of which 3 are the length of what follows.
const (
	frameHead     = 9
	frameSettings = 4
	frameAck      = 1
	// etcdMost: a server closes a connection whose acknowledgements it cannot get rid of.
	etcdMost = 72 << 10
)

// settings is an empty SETTINGS frame. A server acknowledges each by one that is as long.
var settings = []byte{0, 0, 0, frameSettings, 0, 0, 0, 0, 0}

// AskEtcd asks by SETTINGS frames, which are acknowledged. A PING would be closer at hand, but servers of gRPC turn away whoever sends
// several. No password is named: a connection has none.
func AskEtcd(secure *tls.Config) Question {
	q := Question{Trips: 1, Most: etcdMost, Piped: true, Ask: func(conn net.Conn, in *bufio.Reader, size int) error {
		n := max(1, size/frameHead)
		if _, err := conn.Write(bytes.Repeat(settings, n)); err != nil {
			return err
		}
		return acknowledged(in, n)
	}}
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos, q.Trips = []string{"h2"}, 1+tlsTrips
	}
	q.Dial = greeted(secure, func(conn net.Conn) error {
		if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)); err != nil {
			return err
		}
		return acknowledged(conn, 1)
	})
	return q
}

// acknowledged reads frames until n are acknowledgements of SETTINGS.
func acknowledged(in io.Reader, n int) error {
	head := make([]byte, frameHead)
	for n > 0 {
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		if head[3] == frameSettings && head[4]&frameAck != 0 {
			n--
		}
		long := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, in, long); err != nil {
			return err
		}
	}
	return nil
}

// AskPostgres asks by a SELECT of a literal, on a connection that dial has logged in.
func AskPostgres(dial func(ctx context.Context, addr string) (net.Conn, error)) Question {
	return Question{Dial: dial, Trips: tlsTrips + scramTrips, Ask: askPostgres, Most: most}
}

func askPostgres(conn net.Conn, in *bufio.Reader, size int) error {
	text := "SELECT '" + strings.Repeat("x", size) + "'\x00"
	query := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(text)))
	if _, err := conn.Write(append(query, text...)); err != nil {
		return err
	}
	for head := make([]byte, 5); head[0] != 'Z'; { // the server is ready for another query
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		long := binary.BigEndian.Uint32(head[1:])
		if long < 4 {
			return errors.New("this is no answer of a PostgreSQL")
		}
		if _, err := io.CopyN(io.Discard, in, int64(long)-4); err != nil {
			return err
		}
	}
	return nil
}
