// Package apiproxy stands between clients and a Kubernetes API server, and makes the server slow, away, refuse writes, or lose one answer,
// for all clients or for those of some addresses. It passes TLS through; only to refuse writes or to lose an answer it must end it, with a
// certificate that it is given.
//
// Its one invariant: every fault ends by itself, whoever has set it off.
package apiproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// What a fault does.
const (
	Slow         = "slow"          // what clients send arrives late
	RefuseWrites = "refuse_writes" // requests that change something are answered with 503
	LoseReply    = "lose_reply"    // one write is carried out, and its answer does not come
	Away         = "away"          // connections are reset, and so are new ones
)

// Options say where a proxy stands.
type Options struct {
	Upstream string      // host:port of the API server
	Server   *tls.Config // with it the proxy ends TLS itself; nil = TLS passes through
	Client   *tls.Config // with Server: how it speaks to the API server

	// Written, with Server, says what a POST or PUT with this path and body writes, in words of Fault.Of; "" = nothing of which a fault knows.
	Written func(path string, body []byte) string
	Notify  func(format string, args ...any)
}

// Fault is one fault of the proxy, until For is over or it is ended.
type Fault struct {
	ID    string
	Do    string
	Delay time.Duration // of slow
	Of    string        // of lose_reply: what is written
	For   time.Duration
	From  []string // IP addresses of clients; none = all
}

// Status is a fault and how far it has come.
type Status struct {
	Fault
	Armed time.Time
	Hits  int64      // pieces that were delayed, writes that were refused, answers that were lost, connections that were reset
	Ended *time.Time // nil = it is in effect
	Why   string     // it ended
}

// armed is a fault in effect.
type armed struct {
	Status
	over  chan struct{} // closed at its end
	timer *time.Timer
	taken bool // of lose_reply: it waits for an answer, or has lost it
}

// Proxy carries connections. Close ends it.
type Proxy struct {
	o      Options
	server *http.Server
	queue  *listener // of connections whose TLS ends here

	carrying sync.WaitGroup
	mu       sync.Mutex
	faults   []*armed // the latest last
	conns    map[*conn]bool
	sources  map[string]int64 // connections so far, by client's address
	open     []net.Listener
	closed   bool
}

// mostKept bounds the faults that are remembered.
const mostKept = 100

// Errors of requests.
var (
	ErrUsed   = errors.New("there is a fault of that id")
	ErrNoTLS  = errors.New("refuse_writes and lose_reply need a proxy that ends TLS itself: start it with --cert and --key")
	ErrClosed = errors.New("the proxy is closed")
)

// New makes a proxy that listens nowhere yet.
func New(o Options) *Proxy {
	if o.Notify == nil {
		o.Notify = func(string, ...any) {}
	}
	p := &Proxy{o: o, conns: map[*conn]bool{}, sources: map[string]int64{}}
	if o.Server != nil {
		p.queue = &listener{conns: make(chan net.Conn), over: make(chan struct{})}
		to := &url.URL{Scheme: "https", Host: o.Upstream}
		p.server = &http.Server{
			TLSConfig: o.Server, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 30 * time.Second,
			Handler: p.refusing(p.losing(&httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
				Transport: &http.Transport{TLSClientConfig: o.Client, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100},
			})),
		}
		p.carrying.Go(func() { _ = p.server.ServeTLS(p.queue, "", "") })
	}
	return p
}

// Listen accepts clients at host:port, and returns where.
func (p *Proxy) Listen(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", errors.Join(ErrClosed, l.Close())
	}
	p.open = append(p.open, l)
	p.carrying.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.take(c.(*net.TCPConn))
		}
	})
	return l.Addr().String(), nil
}

// Close ends all connections and faults.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.open {
		_ = l.Close()
	}
	for _, f := range p.faults {
		p.end(f, "the proxy was ended")
	}
	for c := range p.conns {
		c.reset()
	}
	p.mu.Unlock()
	if p.server != nil {
		close(p.queue.over)
		_ = p.server.Close()
	}
	p.carrying.Wait()
	return nil
}

// take begins to carry a connection, or resets it.
func (p *Proxy) take(client *net.TCPConn) {
	c := p.newConn(client)
	p.mu.Lock()
	p.sources[c.from]++
	f := p.inEffect(Away, c.from)
	if f != nil {
		f.Hits++
	}
	if f != nil || p.closed {
		p.mu.Unlock()
		c.reset()
		return
	}
	p.conns[c] = true
	p.mu.Unlock()
	p.o.Notify("connection from %s", c.from)
	p.carrying.Go(c.pump)
	if p.queue != nil {
		p.carrying.Go(func() { p.queue.add(c) })
		return
	}
	p.carrying.Go(func() { p.carry(c) })
}

// dialWithin bounds reaching the API server.
const dialWithin = 10 * time.Second

// carry passes a connection through as it is.
func (p *Proxy) carry(c *conn) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
	defer cancel()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.o.Upstream)
	if err != nil {
		p.o.Notify("the API server %s cannot be reached: %v", p.o.Upstream, err)
		return
	}
	defer to.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(c.TCPConn, to)
		_, _ = c.Close(), to.Close()
	}()
	_, _ = io.Copy(to, onlyReader{c})
	_ = to.Close()
	<-back
}

// onlyReader keeps io.Copy from reading past the delays.
type onlyReader struct{ io.Reader }

// refusing answers writes itself where a fault says so.
func (p *Proxy) refusing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions || !p.hit(RefuseWrites, from) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no writes (lockdrill)","reason":"ServiceUnavailable","code":503}`)
	})
}

// inEffect is the latest fault that does this to clients of that address; nil = none. The caller holds mu.
func (p *Proxy) inEffect(do, from string) *armed {
	for _, f := range slices.Backward(p.faults) {
		if f.Ended == nil && f.Do == do && (len(f.From) == 0 || slices.Contains(f.From, from)) {
			return f
		}
	}
	return nil
}

// hit counts, and reports whether such a fault is in effect.
func (p *Proxy) hit(do, from string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.inEffect(do, from)
	if f == nil {
		return false
	}
	f.Hits++
	return true
}

// Arm begins a fault.
func (p *Proxy) Arm(f Fault) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return ErrClosed
	case (f.Do == RefuseWrites || f.Do == LoseReply) && p.server == nil:
		return ErrNoTLS
	case slices.ContainsFunc(p.faults, func(o *armed) bool { return o.ID == f.ID }):
		return ErrUsed
	}
	a := &armed{Status: Status{Fault: f, Armed: time.Now().UTC()}, over: make(chan struct{})}
	a.timer = time.AfterFunc(f.For, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.end(a, "its time was over")
	})
	if p.faults = append(p.faults, a); len(p.faults) > mostKept {
		if i := slices.IndexFunc(p.faults, func(o *armed) bool { return o.Ended != nil }); i >= 0 {
			p.faults = slices.Delete(p.faults, i, i+1)
		}
	}
	if f.Do == Away {
		for c := range p.conns {
			if len(f.From) == 0 || slices.Contains(f.From, c.from) {
				a.Hits++
				c.reset()
			}
		}
	}
	p.o.Notify("fault %s: %s for %s", f.ID, f.Do, f.For)
	return nil
}

// End ends a fault early; ok is false where there is none of that id.
func (p *Proxy) End(id, why string) (s Status, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.ID == id {
			p.end(f, why)
			return f.Status, true
		}
	}
	return s, false
}

// end is End; the caller holds mu.
func (p *Proxy) end(f *armed, why string) {
	if f.Ended != nil {
		return
	}
	now := time.Now().UTC()
	f.Ended, f.Why = &now, why
	f.timer.Stop()
	close(f.over)
	p.o.Notify("fault %s has ended: %s", f.ID, why)
}

// Faults are those in effect and the last that ended.
func (p *Proxy) Faults() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, len(p.faults))
	for i, f := range p.faults {
		all[i] = f.Status
	}
	return all
}

// Sources counts the connections so far by the addresses of clients, and says whether TLS ends here.
func (p *Proxy) Sources() (all map[string]int64, ends bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = map[string]int64{}
	for from, n := range p.sources {
		all[from] = n
	}
	return all, p.server != nil
}
