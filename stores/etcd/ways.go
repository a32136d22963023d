package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// Ways let clients of an etcd come through a tap, in HTTP/2 without TLS. They pass on calls and streams as they are, each connection of
// a client over one to the server of its own, and read only those calls that locks are made of. A fault holds the call that it strikes:
// other calls on the connection go on.
type Ways struct {
	t     *tap.Tap
	locks etcdLocks
}

// NewWays returns the ways through t, which end with it.
func NewWays(t *tap.Tap) *Ways {
	return &Ways{t: t, locks: etcdLocks{keys: map[string]etcdKey{}, leases: map[int64]string{}}}
}

// Listen serves clients on loopback under a name that faults may be aimed at: one listener for each of the servers, host:port. It returns
// the addresses that it listens at, in the same order.
func (e *Ways) Listen(name string, servers []string) (addrs []string, err error) {
	count, err := e.t.TakeName(name)
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		addr, err := e.t.Serve("127.0.0.1:0", func(ctx context.Context, client net.Conn) { e.serve(ctx, client, server, name, count) })
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// manyStreams are the calls that may be open at once on a connection; etcd itself sets no bound.
const manyStreams = 1 << 20

// serve owns one connection: when either side of it ends, so does the other.
func (e *Ways) serve(ctx context.Context, client net.Conn, addr, name string, count *tap.Counters) {
	from, plain := client.RemoteAddr().String(), new(http.Protocols)
	plain.SetUnencryptedHTTP2(true)
	link := &etcdLink{Conn: client, ended: make(chan struct{})}
	defer link.Kill()
	to := &http.Transport{Protocols: plain, DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return etcdServer{conn, link}, nil
	}}
	dial, cancel := context.WithTimeout(ctx, tap.DialWithin)
	server, err := to.NewClientConn(dial, "http", addr)
	cancel()
	if err != nil {
		count.Refused.Add(1)
		e.t.Tell(name, fmt.Sprintf("%s: closed: the etcd cannot be reached: %v", from, err))
		return
	}
	defer server.Close()
	if !e.t.Enter(link) {
		return
	}
	defer e.t.Leave(link)
	count.Total.Add(1)
	e.t.Tell(name, from+": connected")
	one := &http.Server{
		Protocols: plain, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: manyStreams}, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := &etcdCall{e: e, name: name, count: count, path: r.URL.Path, gone: make(chan struct{})}
			c.pass(w, r, server)
		}),
	}
	_ = one.Serve(link) // until the connection has ended
	e.t.Tell(name, from+": closed")
}

// etcdLink is a client's connection, and a listener that accepts it alone.
type etcdLink struct {
	net.Conn
	accepted bool
	once     sync.Once
	ended    chan struct{}
}

func (l *etcdLink) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

func (l *etcdLink) Addr() net.Addr { return l.LocalAddr() }

func (l *etcdLink) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Conn.Close()
}

func (l *etcdLink) Kill() { _ = l.Close() }

// etcdServer is the connection to the server, whose end is that of the client's.
type etcdServer struct {
	net.Conn
	client *etcdLink
}

func (s etcdServer) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil {
		s.client.Kill()
	}
	return n, err
}

// etcdCall is one call on its way: one request and its answer, or a stream of both.
type etcdCall struct {
	e     *Ways
	name  string
	count *tap.Counters
	path  string
	hangs atomic.Bool
	once  sync.Once
	gone  chan struct{}             // closed by cut, where the call hangs
	stop  context.CancelFunc        // of the part of the call that goes to the server
	made  atomic.Pointer[tap.Armed] // the fault that it was made to fail by

	mu    sync.Mutex
	over  bool
	holds []*tap.Armed
	heard []func(answer []byte) // what is to be learned from the answers that come next, in order
}

func (c *etcdCall) Cut() {
	if c.hangs.Load() {
		c.once.Do(func() {
			close(c.gone)
			c.stop()
		})
	}
}

// pass passes the call on, both ways, until it is over.
func (c *etcdCall) pass(w http.ResponseWriter, r *http.Request, server *http.ClientConn) {
	defer c.giveBack()
	ctx := context.WithoutCancel(r.Context())
	ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	defer context.AfterFunc(r.Context(), func() {
		if !c.hangs.Load() { // else the server carries out what it was sent, although nobody waits
			c.stop()
		}
	})()
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", r.Host, ""
	out.Body = &etcdRequests{frames: frames{from: r.Body, look: c.request(r.Context())}, c: c, Closer: r.Body}
	begun := false
	answer, err := server.RoundTrip(out)
	if err == nil {
		defer answer.Body.Close()
		begun, err = c.answers(w, answer)
	}
	switch {
	case c.made.Load() != nil:
		end(w, begun, exhausted, fmt.Sprintf("made to fail by %s (lockdrill)", c.made.Load().ID))
	case c.hangs.Load(): // its client learns nothing any more, until the fault ends
		select {
		case <-c.gone:
		case <-r.Context().Done():
		}
		end(w, begun, unavailable, "the answer did not come (lockdrill)")
	case err != nil:
		panic(http.ErrAbortHandler) // the stream is reset, as that of the server was
	default:
		for name, values := range answer.Trailer {
			w.Header()[http.TrailerPrefix+name] = values
		}
	}
}

// errNotSent ends a call before one of its requests.
var errNotSent = errors.New("not sent on")

// etcdRequests are those of a call. A client that has given up ends them, but does not take back what hangs.
type etcdRequests struct {
	frames
	io.Closer
	c *etcdCall
}

func (r *etcdRequests) Read(b []byte) (int, error) {
	n, err := r.frames.Read(b)
	if err != nil && !errors.Is(err, errNotSent) && r.c.hangs.Load() {
		err = io.EOF
	}
	return n, err
}

// Statuses of gRPC that calls are ended with. etcd says exhausted of what it has refused for being busy, and clients do not send that again
// by themselves, as they do what is unavailable.
const (
	exhausted   = 8
	unavailable = 14
)

// end answers with a status of gRPC that is not the server's: alone, or behind the answers that have been sent.
func end(w http.ResponseWriter, begun bool, code int, text string) {
	prefix := ""
	if begun {
		prefix = http.TrailerPrefix
	} else {
		w.Header().Set("Content-Type", "application/grpc")
	}
	w.Header().Set(prefix+"Grpc-Status", strconv.Itoa(code))
	w.Header().Set(prefix+"Grpc-Message", text)
}

// answers passes on what the server says, unless the call hangs. The head goes with the first of it: a status alone is all head.
func (c *etcdCall) answers(w http.ResponseWriter, answer *http.Response) (begun bool, err error) {
	in := &frames{from: answer.Body, look: c.answer}
	buf := make([]byte, tap.FirstBuffer)
	for {
		n, err := in.Read(buf)
		if c.hangs.Load() {
			_, _ = io.Copy(io.Discard, in)
			return begun, err
		}
		if !begun && (n > 0 || err == io.EOF) {
			for name, values := range answer.Header {
				w.Header()[name] = values
			}
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return begun, err
			}
			begun = true
			w.(http.Flusher).Flush()
		}
		if err == io.EOF {
			return begun, nil
		}
		if err != nil {
			return begun, err
		}
	}
}

// request returns what looks at each request before it is sent on. left is the client's own patience.
func (c *etcdCall) request(left context.Context) func(message []byte) error {
	return func(message []byte) error {
		o, learn := c.e.locks.recognize(c.path, message)
		c.count.Seen(o.Op)
		if o.Op != "" {
			if a := c.e.t.Strike(c.name, c, &o); a != nil {
				if err := c.fail(left, a); err != nil {
					return err
				}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heard = append(c.heard, learn)
		return nil
	}
}

// refusedWithin is for how long the stream of a keepalive that was refused goes on without it: a client sends the keepalives of all its
// leases on one stream, and those of the others are to be answered before an error ends it.
const refusedWithin = 50 * time.Millisecond

// fail lets the fault have a request; an error = it is not sent on.
func (c *etcdCall) fail(left context.Context, a *tap.Armed) error {
	switch a.Mode {
	case burst.Error:
		c.made.Store(a)
		if c.path != keepAlive {
			return errNotSent
		}
		time.AfterFunc(refusedWithin, c.stop)
		return errLeftOut
	case burst.Delay:
		defer c.e.t.Release(a, c)
		timer := time.NewTimer(a.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-a.Over:
		case <-left.Done():
			return errNotSent
		}
		return nil
	}
	c.hold(a)
	if a.Mode == burst.LostReply {
		return nil
	}
	select {
	case <-c.gone:
	case <-left.Done():
	}
	return errNotSent
}

// hold notes that the fault has the call until it ends. A fault that has ended meanwhile does not.
func (c *etcdCall) hold(a *tap.Armed) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.holds = append(c.holds, a)
	}
	c.mu.Unlock()
	if over {
		c.e.t.Release(a, c)
		return
	}
	c.hangs.Store(true)
	select {
	case <-a.Over:
		c.Cut()
	default:
	}
}

// giveBack ends what faults hold of the call.
func (c *etcdCall) giveBack() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for _, a := range c.holds {
		c.e.t.Release(a, c)
	}
}

func (c *etcdCall) answer(message []byte) error {
	c.mu.Lock()
	var learn func([]byte)
	if len(c.heard) > 0 {
		learn, c.heard = c.heard[0], c.heard[1:]
	}
	c.mu.Unlock()
	if learn != nil {
		learn(message)
	}
	return nil
}
