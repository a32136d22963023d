package workercheck

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/resp"
)

// keyState is what a lock key showed at one look.
type keyState struct {
	Token string // "" = absent
	PTTL  time.Duration
	Err   error
	history.Span
}

// call is one command of the worker that names a lock key and may write, with the key's state just before and just after it.
type call struct {
	Name          string
	Key           string // without the prefix
	Life          string // incarnation that sent it
	At            int64  // it had arrived here; it went on after At and Held
	Held          time.Duration
	Replied       int64 // its reply had come back to here; 0 = never
	Unsure        bool  // lines that were written before it may not have come by the time that it went on
	Before, After keyState
	Crowded       bool // the key was touched by another, too, between the looks: what changed may be its doing
}

// From is when it went on: its effect lies between this and Replied.
func (c *call) From() int64 { return c.At + int64(c.Held) }

// gate stands between one life of a worker and the locks' store. It sees every call, looks at the key around it, and can let calls hang.
// It changes nothing of what passes.
type gate struct {
	life     string
	upstream string
	listener net.Listener
	rules    gateRules

	mu    sync.Mutex
	open  *sync.Cond
	hangs bool // calls and replies wait
	mute  bool // replies wait
	conns map[net.Conn]bool
	done  bool
	wait  sync.WaitGroup
}

// gateRules are what the gate asks of its owner.
type gateRules struct {
	lockKey   func(word string) (key string, ok bool) // whether a word of a command is a lock key
	announced func(life, key string) (sure bool)      // waits until a call of the key is pending, or is surely not; false = not sure
	look      func(key string) keyState
	record    func(*call)
	replied   func(c *call, at int64, after keyState)
}

func newGate(life, upstream string, rules gateRules) (*gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &gate{life: life, upstream: upstream, listener: l, rules: rules, conns: map[net.Conn]bool{}}
	g.open = sync.NewCond(&g.mu)
	g.wait.Go(g.accept)
	return g, nil
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// hang lets calls and replies wait, or go on again.
func (g *gate) hang(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangs = on
	g.open.Broadcast()
}

// silence lets replies wait, or go on again; calls pass.
func (g *gate) silence(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mute = on
	g.open.Broadcast()
}

// pass waits while the gate is shut; false = it is closed.
func (g *gate) pass(reply bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for (g.hangs || g.mute && reply) && !g.done {
		g.open.Wait()
	}
	return !g.done
}

func (g *gate) close() {
	g.mu.Lock()
	g.done = true
	_ = g.listener.Close()
	for c := range g.conns {
		_ = c.Close()
	}
	g.open.Broadcast()
	g.mu.Unlock()
	g.wait.Wait()
}

// keep notes a connection, to be closed with the gate.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done {
		_ = c.Close()
		return false
	}
	g.conns[c] = true
	return true
}

func (g *gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !g.keep(client) || !g.keep(server) {
			_ = server.Close()
			return
		}
		w := &way{gate: g, client: client, server: server}
		g.wait.Go(w.requests)
		g.wait.Go(w.replies)
	}
}

// way is one connection through the gate. Replies come in the order of commands, so the commands in flight are a queue.
type way struct {
	gate           *gate
	client, server net.Conn

	mu     sync.Mutex
	flight [][]*call // of each command, in order; nil = of no interest
	multi  bool
	queued []*call // within MULTI: they take effect with EXEC
}

func (w *way) end() { _, _ = w.client.Close(), w.server.Close() }

func (w *way) requests() {
	defer w.end()
	scan := resp.Scanner{Commands: true}
	err := frames(w.client, &scan, func(frame []byte) error {
		args, err := resp.Args(nil, frame)
		if err == nil && len(args) > 0 {
			w.command(args)
		}
		if !w.gate.pass(false) {
			return net.ErrClosed
		}
		_, err = w.server.Write(frame)
		return err
	})
	if errors.Is(err, resp.ErrSyntax) {
		w.gate.rules.record(&call{Name: "what is no Redis command", Life: w.gate.life, At: monotime.Now()})
	}
}

// reading are commands that change no key. What is not known may: a script, a module's command.
var reading = map[string]bool{
	"GET": true, "PTTL": true, "TTL": true, "EXISTS": true, "TYPE": true, "STRLEN": true, "MGET": true, "WATCH": true, "EVAL_RO": true,
	"EVALSHA_RO": true, "FCALL_RO": true, "OBJECT": true, "SUBSCRIBE": true, "PSUBSCRIBE": true, "CLIENT": true, "COMMAND": true, "PEXPIRETIME": true,
}

// command waits until the calls that it makes were announced, looks at their keys, and puts it in flight.
func (w *way) command(args [][]byte) {
	name := strings.ToUpper(string(args[0]))
	if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ._0123456789") != "" {
		name = strconv.Quote(name)
	}
	var calls []*call
	if !reading[name] {
		seen := map[string]bool{}
		for _, word := range args[1:] {
			if key, ok := w.gate.rules.lockKey(string(word)); ok && !seen[key] {
				seen[key] = true
				calls = append(calls, w.note(name, key))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case name == "MULTI":
		w.multi = true
	case name == "EXEC" || name == "DISCARD":
		if name == "EXEC" {
			calls = w.queued
		}
		w.multi, w.queued = false, nil
	case w.multi:
		w.queued, calls = append(w.queued, calls...), nil
	}
	w.flight = append(w.flight, calls)
}

func (w *way) note(name, key string) *call {
	c := &call{Name: name, Key: key, Life: w.gate.life, At: monotime.Now()}
	c.Unsure = !w.gate.rules.announced(c.Life, key)
	c.Held = time.Duration(monotime.Now() - c.At)
	c.Before = w.gate.rules.look(key)
	w.gate.rules.record(c)
	return c
}

func (w *way) replies() {
	defer w.end()
	var scan resp.Scanner
	_ = frames(w.server, &scan, func(frame []byte) error { // an end of either side ends both
		if frame[0] != '>' {
			w.reply()
		}
		if !w.gate.pass(true) {
			return net.ErrClosed
		}
		_, err := w.client.Write(frame)
		return err
	})
}

func (w *way) reply() {
	w.mu.Lock()
	var calls []*call
	if len(w.flight) > 0 {
		calls, w.flight = w.flight[0], w.flight[1:]
	}
	w.mu.Unlock()
	for _, c := range calls {
		at := monotime.Now()
		w.gate.rules.replied(c, at, w.gate.rules.look(c.Key))
	}
}

// frames calls do for each frame that comes, until the stream or do ends.
func frames(r io.Reader, scan *resp.Scanner, do func(frame []byte) error) error {
	var frame bytes.Buffer
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			took, done, err := scan.Scan(rest)
			if err != nil {
				return err
			}
			frame.Write(rest[:took])
			rest = rest[took:]
			if done {
				if err := do(frame.Bytes()); err != nil {
					return err
				}
				frame.Reset()
			}
		}
		if err != nil {
			return err
		}
	}
}
