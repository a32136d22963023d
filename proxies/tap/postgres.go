package tap

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"

	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// ListenPostgres is Listen for clients of a PostgreSQL, without TLS: all but mode error can befall their advisory locks, which are taken and
// given back by functions of its own.
func (t *Tap) ListenPostgres(name, addr string) (string, error) {
	count, err := t.TakeName(name)
	if err != nil {
		return "", err
	}
	return t.Serve(addr, func(ctx context.Context, client net.Conn) {
		dial, cancel := context.WithTimeout(ctx, DialWithin)
		server, err := t.o.Dial(dial)
		cancel()
		if err != nil {
			count.Refused.Add(1)
			_ = client.Close()
			return
		}
		count.Total.Add(1)
		c := &pgConn{link: link{client: client, server: server, gone: make(chan struct{})}, t: t, name: name, count: count, calls: map[string]pgCall{}, portals: map[string]pgCall{}}
		c.serve()
	})
}

// pgConn is one client's connection and its own to the server: a session. Its one invariant: after an answer that is missing nothing is
// delivered any more.
type pgConn struct {
	link
	t     *Tap
	name  string
	count *Counters

	calls   map[string]pgCall // by the name of a prepared statement
	portals map[string]pgCall
}

// pgCall is what a statement does to a lock.
type pgCall struct {
	op   string   // "" = nothing
	keys [][]byte // what may be the key of the lock
}

func (c *pgConn) serve() {
	defer c.Kill()
	if !c.t.Enter(c) {
		return
	}
	down := make(chan struct{})
	go func() {
		defer close(down)
		c.down()
		c.Kill()
	}()
	_ = c.up() // a session ends with its connection
	c.Kill()
	<-down
	c.t.Leave(c)
	for _, a := range c.holds {
		c.t.Release(a, c)
	}
}

// down delivers what the server says until it closes, or the connection hangs.
func (c *pgConn) down() {
	buf := make([]byte, FirstBuffer)
	for {
		n, err := c.server.Read(buf)
		if c.hangs.Load() {
			_, _ = io.Copy(io.Discard, c.server)
			<-c.gone // its client learns nothing any more, not even that the server has closed
			return
		}
		if _, werr := c.client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// Codes of what a client begins with, in place of a type.
const (
	pgPlain    = 196608   // version 3.0: messages with types follow
	pgMostHead = 10 << 10 // bytes; more is no beginning, but TLS
)

// up passes messages on until the client closes.
func (c *pgConn) up() error {
	for typed := false; ; {
		head := make([]byte, 4, 5)
		if typed {
			head = head[:5]
		}
		if _, err := io.ReadFull(c.client, head); err != nil {
			return err
		}
		length := int64(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
		switch {
		case length < 0 || !typed && length > pgMostHead:
			c.count.untouched.Add(1)
			_, err := io.Copy(c.server, io.MultiReader(bytes.NewReader(head), c.client))
			return err
		case length > MaxInspect:
			c.count.long.Add(1)
			if _, err := io.CopyN(c.server, io.MultiReader(bytes.NewReader(head), c.client), int64(len(head))+length); err != nil {
				return err
			}
			continue
		}
		whole := append(head, make([]byte, length)...)
		body := whole[len(head):]
		if _, err := io.ReadFull(c.client, body); err != nil {
			return err
		}
		if !typed {
			typed = length >= 4 && binary.BigEndian.Uint32(body) == pgPlain
		} else if !c.look(whole[0], body) {
			_, err := io.Copy(io.Discard, c.client)
			return err
		}
		if _, err := c.server.Write(whole); err != nil {
			return err
		}
	}
}

// look reads a message before it is sent on; false = neither it nor what follows is.
func (c *pgConn) look(kind byte, body []byte) bool {
	var call pgCall
	switch kind {
	case 'Q': // a statement by itself
		call = pgStatement(cString(&body))
	case 'P': // one is prepared
		name := cString(&body)
		keep(c.calls, name, pgStatement(cString(&body)))
		return true
	case 'B': // it gets its parameters
		portal, name := cString(&body), cString(&body)
		bound := c.calls[string(name)]
		bound.keys = slices.Concat(pgParameters(body), bound.keys)
		keep(c.portals, portal, bound)
		return true
	case 'E': // it is done
		call = c.portals[string(cString(&body))]
	default:
		return true
	}
	c.count.Seen(call.op)
	if call.op == "" {
		return true
	}
	a := c.t.Strike(c.name, c, &Operation{Op: call.op, Keys: call.keys})
	if a == nil {
		return true
	}
	if a.Mode == burst.Delay {
		defer c.t.Release(a, c)
		return c.holdBack(a)
	}
	c.hold(a)
	return a.Mode == burst.LostReply
}

// keep remembers what a name stands for, if it does something to locks.
func keep(calls map[string]pgCall, name []byte, call pgCall) {
	if delete(calls, string(name)); call.op != "" {
		calls[string(name)] = call
	}
}

// pgStatement recognises the functions of advisory locks of a session. Whatever stands in quotes may be a key.
func pgStatement(text []byte) (call pgCall) {
	has := func(name string) bool { return bytes.Contains(bytes.ToLower(text), []byte(name+"(")) }
	switch {
	case has("pg_try_advisory_lock"), has("pg_advisory_lock"):
		call.op = burst.Acquire
	case has("pg_advisory_unlock"):
		call.op = burst.Release
	default:
		return call
	}
	for i, part := range bytes.Split(text, []byte("'")) {
		if i%2 == 1 {
			call.keys = append(call.keys, part)
		}
	}
	return call
}

// pgParameters are those of a Bind, each as its client wrote it.
func pgParameters(body []byte) (all [][]byte) {
	formats := int(short(&body))
	if len(body) < 2*formats {
		return nil
	}
	body = body[2*formats:]
	for range short(&body) {
		if len(body) < 4 {
			return nil
		}
		n := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if n < 0 { // NULL
			continue
		}
		if int(n) > len(body) {
			return nil
		}
		all, body = append(all, body[:n]), body[n:]
	}
	return all
}

func short(body *[]byte) (n uint16) {
	if len(*body) >= 2 {
		n, *body = binary.BigEndian.Uint16(*body), (*body)[2:]
	}
	return n
}

// cString takes a string and its end off body.
func cString(body *[]byte) []byte {
	text, rest, _ := bytes.Cut(*body, []byte{0})
	*body = rest
	return text
}
