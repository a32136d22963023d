package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/proxies/toxi"
	"github.com/lockdrill/lockdrill/stores"
)

// ProxyOptions of OpenProxies.
type ProxyOptions struct {
	Mode     experiments.ProxyMode         // embedded (or "") or external
	URL      string                        // external: of the server's API, http://host:8474
	Run      string                        // run id: part of every proxy's name
	Replicas []string                      // names: r1, r2 ...
	Upstream func(replica string) []string // host:port of each server that its ways lead to, as the Toxiproxy sees it
	Question endpoint.Question             // how the store is asked there
	Journal  *undo.Journal                 // a proxy on an external server is written down here before it is made; nil = nowhere
}

// Proxies are the replicas' ways to the locks' store: one Toxiproxy proxy for each replica's name and server of the store. They stay over
// restarts of the replica.
//
// A proxy is dialled on the host of the API's URL. Where that is an address, it must be one of the server's own machine, and the proxy
// listens there; where it is a name, such as that of a headless Service, what it leads to is not the server's to know, and the proxy
// listens on all its addresses. The upstream is dialled from there: a store on this machine's loopback is out of its reach.
type Proxies struct {
	Mode experiments.ProxyMode

	client   *toxi.Client
	server   *toxiServer // embedded
	journal  *undo.Journal
	replicas []string
	routes   map[string][]*proxyRoute
	mu       sync.Mutex
	closed   bool
}

type proxyRoute struct {
	undo.ProxyRoute
	addr   string // host:port to dial
	record int    // in the journal
	gone   bool
}

// ForeignError says that the server stands in another run's way.
type ForeignError struct{ URL, Proxy, Run string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("the Toxiproxy at %s carries %s, a proxy of run %s: wait for the end of that run, or undo what it left with lockdrill recover",
		e.URL, e.Proxy, e.Run)
}

// proxyPrefix begins the name of every proxy of ours: lockdrill-<run>-<replica>.
const proxyPrefix = "lockdrill-"

// passWithin bounds the first round trip through a new proxy.
const passWithin = 2 * time.Second

// OpenProxies makes a proxy for every replica and passes a first connection through each. On an error nothing is left behind. A
// *ForeignError: the server is used by another run.
func OpenProxies(ctx context.Context, o ProxyOptions) (_ *Proxies, err error) {
	p := &Proxies{Mode: o.Mode, journal: o.Journal, replicas: o.Replicas, routes: map[string][]*proxyRoute{}}
	if p.Mode == "" {
		p.Mode = experiments.ProxyEmbedded
	}
	api := strings.TrimSuffix(o.URL, "/")
	if p.Mode == experiments.ProxyEmbedded {
		p.journal = nil // what is in this process ends with it
		if p.server, err = startToxiServer(); err != nil {
			return nil, fmt.Errorf("open proxies: %w", err)
		}
		api = p.server.url
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open proxies: %w", stores.Abandon(ctx, err, p.Close))
		}
	}()
	u, err := url.Parse(api)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("proxy.url %q is not the address of an API", o.URL)
	}
	p.client = toxi.New(api)
	if err := p.refuseForeign(ctx, api, o.Run); err != nil {
		return nil, err
	}
	for _, r := range o.Replicas {
		for _, upstream := range o.Upstream(r) {
			if err := p.open(ctx, api, u.Hostname(), o, r, upstream); err != nil {
				return nil, fmt.Errorf("the way of %s: %w", r, err)
			}
		}
	}
	return p, nil
}

// refuseForeign looks for proxies of other runs.
func (p *Proxies) refuseForeign(ctx context.Context, api, run string) error {
	all, err := p.client.Proxies(ctx)
	if err != nil {
		return fmt.Errorf("ask the Toxiproxy at %s: %w", api, err)
	}
	for name := range all {
		rest, ours := strings.CutPrefix(name, proxyPrefix)
		if i := strings.LastIndexByte(rest, '-'); ours && i > 0 && rest[:i] != run {
			return &ForeignError{api, name, rest[:i]}
		}
	}
	return nil
}

func (p *Proxies) open(ctx context.Context, api, host string, o ProxyOptions, replica, upstream string) error {
	name := proxyPrefix + o.Run + "-" + replica
	if n := len(p.routes[replica]); n > 0 {
		name += fmt.Sprintf(".%d", n+1)
	}
	w := &proxyRoute{ProxyRoute: undo.ProxyRoute{API: api, Proxy: name, Listen: net.JoinHostPort(listenOn(host), "0")}}
	if p.server != nil {
		w.Own = os.Getpid()
	}
	record := func() undo.Record { return undo.Record{Kind: undo.StandRoute, Route: &w.ProxyRoute} }
	var err error
	if w.record, err = p.journal.Intend(record()); err != nil {
		return err
	}
	p.routes[replica] = append(p.routes[replica], w)
	made, err := p.client.Create(ctx, toxi.Proxy{Name: w.Proxy, Listen: w.Listen, Upstream: upstream, Enabled: true})
	if err != nil {
		return err
	}
	w.Listen = made.Listen
	_, port, err := net.SplitHostPort(made.Listen)
	if err != nil {
		return fmt.Errorf("it listens on %q: %w", made.Listen, err)
	}
	w.addr = net.JoinHostPort(host, port)
	if err := p.journal.Done(w.record, record()); err != nil {
		return err
	}
	if err := passes(ctx, o.Question, w.addr); err != nil {
		return fmt.Errorf("no answer through %s from %s: is that an address of the Toxiproxy's own machine, or a name that leads to it on every port (in a cluster a headless Service), and can it reach the store? %w", w.addr, upstream, err)
	}
	return nil
}

// listenOn is where a server listens that is reached by host.
func listenOn(host string) string {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return host
	}
	return "0.0.0.0"
}

// passes asks the store for any answer through addr: that it wants a password is one. It proves that somebody listens at both ends.
func passes(ctx context.Context, q endpoint.Question, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	conn, err := q.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	return q.Ask(conn, bufio.NewReader(conn), 0)
}

// Addrs is where a replica finds the servers of the locks' store, host:port; none = there is no such replica.
func (p *Proxies) Addrs(replica string) (addrs []string) {
	for _, w := range p.routes[replica] {
		addrs = append(addrs, w.addr)
	}
	return addrs
}

// Routes are what a fault of the network changes: the replica's proxies.
func (p *Proxies) Routes(replica string) (all []undo.ProxyRoute) {
	for _, w := range p.routes[replica] {
		all = append(all, w.ProxyRoute)
	}
	return all
}

// Close removes our proxies, verifies that they are gone, and ends an embedded server, within ctx even where a proxy hangs. It may
// be called again, and then tries what is left. A nil *Proxies has nothing to close.
func (p *Proxies) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.server != nil {
		var addrs []string
		for _, r := range p.replicas {
			addrs = append(addrs, p.Addrs(r)...)
		}
		err := p.server.close(ctx, addrs)
		p.closed = err == nil
		return err
	}
	var errs []error
	for _, r := range p.replicas {
		for _, w := range p.routes[r] {
			if w.gone {
				continue
			}
			if err := p.drop(ctx, w); err != nil {
				errs = append(errs, fmt.Errorf("close the way of %s: %w", r, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (p *Proxies) drop(ctx context.Context, w *proxyRoute) error {
	early := p.journal.Mark(w.record, undo.UndoIntent, "")
	if err := p.client.Drop(ctx, w.Proxy); err != nil {
		return errors.Join(err, p.journal.Mark(w.record, undo.Dirty, err.Error()))
	}
	w.gone = true
	return errors.Join(early, p.journal.Mark(w.record, undo.Undone, ""))
}

// EndRoute removes a proxy that a run has made on an external server.
func EndRoute(ctx context.Context, r undo.Record) error {
	if r.Route == nil {
		return errors.New("the record names no way")
	}
	return toxi.New(r.Route.API).Drop(ctx, r.Route.Proxy)
}
