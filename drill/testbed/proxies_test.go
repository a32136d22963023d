package testbed

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/proxies/toxi"
	"github.com/lockdrill/lockdrill/stores"
)

func waysTo(store string) ProxyOptions {
	return ProxyOptions{Run: "20260101T000000.000Z-mine", Replicas: []string{"r1", "r2"}, Upstream: func(string) []string { return []string{store} },
		Question: endpoint.AskRedis(endpoint.Access{})}
}

func TestEmbeddedProxies(t *testing.T) {
	p, err := OpenProxies(t.Context(), waysTo(redistest.Start(t)))
	testkit.Must(t, err)
	if p.Addrs("r1")[0] == p.Addrs("r2")[0] || len(p.Addrs("r3")) > 0 || p.Mode != experiments.ProxyEmbedded {
		t.Errorf("ways of %s: %q, %q, %q", p.Mode, p.Addrs("r1")[0], p.Addrs("r2")[0], p.Addrs("r3"))
	}
	w := p.Routes("r1")[0]
	if w.Own == 0 || w.Proxy != "lockdrill-20260101T000000.000Z-mine-r1" || w.Listen != p.Addrs("r1")[0] {
		t.Errorf("the way of r1: %+v", w)
	}
	for range 2 {
		testkit.Must(t, p.Close(t.Context()))
	}
	for _, addr := range []string{p.Addrs("r1")[0], p.Addrs("r2")[0], strings.TrimPrefix(w.API, "http://")} {
		if stores.Accepts(t.Context(), addr) == nil {
			t.Errorf("somebody still listens on %s", addr)
		}
	}
}

func TestAWayThatLeadsNowhereIsNotOpened(t *testing.T) {
	_, err := OpenProxies(t.Context(), waysTo("127.0.0.1:1")) // no port that others are given
	if err == nil || !strings.Contains(err.Error(), "can it reach the store") {
		t.Errorf("%v, want the remedy", err)
	}
}

func TestProxiesOnAnExternalServer(t *testing.T) {
	server, ctx := toxitest.Start(t), t.Context()
	c := toxi.New(server.URL)
	store := redistest.Start(t)
	if _, err := c.Create(ctx, toxi.Proxy{Name: "theirs", Listen: "127.0.0.1:0", Upstream: store, Enabled: true}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), undo.File)
	journal, err := undo.Create(path, undo.Header{Run: "mine"})
	testkit.Must(t, err)
	o := waysTo(store)
	o.Mode, o.URL, o.Journal = experiments.ProxyExternal, server.URL+"/", journal
	p, err := OpenProxies(ctx, o)
	testkit.Must(t, err)
	if w := p.Routes("r1")[0]; w.Own != 0 {
		t.Errorf("the server is not ours: %+v", w)
	}
	if open := journal.Open(); len(open) != 2 {
		t.Errorf("%d records are open, want one for each proxy", len(open))
	}

	foreign := o
	foreign.Run, foreign.Journal = "20260101T000001.000Z-other", nil
	taken := new(ForeignError)
	if _, err := OpenProxies(ctx, foreign); !errors.As(err, &taken) || taken.Run != o.Run {
		t.Errorf("%v, want the run that uses the server", err)
	}

	for range 2 {
		testkit.Must(t, p.Close(ctx))
	}
	if all, err := c.Proxies(ctx); err != nil || len(all) != 1 || all["theirs"].Name == "" {
		t.Errorf("left on the server: %+v, %v", all, err)
	}
	if err := journal.Close(); err != nil {
		t.Errorf("the journal: %v", err)
	}
}

// By the name of a Service the server cannot know where it is reached: a way listens everywhere there, and is dialled by the name.
func TestAWayByAName(t *testing.T) {
	server, ctx := toxitest.Start(t), t.Context()
	c := toxi.New(server.URL)
	o := waysTo(redistest.Start(t))
	var dialled string
	o.Question.Dial = func(ctx context.Context, addr string) (net.Conn, error) { // what the name leads to
		dialled = addr
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	}
	p := &Proxies{Mode: experiments.ProxyExternal, client: c, replicas: o.Replicas, routes: map[string][]*proxyRoute{}}
	testkit.Must(t, p.open(ctx, server.URL, "lockdrill-toxiproxy.staging", o, "r1", o.Upstream("r1")[0]))
	if host, _, _ := net.SplitHostPort(dialled); host != "lockdrill-toxiproxy.staging" || p.Addrs("r1")[0] != dialled {
		t.Errorf("dialled %q, replicas are told %q", dialled, p.Addrs("r1")[0])
	}
	w := p.Routes("r1")[0]
	if host, _, err := net.SplitHostPort(w.Listen); err != nil || !netip.MustParseAddr(host).IsUnspecified() {
		t.Errorf("it listens on %s", w.Listen)
	}
	testkit.Must(t, p.Close(ctx))
	if all, err := c.Proxies(ctx); err != nil || len(all) != 0 {
		t.Errorf("left on the server: %+v, %v", all, err)
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost", "10.0.0.7"} {
		if got := listenOn(host); got != host {
			t.Errorf("reached by %s it listens on %s: on more than it was asked to", host, got)
		}
	}
}

// What another process does with the record of a runner that died.
func TestEndWay(t *testing.T) {
	server, ctx := toxitest.Start(t), t.Context()
	c := toxi.New(server.URL)
	for _, name := range []string{"lockdrill-a-r1", "lockdrill-a-r1~2", "lockdrill-a-r2"} {
		if _, err := c.Create(ctx, toxi.Proxy{Name: name, Listen: "127.0.0.1:0", Upstream: "127.0.0.1:1", Enabled: true}); err != nil {
			t.Fatal(err)
		}
	}
	r := undo.Record{Kind: undo.StandRoute, Route: &undo.ProxyRoute{API: server.URL, Proxy: "lockdrill-a-r1", Listen: "127.0.0.1:0"}}
	for range 2 {
		testkit.Must(t, EndRoute(ctx, r))
	}
	if all, err := c.Proxies(ctx); err != nil || len(all) != 1 || all["lockdrill-a-r2"].Name == "" {
		t.Errorf("left on the server: %+v, %v", all, err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := EndRoute(gone, r); err == nil {
		t.Error("a server that was not asked has nothing left")
	}
}
