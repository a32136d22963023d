package probes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/resp"
)

const (
	dialWithin = time.Second
	askWithin  = 2 * time.Second // dialling and login, and the answer to a question
	maxAnswer  = 64 << 20        // bytes of it
	keptRoom   = 1 << 20         // bytes of room for answers that are kept for the next one

	briefly = 10 * time.Millisecond // so long a wait, and a shorter one, is to cost little
)

// wire is a connection on which a probe asks now and takes the answer later, one question after the other. Hundreds of looks a second are
// too many for a client with its pool, contexts and replies in boxes: that was half of what a look cost. After a failure it dials anew.
type wire struct {
	o      redis.Options
	within time.Duration // askWithin

	conn     *answers     // nil = not connected
	dialling chan dialled // what becomes of it; nil = nobody dials
	question []byte       // that is to be answered
	replies  int          // that belong to the answer
	limit    time.Time    // until when
	open     bool         // it was sent, and the answer has not been taken
	failed   error        // why it could not be asked
}

type dialled struct {
	conn *answers
	err  error
}

// newWire returns a wire to the server of o; it does not dial yet. Its owner calls close.
func newWire(o *redis.Options) *wire {
	w := &wire{o: *o, within: askWithin}
	w.o.DialTimeout = dialWithin
	return w
}

func (w *wire) close() error {
	w.drop()
	if w.dialling != nil {
		w.conn = (<-w.dialling).conn // soon: see dial
		w.drop()
	}
	return nil
}

// drop ends the connection: what comes on it might be the answer to an earlier question.
func (w *wire) drop() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
	w.open = false
}

// ask sends commands, to which so many replies are the answer. It does not wait, and gives up an earlier question that has no answer yet. The
// question stays as it is until the answer has come.
func (w *wire) ask(question []byte, replies int) {
	if w.open {
		w.drop()
	}
	w.question, w.replies, w.limit, w.failed = question, replies, time.Now().Add(w.within), nil
	switch {
	case w.conn != nil:
		w.send()
	case w.dialling == nil:
		into := make(chan dialled, 1)
		w.dialling = into
		go func() {
			conn, err := dial(w.o)
			into <- dialled{conn, err}
		}()
	}
}

func (w *wire) send() {
	w.open = true
	_ = w.conn.SetWriteDeadline(w.limit)
	if _, w.failed = w.conn.Write(w.question); w.failed != nil {
		w.drop()
	}
}

// answer waits for the answer to the question; ok is false where it has not come by then. It is good until the next question.
func (w *wire) answer(until time.Time) (_ []byte, ok bool, err error) {
	last := !until.Before(w.limit)
	if last {
		until = w.limit
	}
	if w.failed == nil && w.conn == nil && !w.connected(until) && !last {
		return nil, false, nil
	}
	switch {
	case w.failed != nil:
		return nil, false, w.failed
	case w.conn == nil:
		return nil, false, fmt.Errorf("connect to %s: %w", w.o.Addr, os.ErrDeadlineExceeded)
	}
	answer, err := w.conn.take(w.replies, until)
	if errors.Is(err, os.ErrDeadlineExceeded) && !last {
		return nil, false, nil
	} else if err != nil {
		w.drop()
		return nil, false, err
	}
	w.open = false
	return answer, true, nil
}

// connected sends the question once dialling has ended. It does not wait for that briefly: a timer of Go's would be needed.
func (w *wire) connected(until time.Time) bool {
	var d dialled
	if left := time.Until(until); left > briefly {
		select {
		case d = <-w.dialling:
		case <-time.After(left):
			return false
		}
	} else {
		select {
		case d = <-w.dialling:
		default:
			return false
		}
	}
	w.conn, w.failed, w.dialling = d.conn, d.err, nil
	if w.conn != nil {
		w.send()
	}
	return true
}

// dial connects to the server and logs in.
func dial(o redis.Options) (*answers, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	conn, err := redis.NewDialer(&o)(ctx, cmp.Or(o.Network, "tcp"), o.Addr)
	if err != nil {
		return nil, err
	}
	a := &answers{Conn: conn}
	if socket, ok := conn.(syscall.Conn); ok {
		if a.raw, err = socket.SyscallConn(); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	if err := a.login(o); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return a, nil
}

// answers is a connection and what has come on it.
type answers struct {
	net.Conn
	raw     syscall.RawConn // nil = not a socket itself, as with TLS
	scan    resp.Scanner
	in      []byte // n bytes have come, of which the first scanned have been looked at: whole replies, and perhaps the beginning of one
	n       int
	scanned int
	whole   int // replies
}

// login says who asks, and which database it is about.
func (a *answers) login(o redis.Options) error {
	var commands [][]string
	switch {
	case o.Password != "" && o.Username != "":
		commands = append(commands, []string{"AUTH", o.Username, o.Password})
	case o.Password != "":
		commands = append(commands, []string{"AUTH", o.Password})
	}
	if o.DB != 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(o.DB)})
	}
	if len(commands) == 0 {
		return nil
	}
	var question []byte
	for _, c := range commands {
		question = resp.AppendHead(question, len(c))
		for _, word := range c {
			question = resp.AppendWord(question, word)
		}
	}
	limit := time.Now().Add(askWithin)
	_ = a.SetWriteDeadline(limit)
	if _, err := a.Write(question); err != nil {
		return err
	}
	b, err := a.take(len(commands), limit)
	if err != nil {
		return err
	}
	said := resp.NewReply(b)
	for range commands {
		said.Status()
	}
	if err := said.Err(); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	return nil
}

// take returns so many replies once they are there, which are good until the next call. Where they have not come by then, the error wraps
// os.ErrDeadlineExceeded, and they can be taken later.
func (a *answers) take(replies int, until time.Time) ([]byte, error) {
	for {
		for a.scanned < a.n && a.whole < replies {
			took, done, err := a.scan.Scan(a.in[a.scanned:a.n])
			if a.scanned += took; err != nil {
				return nil, err
			}
			if done {
				a.whole++
			}
		}
		if a.whole == replies {
			break
		}
		if a.n == len(a.in) {
			if a.n >= maxAnswer {
				return nil, fmt.Errorf("an answer is longer than %d bytes", maxAnswer)
			}
			a.in = append(a.in, make([]byte, max(4<<10, a.n))...)
		}
		n, err := a.read(a.in[a.n:], until)
		if a.n += n; err != nil && n == 0 {
			return nil, err
		}
	}
	if a.scanned < a.n {
		return nil, fmt.Errorf("%w: more replies than commands", resp.ErrSyntax)
	}
	answer := a.in[:a.n]
	if a.n, a.scanned, a.whole = 0, 0, 0; len(a.in) > keptRoom {
		a.in = nil
	}
	return answer, nil
}

// read is Read with a limit. Briefly the thread waits itself: to park a goroutine until its answer comes, with a timer as the limit, costs more
// than all else about a look, since others are woken to search for work meanwhile.
func (a *answers) read(b []byte, until time.Time) (n int, err error) {
	left := time.Until(until)
	if a.raw == nil || left > briefly {
		_ = a.SetReadDeadline(until)
		return a.Read(b)
	}
	limit := monotime.Now() + int64(left)
	closed := a.raw.Control(func(fd uintptr) {
		for err = syscall.EAGAIN; err == syscall.EAGAIN || err == syscall.EINTR; {
			if err = monotime.AwaitReadable(fd, limit); err == nil {
				n, err = syscall.Read(int(fd), b)
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// await waits for what a look shows, for as long as ctx lasts.
func await(ctx context.Context, answer func(until time.Time) (func(history.Span) []history.Event, bool, error)) (func(history.Span) []history.Event, error) {
	until, limited := ctx.Deadline()
	if !limited {
		until = time.Now().Add(time.Hour) // a question has its own limit
	}
	report, ok, err := answer(until)
	if err == nil && !ok {
		err = context.DeadlineExceeded
	}
	return report, err
}
