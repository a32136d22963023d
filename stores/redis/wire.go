package redis

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/resp"
)

const (
	dialWithin = time.Second
	askWithin  = 2 * time.Second // dialling and login, and the answer to a question
	maxAnswer  = 64 << 20        // bytes of it
	keptRoom   = 1 << 20         // bytes of room for answers that are kept for the next one
)

// wire is a connection on which a probe asks one question after the other. Hundreds of looks a second are too many for a client with its
// pool, contexts and replies in boxes: they took half as much again of a processor. After a failure it dials anew.
type wire struct {
	o    redis.Options
	conn *answers // nil = not connected
}

// newWire returns a wire to the server of o; it does not dial yet. Its owner calls close.
func newWire(o *redis.Options) *wire {
	w := &wire{o: *o}
	w.o.DialTimeout = dialWithin
	return w
}

// close ends the connection: what still comes on it might be the answer to an earlier question.
func (w *wire) close() error {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
	return nil
}

// ask sends commands, and waits for the so many replies that are their answer. It is good until the next question.
func (w *wire) ask(ctx context.Context, question []byte, replies int) (answer []byte, err error) {
	limit := time.Now().Add(askWithin)
	if end, limited := ctx.Deadline(); limited && end.Before(limit) {
		limit = end
	}
	if w.conn == nil {
		if w.conn, err = dial(ctx, w.o, limit); err != nil {
			return nil, err
		}
	}
	_ = w.conn.SetDeadline(limit)
	if _, err = w.conn.Write(question); err == nil {
		answer, err = w.conn.take(replies)
	}
	if err != nil {
		_ = w.close()
	}
	return answer, err
}

// dial connects to the server and logs in.
func dial(ctx context.Context, o redis.Options, limit time.Time) (*answers, error) {
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	conn, err := redis.NewDialer(&o)(ctx, cmp.Or(o.Network, "tcp"), o.Addr)
	if err != nil {
		return nil, err
	}
	a := &answers{Conn: conn}
	_ = a.SetDeadline(limit)
	if err := (endpoint.Access{User: o.Username, Password: o.Password}).Login(conn, bufio.NewReader(conn), o.DB); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("log in: %w", err)
	}
	return a, nil
}

// answers is a connection and what has come on it.
type answers struct {
	net.Conn
	scan    resp.Scanner
	in      []byte // n bytes have come, of which the first scanned have been looked at: whole replies, and perhaps the beginning of one
	n       int
	scanned int
	whole   int // replies
}

// take returns so many replies once they are there, which are good until the next call.
func (a *answers) take(replies int) ([]byte, error) {
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
		n, err := a.Read(a.in[a.n:])
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
