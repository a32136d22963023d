package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/lockdrill/lockdrill/internal/wild/cluster"
)

// zkProxy passes connections to a ZooKeeper through, and can lose the answer to one request that makes or deletes a lock's node. It reads
// no more of the protocol than that takes: a frame is its length and so many bytes, a request begins with its number, its operation and
// its path, an answer with the number, the transaction and an error. Only the first frame each way is another: it opens the session.
type zkProxy struct {
	to string
	l  net.Listener

	mu    sync.Mutex
	armed string // what is to be lost: acquire, release; empty: nothing more
	lost  bool
	open  []net.Conn // the clients'
	mute  []net.Conn // those that have lost an answer
}

// zkWrites are the operations that write a node of a lock.
var zkWrites = map[uint32]string{1: "acquire", 2: "release", 15: "acquire"} // create, delete, create2

// zkLock is the node of the lock, above those of its contenders.
const zkLock = "/mutex:wild"

const mostFrame = 4 << 20 // a ZooKeeper takes 1 MiB

func newZKProxy(to string) (*zkProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &zkProxy{to: to, l: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(c)
		}
	}()
	return p, nil
}

func (p *zkProxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.l.Close()
	for _, c := range p.open {
		_ = c.Close()
	}
}

// lose takes a step of a hook: do, confirm, or undo, which closes the connection that has lost an answer.
func (p *zkProxy) lose(ctx context.Context, what, step string) error {
	if step == "confirm" {
		return cluster.Until(ctx, "no answer was lost", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.lost
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if step == "do" {
		p.armed, p.lost = what, false
		return nil
	}
	p.armed = ""
	for _, c := range p.mute {
		_ = c.Close()
	}
	p.mute = nil
	return nil
}

func (p *zkProxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.open = append(p.open, client)
	p.mu.Unlock()
	c := &zkConn{p: p, client: client}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_ = frames(client, server, c.answer)
		_, _ = client.Close(), server.Close()
	}()
	_ = frames(server, client, c.ask)
	_, _ = client.Close(), server.Close()
	<-back
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(o net.Conn) bool { return o == client })
}

// frames passes on each frame but the first as pass says.
func frames(to io.Writer, from io.Reader, pass func(frame []byte) bool) error {
	in := bufio.NewReader(from)
	for first := true; ; first = false {
		head, err := in.Peek(4)
		if err != nil {
			return err
		}
		n := binary.BigEndian.Uint32(head)
		if n > mostFrame {
			return errors.New("no frame of a ZooKeeper")
		}
		frame := make([]byte, 4+n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if first || pass(frame[4:]) {
			if _, err := to.Write(frame); err != nil {
				return err
			}
		}
	}
}

// zkConn is one connection.
type zkConn struct {
	p      *zkProxy
	client net.Conn

	mu      sync.Mutex
	waits   string // what the request writes whose answer is to be lost; empty: there is none
	request uint32 // its number
	mute    bool
}

// ask notes a request whose answer is to be lost. All are passed on.
func (c *zkConn) ask(frame []byte) bool {
	if len(frame) < 12 {
		return true
	}
	what := zkWrites[binary.BigEndian.Uint32(frame[4:])]
	n := int(binary.BigEndian.Uint32(frame[8:]))
	if what == "" || n > len(frame)-12 || !strings.HasPrefix(string(frame[12:12+n]), zkLock+"/") {
		return true
	}
	c.p.mu.Lock()
	wanted := c.p.armed == what
	c.p.mu.Unlock()
	if wanted {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waits, c.request = what, binary.BigEndian.Uint32(frame)
	}
	return true
}

// answer says whether the client hears of it. An answer that says that nothing was done is not lost; after one that is, none gets through.
func (c *zkConn) answer(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute || len(frame) < 16 || c.waits == "" || binary.BigEndian.Uint32(frame) != c.request {
		return !c.mute
	}
	what := c.waits
	c.waits = ""
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.armed != what || binary.BigEndian.Uint32(frame[12:]) != 0 {
		return true
	}
	c.mute, c.p.armed, c.p.lost, c.p.mute = true, "", true, append(c.p.mute, c.client)
	return false
}
