package tap

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/internal/resp"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// conn is one client's connection and its own connection to the server. Up reads the client and is the only one that writes to the
// server; down reads the server and is the only one that writes to the client: so neither can hold up the other.
type conn struct {
	link
	t     *Tap
	name  string
	count *Counters
	left  chan struct{} // closed when the client has closed

	mu      sync.Mutex
	pending queue // replies owed to the client

	// up's own:
	scan  resp.Scanner
	args  [][]byte
	op    Operation
	multi bool
}

func newConn(t *Tap, name string, count *Counters, client, server net.Conn) *conn {
	return &conn{
		link: link{client: client, server: server, gone: make(chan struct{})}, t: t, name: name, count: count, left: make(chan struct{}),
		scan: resp.Scanner{Commands: true},
	}
}

const (
	FirstBuffer = 16 << 10
	MaxInspect  = 1 << 20 // longer commands pass without being looked at
)

// up passes commands on until the client closes or the connection is killed.
func (c *conn) up() {
	if err := c.commands(); err != nil {
		c.Kill()
		return
	}
	close(c.left)
	if half, ok := c.server.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.Kill() // else the server closes when it has done what it was sent
	}
}

// commands returns nil where the client has closed.
func (c *conn) commands() error {
	var (
		buf   = make([]byte, FirstBuffer)
		start int  // what is before has been sent
		begin int  // of the command in progress
		pos   int  // what is before has been scanned
		end   int  // of what was read
		long  bool // the command in progress is too long: it has been announced, and passes in pieces
	)
	for {
		n, err := c.client.Read(buf[end:])
		end += n
		for pos < end {
			took, done, bad := c.scan.Scan(buf[pos:end])
			pos += took
			switch {
			case bad != nil: // the server says so
				return c.passUntouched(buf[start:end], "what is no command")
			case !done:
			case long:
				long, begin = false, pos
			default:
				out := c.command(buf[begin:pos], buf[start:begin])
				switch {
				case out == failed:
					start = pos
				case out == hung:
					return c.discard()
				case out == broken:
					return net.ErrClosed
				case out == untouched:
					return c.passUntouched(buf[start:end], string(c.args[0]))
				}
				begin = pos
			}
		}
		if pos-begin >= MaxInspect && !long {
			long = true
			c.count.long.Add(1)
			c.owe(entry{kind: pass, n: 1})
		}
		whole := begin
		if long {
			whole = pos
		}
		if werr := c.send(buf[start:whole]); werr != nil {
			return werr
		}
		if err != nil {
			return eof(err)
		}
		rest := copy(buf, buf[whole:end])
		begin, pos, start, end = 0, rest, 0, rest
		if rest == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

func eof(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (c *conn) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := c.server.Write(b)
	return err
}

// outcome is what becomes of a command.
type outcome int

const (
	passed    outcome = iota
	failed            // it has been dealt with: it is not to be sent any more
	hung              // nothing is sent on from here
	untouched         // it and all that follows passes as it is
	broken            // the connection is
)

// command decides on one command. What stands before it unsent, is sent first where it matters.
func (c *conn) command(frame, unsent []byte) outcome {
	c.args = words(c.args[:0], frame)
	if len(c.args) == 0 {
		if frame[0] != '*' && frame[0] > ' ' { // an inline command that cannot be read: the server refuses it
			c.owe(entry{kind: pass, n: 1})
		}
		return passed // a server does not answer an empty one
	}
	if streams(c.args) {
		return untouched
	}
	if c.transaction() {
		c.count.multi.Add(1)
		c.owe(entry{kind: pass, n: 1})
		return passed
	}
	c.t.known.recognize(&c.op, c.args)
	c.count.Seen(c.op.Op)
	if c.op.odd {
		c.t.strange(c.args)
	}
	var a *Armed
	if c.op.Op != "" {
		c.t.carry(c, &c.op)
		a = c.t.Strike(c.name, c, &c.op)
	}
	if a == nil {
		c.owe(entry{kind: pass, n: 1})
		return passed
	}
	if c.send(unsent) != nil {
		c.hold(a)
		return broken
	}
	return c.fail(a, frame)
}

// transaction reports a command from MULTI to EXEC: what is queued fails or succeeds as a whole.
func (c *conn) transaction() bool {
	switch {
	case is(c.args[0], "MULTI"):
		c.multi = true
	case !c.multi:
		return false
	case is(c.args[0], "EXEC"), is(c.args[0], "DISCARD"), is(c.args[0], "RESET"):
		c.multi = false
	}
	return true
}

// fail lets the fault have the command.
func (c *conn) fail(a *Armed, frame []byte) outcome {
	switch a.Mode {
	case burst.Error:
		c.owe(entry{kind: answer, text: fmt.Appendf(nil, "-ERR made to fail by %s (lockdrill)\r\n", a.ID)})
		return failed
	case burst.Delay:
		ok := c.holdBack(a)
		c.t.Release(a, c)
		if !ok {
			return broken
		}
		c.owe(entry{kind: pass, n: 1})
		if c.send(frame) != nil {
			return broken
		}
		return failed
	case burst.LostReply:
		c.hold(a)
		c.owe(entry{kind: cut})
		if c.send(frame) != nil {
			return broken
		}
		return failed
	}
	c.hold(a)
	c.owe(entry{kind: cut})
	return hung
}

// discard reads what the client goes on to say until it gives up.
func (c *conn) discard() error {
	_, err := io.Copy(io.Discard, c.client)
	return err
}

// passUntouched passes on all that comes, from the command on that unsent ends with.
func (c *conn) passUntouched(unsent []byte, from string) error {
	c.count.untouched.Add(1)
	c.t.Tell(c.name, fmt.Sprintf("%s: passes untouched from %.40q on", c.client.RemoteAddr(), from))
	c.owe(entry{kind: open})
	if err := c.send(unsent); err != nil {
		return err
	}
	_, err := io.Copy(c.server, c.client)
	return err
}

// owe notes the reply that comes next but for those that are owed already, before its command is sent. If it is due at once and
// does not come from the server, down is woken from its reading.
func (c *conn) owe(e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.push(e)
	if c.pending.head().kind == answer {
		_ = c.server.SetReadDeadline(time.Unix(1, 0))
	}
}

// woken takes the replies that are due and not the server's, and lets down read on.
func (c *conn) woken(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.SetReadDeadline(time.Time{}) == nil
}
