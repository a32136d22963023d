// Package tap is a proxy in front of one Redis, or of the servers of an etcd, that understands what it passes on: it recognises operations
// on locks, and makes them fail as it is told, for any client.
//
// For a Redis: it changes no command and no reply, and knows of no run. Commands within MULTI pass, as does all that follows SUBSCRIBE, MONITOR and
// their like on a connection. Its one invariant: what it delivers on a connection is, in order, what the server said, with error
// replies in the places of the commands that were not sent on; after a reply that is missing nothing is delivered any more.
package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Options of New.
type Options struct {
	Dial   func(ctx context.Context) (net.Conn, error) // opens a connection to the Redis; nil = only ListenEtcd is used
	Clock  func() int64                                // ns, CLOCK_MONOTONIC from any origin
	Rules  Rules
	Seed   int64                   // of the choices of shares
	OnHit  func(Hit)               // in order, before the operation fails; it must be quick, and not call the tap. nil = nobody asks
	Notify func(name, text string) // one line for a person about a connection. nil = nobody asks
}

// Tap is the proxy of one Redis. It is safe for concurrent use; Close ends what it has started.
type Tap struct {
	o      Options
	known  *recognizer
	active atomic.Pointer[[]*Armed] // the armed faults; nil at first
	wg     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	stops     []context.CancelFunc // of dials under way
	conns     map[killer]bool
	faults    []*Armed
	number    int
	stats     map[string]*Counters // by name of the listener
	unknown   map[string]int64

	carrying sync.Mutex
	carried  map[string][]Carrier // by key
}

// dialWithin bounds the opening of a connection to the Redis.
const DialWithin = 5 * time.Second

// New returns a proxy that does not listen yet.
func New(o Options) *Tap {
	return &Tap{o: o, known: newRecognizer(o.Rules), conns: map[killer]bool{}, stats: map[string]*Counters{}, unknown: map[string]int64{}, carried: map[string][]Carrier{}}
}

// Listen serves clients at addr, host:port, under a name that faults may be aimed at. It returns the address that it listens at.
func (t *Tap) Listen(name, addr string) (string, error) {
	count, err := t.TakeName(name)
	if err != nil {
		return "", err
	}
	return t.Serve(addr, func(ctx context.Context, client net.Conn) { t.serve(ctx, client, name, count) })
}

// name takes a name for listeners.
func (t *Tap) TakeName(name string) (*Counters, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.stats[name] != nil {
		return nil, fmt.Errorf("listen for clients: the name %q is taken, or the proxy has ended", name)
	}
	t.stats[name] = &Counters{}
	return t.stats[name], nil
}

func (t *Tap) Serve(addr string, serve func(ctx context.Context, client net.Conn)) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for clients: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = l.Close()
		return "", errors.New("listen for clients: the proxy has ended")
	}
	ctx, stop := context.WithCancel(context.Background())
	t.listeners, t.stops = append(t.listeners, l), append(t.stops, stop)
	t.wg.Go(func() { t.accept(ctx, l, serve) })
	return l.Addr().String(), nil
}

func (t *Tap) accept(ctx context.Context, l net.Listener, serve func(ctx context.Context, client net.Conn)) {
	for {
		client, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // too many open files, say: others may close theirs
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		t.wg.Go(func() { serve(ctx, client) })
	}
}

// serve owns one connection, and both its directions.
func (t *Tap) serve(ctx context.Context, client net.Conn, name string, count *Counters) {
	defer client.Close()
	from := client.RemoteAddr().String()
	dial, cancel := context.WithTimeout(ctx, DialWithin)
	server, err := t.o.Dial(dial)
	cancel()
	if err != nil {
		count.Refused.Add(1)
		t.Tell(name, fmt.Sprintf("%s: closed: the Redis cannot be reached: %v", from, err))
		return
	}
	c := newConn(t, name, count, client, server)
	defer c.Kill()
	if !t.Enter(c) {
		return
	}
	count.Total.Add(1)
	t.Tell(name, from+": connected")
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.down()
		c.Kill()
	}()
	c.up()
	<-done
	t.Leave(c)
	for _, a := range c.holds {
		t.Release(a, c)
	}
	t.Tell(name, from+": closed")
}

// killer is a connection, both its sides.
type killer interface{ Kill() }

func (t *Tap) Enter(c killer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.conns[c] = true
	}
	return !t.closed
}

func (t *Tap) Leave(c killer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

func (t *Tap) Tell(name, text string) {
	if t.o.Notify != nil {
		t.o.Notify(name, text)
	}
}

// Close ends all faults, listeners and connections, and waits for them. It may be called again.
func (t *Tap) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, a := range t.faults {
		t.end(a, "the proxy ended")
	}
	for c := range t.conns {
		c.Kill()
	}
	var errs []error
	for _, l := range t.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, stop := range t.stops {
		stop()
	}
	t.mu.Unlock()
	t.wg.Wait()
	return errors.Join(errs...)
}
