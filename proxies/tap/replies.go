package tap

import (
	"io"
	"time"

	"github.com/lockdrill/lockdrill/internal/resp"
)

// What a client is owed.
const (
	pass   = iota // n replies of the server
	answer        // a reply that does not come from the server
	cut           // nothing, from here on
	open          // all that comes, as it comes
)

type entry struct {
	kind int
	n    int    // pass
	text []byte // answer
}

// queue is what a client is owed, in order. cut and open stay at its head.
type queue struct {
	entries []entry
	from    int
}

func (q *queue) push(e entry) {
	if last := len(q.entries) - 1; last >= q.from && e.kind == pass && q.entries[last].kind == pass {
		q.entries[last].n += e.n
		return
	}
	if q.from == len(q.entries) {
		q.entries, q.from = q.entries[:0], 0
	}
	q.entries = append(q.entries, e)
}

// head is what is owed next; where nothing is, a server that speaks unasked is passed on.
func (q *queue) head() entry {
	if q.from == len(q.entries) {
		return entry{kind: pass}
	}
	return q.entries[q.from]
}

// next takes off one reply.
func (q *queue) next() {
	if q.from == len(q.entries) {
		return
	}
	if e := &q.entries[q.from]; e.kind == pass && e.n > 1 {
		e.n--
		return
	}
	q.entries[q.from] = entry{}
	q.from++
}

// down delivers replies until the server closes or the connection is killed.
func (c *conn) down() {
	var (
		scan resp.Scanner
		buf  = make([]byte, FirstBuffer)
		out  []byte // where a reply of ours goes between those of the server
	)
	for {
		n, err := c.server.Read(buf)
		deliver, state := c.replies(&scan, buf[:n], &out)
		if len(deliver) > 0 && c.deliver(deliver) != nil {
			return
		}
		if state != pass {
			c.forGood(state)
		}
		switch {
		case state == cut:
			_, _ = io.Copy(io.Discard, c.server)
			select { // its client learns nothing any more, not even that the server has closed
			case <-c.gone:
			case <-c.left:
			}
			return
		case state == open:
			_, _ = io.Copy(c.client, c.server)
			return
		case err != nil && !c.woken(err):
			return
		case err != nil && !scan.Within():
			if out = c.answers(out[:0]); len(out) > 0 && c.deliver(out) != nil {
				return
			}
		}
	}
}

func (c *conn) deliver(b []byte) error {
	_, err := c.client.Write(b)
	return err
}

// replies returns what of b, and of ours between, is delivered, and cut or open where all that follows is treated alike. It is b
// itself where nothing of ours comes between.
func (c *conn) replies(scan *resp.Scanner, b []byte, out *[]byte) (deliver []byte, state int) {
	*out = (*out)[:0]
	from, pos := 0, 0 // b[from:pos] is to be delivered
	merged := func() []byte {
		if len(*out) == 0 {
			return b[from:pos]
		}
		*out = append(*out, b[from:pos]...)
		return *out
	}
	for {
		if !scan.Within() {
			if c.due() { // also before a reply: a reader that is not asleep is not woken
				*out = c.answers(append(*out, b[from:pos]...))
				from = pos
			}
			if pos == len(b) {
				break
			}
			switch c.begin(b[pos]) {
			case cut:
				return merged(), cut
			case open:
				pos = len(b)
				return merged(), open
			}
		}
		if pos == len(b) {
			break
		}
		n, _, err := scan.Scan(b[pos:])
		pos += n
		if err != nil { // no Redis: its client may know better
			pos = len(b)
			return merged(), open
		}
	}
	return merged(), pass
}

// forGood makes all that follows cut or open, whatever else is owed: nobody wakes down any more.
func (c *conn) forGood(kind int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = queue{entries: []entry{{kind: kind}}}
	_ = c.server.SetReadDeadline(time.Time{})
}

// begin says what becomes of the reply that begins with kind.
func (c *conn) begin(kind byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	head := c.pending.head()
	if head.kind == pass && kind != '>' { // what is pushed was not asked for
		c.pending.next()
	}
	return head.kind
}

// due reports that a reply of ours comes next.
func (c *conn) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending.head().kind == answer
}

// answers appends the replies of ours that are due.
func (c *conn) answers(out []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending.head().kind == answer {
		out = append(out, c.pending.head().text...)
		c.pending.next()
	}
	return out
}
