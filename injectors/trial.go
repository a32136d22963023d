package injectors

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/poll"
)

// trial is how a fresh connection of our own shows a fault of the network.
type trial struct {
	run   measuring
	calm  measuring     // before the fault; nil = run
	least time.Duration // the fault's share of what is measured
	most  time.Duration // likewise: an answer that takes much longer does not come
	above bool          // least counts from the baseline, however low that is
	cut   bool          // no answer: nothing to measure
}

// measuring gives what was measured; an error says that the fault does not show. enough ends a measuring of many early.
type measuring func(ctx context.Context, q endpoint.Question, addr string, enough time.Duration) (time.Duration, error)

const (
	calmPings  = 5
	manyPings  = 60
	longPing   = 500 * time.Millisecond
	answerTime = 2 * time.Second        // beyond what the fault adds, until an answer counts as none
	silentTime = 300 * time.Millisecond // without an answer on a way that is cut
	echoTime   = 200                    // ms that the payload of a bandwidth trial takes each way
)

// before is the trial that gives the baseline.
func (t trial) before() trial {
	if t.calm != nil {
		t.run = t.calm
	}
	return t
}

// need is what must be measured at least. On a way that is slow already, the fault must come on top.
func (t trial) need(base time.Duration) time.Duration {
	switch {
	case t.cut:
		return 0
	case t.above:
		return base + t.least
	case base >= t.least/2: // measured once, it may have been slow by chance; but what is no slower than before shows nothing
		return max(base/2+t.least, base+max(t.least/2, base/10))
	}
	return t.least
}

func pingTrial(least, most time.Duration) trial {
	n := 2
	if least >= longPing { // a second one might outlast the fault's time
		n = 1
	}
	return trial{least: least, most: most, calm: pinged(calmPings, false), run: pinged(n, false)}
}

// someTrial is for delays of which some are nothing: the slowest of many counts.
func someTrial(least, most time.Duration) trial {
	return trial{least: least, most: most, above: true, calm: pinged(calmPings, true), run: pinged(manyPings, true)}
}

// pinged asks n times, and takes the quickest or the slowest answer; with the slowest it stops once that is enough.
func pinged(n int, slowest bool) measuring {
	return func(ctx context.Context, q endpoint.Question, addr string, enough time.Duration) (took time.Duration, err error) {
		return on(func(ask asking, _ net.Conn) (time.Duration, error) {
			for i := range n {
				one, err := ask(0)
				switch {
				case err != nil:
					return took, err
				case i == 0 || slowest && one > took || !slowest && one < took:
					took = one
				}
				if slowest && enough > 0 && took >= enough {
					break
				}
			}
			return took, nil
		})(ctx, q, addr, 0)
	}
}

// asking asks once for so many bytes, and gives how long the answer took.
type asking func(size int) (time.Duration, error)

// on measures over a fresh connection, which has the context's deadline.
func on(do func(ask asking, conn net.Conn) (time.Duration, error)) measuring {
	return func(ctx context.Context, q endpoint.Question, addr string, _ time.Duration) (time.Duration, error) {
		conn, err := open(ctx, q, addr)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		return do(func(size int) (time.Duration, error) {
			start := time.Now()
			err := q.Ask(conn, in, size)
			return time.Since(start), err
		}, conn)
	}
}

func open(ctx context.Context, q endpoint.Question, addr string) (net.Conn, error) {
	conn, err := q.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return conn, nil
}

// echoTrial sends so much there and back that it takes a while at rate kB/s in n directions.
func echoTrial(rate, n int, q endpoint.Question) trial {
	size := min(max(rate, 1)*echoTime, q.Most)
	each := time.Duration(size) * time.Millisecond / time.Duration(max(rate, 1))
	if q.Piped {
		n = 1
	}
	return echo(size, time.Duration(n)*each*9/10, time.Duration(n)*each)
}

// piecesTrial sends some pieces there and back, of which each comes so long after the one before.
func piecesTrial(piece int, apart time.Duration, n int, q endpoint.Question) trial {
	many := max(3, echoTime*time.Millisecond/apart)
	if q.Piped {
		n = 1
	}
	size := min(int(many)*piece, q.Most)
	many = time.Duration(size / piece)
	return echo(size, time.Duration(n)*(many-1)*apart*9/10, time.Duration(n)*2*(many+1)*apart)
}

// echo sends so many bytes there and back.
func echo(size int, least, most time.Duration) trial {
	return trial{least: least, most: most, run: on(func(ask asking, _ net.Conn) (time.Duration, error) { return ask(size) })}
}

// closeTrial ends the sending half of a connection and waits until the other end has closed as well.
func closeTrial(least time.Duration) trial {
	return trial{least: least, most: least, run: on(func(ask asking, conn net.Conn) (time.Duration, error) {
		if _, err := ask(0); err != nil {
			return 0, err
		}
		half, ok := conn.(interface{ CloseWrite() error })
		if !ok {
			return 0, errors.New("this connection cannot be closed by half")
		}
		start := time.Now()
		if err := half.CloseWrite(); err != nil {
			return 0, err
		}
		_, err := io.Copy(io.Discard, conn)
		return time.Since(start), err
	})}
}

// cutTrial is for ways on which nothing may come back; before the fault an answer must.
func cutTrial(run func(ctx context.Context, q endpoint.Question, addr string) error) trial {
	return trial{cut: true, most: silentTime, calm: pinged(calmPings, false),
		run: func(ctx context.Context, q endpoint.Question, addr string, _ time.Duration) (time.Duration, error) {
			return 0, run(ctx, q, addr)
		}}
}

// carried asks until a connection has carried so many bytes; of 0 once.
func carried(bytes int) measuring {
	return func(ctx context.Context, q endpoint.Question, addr string, _ time.Duration) (time.Duration, error) {
		return on(func(ask asking, _ net.Conn) (took time.Duration, err error) {
			size := min(bytes, q.Most)
			for left := bytes; err == nil && (left > 0 || took == 0); left -= size {
				var one time.Duration
				one, err = ask(size)
				took += one
			}
			return took, err
		})(ctx, q, addr, 0)
	}
}

// answer is the error of asking until so many bytes are carried; an answer to all of them is one as well.
func answer(ctx context.Context, q endpoint.Question, addr string, bytes int) error {
	if _, err := carried(bytes)(ctx, q, addr, 0); err != nil {
		return err
	}
	return errAnswered
}

var errAnswered = errors.New("there was an answer")

// silence: the connection stands and nothing comes back, be it that the store is to let it in first.
func silence(ctx context.Context, q endpoint.Question, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, silentTime)
	defer cancel()
	err := answer(ctx, q, addr, 0)
	var timeout net.Error
	switch {
	case errors.Is(err, errAnswered):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	}
	return fmt.Errorf("the connection did not stay open: %w", err)
}

// broken: a connection ends before it has carried so many bytes; of 0, as soon as it is used.
func broken(bytes int) func(context.Context, endpoint.Question, string) error {
	return func(ctx context.Context, q endpoint.Question, addr string) error {
		switch err := answer(ctx, q, addr, bytes); {
		case errors.Is(err, errAnswered):
			return err
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
			return nil
		default:
			return fmt.Errorf("the connection was not ended: %w", err)
		}
	}
}

// refusal: nobody listens.
func refusal(ctx context.Context, q endpoint.Question, addr string) error {
	conn, err := open(ctx, q, addr)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("somebody listens")
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return fmt.Errorf("the connection was not refused: %w", err)
}

// measure makes one trial on each way, all at once.
func (h *Hit) measure(ctx context.Context, t trial, enough time.Duration) ([]time.Duration, error) {
	q, seen := h.question(), make([]time.Duration, len(h.Rec.Routes))
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2+q.Trips)*t.most+answerTime)
	defer cancel()
	return seen, each(h.Rec.Routes, func(i int, w undo.ProxyRoute) error {
		took, err := t.run(ctx, q, w.Addr(), enough)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Proxy, err)
		}
		seen[i] = took
		return nil
	})
}

// question is how the store is asked: a Redis, unless something else was said.
func (h *Hit) question() endpoint.Question {
	if h.Question.Ask != nil {
		return h.Question
	}
	return endpoint.AskRedis(endpoint.Access{})
}

// freeWithin bounds the wait for the way to be as before, and onceWithin each try.
const (
	freeWithin = 5 * time.Second
	onceWithin = time.Second // a PostgreSQL on a busy machine takes half of it to let anybody in
)

// awaitFree passes a connection through each way again. Where the store itself does not answer, or as slowly, it is not the way.
func (h *Hit) awaitFree(ctx context.Context, g ground) error {
	ctx, cancel := context.WithTimeout(ctx, freeWithin)
	defer cancel()
	once := func(addr string) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, onceWithin)
		defer cancel()
		return pinged(1, false)(ctx, h.question(), addr, 0)
	}
	return each(h.Rec.Routes, func(_ int, w undo.ProxyRoute) error {
		var took time.Duration
		var err error
		for range poll.Every(ctx, 20*time.Millisecond) {
			if took, err = once(w.Addr()); err == nil && (g.need == 0 || took < g.base+g.need/2) {
				return nil
			}
			direct, down := once(w.Upstream)
			if ctx.Err() == nil && (down != nil || err == nil && direct > took/2) {
				return nil
			}
		}
		return fmt.Errorf("the fault is removed from %s, and a round trip there is not what it was: %s (%w)", w.Proxy, took, errors.Join(err, ctx.Err()))
	})
}
