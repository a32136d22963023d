package apiproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is a client's connection whose reads come late where a fault says so: each piece by itself, as on a long way, and in its order.
type conn struct {
	*net.TCPConn
	p      *Proxy
	from   string // address of the client
	pieces chan piece
	over   chan struct{} // closed by Close
	once   sync.Once

	left piece // what a Read had no room for

	mu    sync.Mutex
	late  chan struct{} // closed at the deadline of reads
	timer *time.Timer   // that closes it; nil = there is none
}

// piece is what came at once.
type piece struct {
	data []byte
	due  time.Time
	now  <-chan struct{} // or when this is closed: its fault is over
}

const (
	mostPiece  = 32 << 10
	mostPieces = 256 // on the way at once: more waits in the client's kernel
)

func (p *Proxy) newConn(client *net.TCPConn) *conn {
	from, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	return &conn{TCPConn: client, p: p, from: from, pieces: make(chan piece, mostPieces), over: make(chan struct{}), late: make(chan struct{})}
}

// pump reads ahead, and notes of each piece when it is due.
func (c *conn) pump() {
	defer close(c.pieces)
	for {
		data := make([]byte, mostPiece)
		n, err := c.TCPConn.Read(data)
		if n > 0 {
			select {
			case c.pieces <- c.delayed(data[:n]):
			case <-c.over:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *conn) delayed(data []byte) piece {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	f := c.p.inEffect(Slow, c.from)
	if f == nil {
		return piece{data: data}
	}
	f.Hits++
	return piece{data, time.Now().Add(f.Delay), f.over}
}

// Read gives the next piece when it is due.
func (c *conn) Read(b []byte) (int, error) {
	late := c.deadline()
	select {
	case <-late:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	if len(c.left.data) == 0 {
		select {
		case <-late:
			return 0, os.ErrDeadlineExceeded
		case next, open := <-c.pieces:
			if !open {
				return 0, io.EOF
			}
			c.left = next
		case <-c.over:
			return 0, net.ErrClosed
		}
	}
	if wait := time.Until(c.left.due); wait > 0 {
		due := time.NewTimer(wait)
		defer due.Stop()
		select {
		case <-due.C:
		case <-c.left.now:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		case <-c.over:
			return 0, net.ErrClosed
		}
	}
	n := copy(b, c.left.data)
	c.left.data = c.left.data[n:]
	return n, nil
}

func (c *conn) deadline() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// SetReadDeadline is for Reads, which wait for pieces and not for the connection: also for one that waits already.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && !c.timer.Stop() {
		<-c.late // it has fired, and closes it
	}
	c.timer = nil
	select {
	case <-c.late:
		c.late = make(chan struct{})
	default:
	}
	switch wait := time.Until(t); {
	case t.IsZero():
	case wait <= 0:
		close(c.late)
	default:
		late := c.late
		c.timer = time.AfterFunc(wait, func() { close(late) })
	}
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close ends the connection and whoever reads it.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.over)
		go func() { // the caller may hold the lock
			c.p.mu.Lock()
			defer c.p.mu.Unlock()
			delete(c.p.conns, c)
		}()
	})
	return c.TCPConn.Close()
}

// reset closes it with an RST.
func (c *conn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// listener hands connections to a server that ends TLS.
type listener struct {
	conns chan net.Conn
	over  chan struct{}
}

func (l *listener) add(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.over:
		_ = c.Close()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }
