package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// zkServer answers every frame: what opens a session by itself, a request by its number and the error that its path ends with.
func zkServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				first := true
				_ = frames(io.Discard, c, func(frame []byte) bool {
					if first {
						first = false
						_, _ = c.Write(framed(7)) // the answer to the first, which is not told
					}
					failed := uint32(0)
					if frame[len(frame)-1] == '!' {
						failed = 1
					}
					_, _ = c.Write(framed(binary.BigEndian.Uint32(frame), 0, 0, failed))
					return false
				})
			}()
		}
	}()
	return l.Addr().String()
}

func framed(words ...uint32) []byte {
	all := binary.BigEndian.AppendUint32(nil, uint32(4*len(words)))
	for _, w := range words {
		all = binary.BigEndian.AppendUint32(all, w)
	}
	return all
}

// zkClient asks, and says whether an answer comes.
type zkClient struct {
	t *testing.T
	net.Conn
	asked uint32
}

func dialZK(t *testing.T, p *zkProxy) *zkClient {
	c, err := net.Dial("tcp", p.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, _ = c.Write(framed(0, 1, 1, 1)) // it opens the session, and is no create
	return &zkClient{t: t, Conn: c}
}

func (c *zkClient) ask(op uint32, path string, heard bool) {
	c.t.Helper()
	c.asked++
	body := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, c.asked), op), uint32(len(path)))
	body = append(body, path...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		c.t.Fatal(err)
	}
	wait := 10 * time.Second
	if !heard {
		wait = 50 * time.Millisecond
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			if heard {
				c.t.Errorf("%d %s: %v", op, path, err)
			}
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c, frame); err != nil {
			c.t.Fatal(err)
		}
		if len(frame) == 16 && binary.BigEndian.Uint32(frame) == c.asked {
			if !heard {
				c.t.Errorf("%d %s was answered", op, path)
			}
			return
		}
	}
}

func TestTheAnswerToOneAcquireOfAZooKeeperIsLost(t *testing.T) {
	p, err := newZKProxy(zkServer(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	ctx := t.Context()
	c, other := dialZK(t, p), dialZK(t, p)
	c.ask(1, zkLock+"/a-1", true)
	if err := p.lose(ctx, "acquire", "do"); err != nil {
		t.Fatal(err)
	}
	c.ask(2, zkLock+"/a-1", true)   // a release
	c.ask(11, zkLock+"/a-1", true)  // a ping
	c.ask(1, "/elsewhere/a", true)  // no lock
	c.ask(1, zkLock+"/a-2!", true)  // it was refused
	c.ask(15, zkLock+"/a-3", false) // lost
	c.ask(11, "", false)            // and everything after it
	other.ask(1, zkLock+"/b-1", true)
	if err := p.lose(ctx, "acquire", "confirm"); err != nil {
		t.Error(err)
	}
	if err := p.lose(ctx, "acquire", "undo"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection stands: %v", err)
	}
	other.ask(2, zkLock+"/b-1", true)

	if err := p.lose(ctx, "release", "do"); err != nil {
		t.Fatal(err)
	}
	other.ask(1, zkLock+"/b-2", true)
	over, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	if err := p.lose(over, "release", "confirm"); err == nil {
		t.Error("a release was lost that nobody sent")
	}
	other.ask(2, zkLock+"/b-2", false)
}
