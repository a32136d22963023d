package injectors

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// newForeignStand is a proxy of somebody's own that carries a toxic of theirs, and r1, a client that asks over addr without end; "" = the
// proxy's. It claims nothing.
func foreignWay(t *testing.T, api, redis, addr string) *world {
	t.Helper()
	ctx, name := t.Context(), strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	c := toxi.New(api)
	p, err := c.Create(ctx, toxi.Proxy{Name: name, Listen: "127.0.0.1:0", Upstream: redis, Enabled: true})
	if err == nil {
		err = c.Add(ctx, name, toxi.Toxic{Name: "mine", Type: "latency", Stream: "downstream", Toxicity: 1, Attributes: map[string]any{"latency": 1, "jitter": 0}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if addr == "" {
		addr = p.Listen
	}
	_, port, _ := net.SplitHostPort(addr)
	client := exec.Command("redis-cli", "-p", port, "-r", "-1", "-i", "0.01", "PING")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Process.Kill(); _ = client.Wait() })
	w := newWorld(t)
	w.redis, w.lasts = redis, 2*time.Second
	w.Routes = func(string) []undo.ProxyRoute { return []undo.ProxyRoute{{API: api, Proxy: name, Theirs: true}} }
	_ = w.add(history.Event{Kind: history.ReplicaStart, Source: "runner", Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: client.Process.Pid}})
	return w
}

func (w *world) theirs() toxi.Proxy {
	w.Helper()
	r := w.Routes("")[0]
	p, err := toxi.New(r.API).Proxy(w.Context(), r.Proxy)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// untouched checks that the proxy is as its owner made it.
func (w *world) untouched() {
	w.Helper()
	if p := w.theirs(); !p.Enabled || p.Upstream != w.redis || len(p.Toxics) != 1 || p.Toxics[0].Name != "mine" {
		w.Errorf("their proxy is not as it was: %+v", p)
	}
}

// A proxy that is somebody's own carries each fault of the network, and is then as it was: its owner's toxic is still there, also when
// another process undoes the fault by its record.
func TestFaultsBefallAProxyOfSomebodysOwn(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	for _, c := range networks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := foreignWay(t, server.URL, redis, "")
			s, applied := w.injected(c.spec)
			for _, toxic := range w.theirs().Toxics {
				if toxic.Name != "mine" && !strings.HasPrefix(toxic.Name, "lockdrill-test-x.1-") {
					t.Errorf("a toxic that does not name the run: %+v", toxic)
				}
			}
			_, saw, err := s.confirm(applied)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(saw.Detail, "r1: connected through the proxy") || saw.Observed < saw.Expected || saw.Baseline <= 0 {
				t.Errorf("seen %+v", saw)
			}
			if c.name == "down" || c.name == "latency" {
				err = s.elsewhere()
			} else {
				_, err = s.Revert(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			w.untouched()
		})
	}
}

// Whoever goes round the proxy is not struck: by its sockets before the fault, and by a lease that is extended under a cut.
func TestAServiceThatGoesRoundItsProxyIsVoid(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	hole := &fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}}
	w := foreignWay(t, server.URL, redis, redis)
	if _, err := w.prepared(hole); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), "no connection of r1 to the proxy") {
		t.Errorf("a client that is connected elsewhere: %v", err)
	}
	w.untouched()

	t.Run("by another connection", func(t *testing.T) {
		w := foreignWay(t, server.URL, redis, "")
		s, applied := w.injected(hole)
		at := applied.To + int64(underWay)
		look := func(from, ttl int64) history.Event {
			return history.Event{Kind: history.LookKind, Span: history.At(from), Key: "k", Epoch: "e",
				Look: &history.Look{Present: true, PTTL: ttl, Holder: "r1.1", Prev: &history.Span{From: from - 1, To: from - 1}}}
		}
		_ = w.add(look(at+2, int64(time.Second)))
		_ = w.add(look(at+int64(200*time.Millisecond), int64(time.Second)))
		if _, _, err := s.confirm(applied); voidOf(err) == "" || !strings.Contains(err.Error(), "the lease of k was extended under the fault") {
			t.Errorf("a lease that is extended under a cut: %v", err)
		}
		if _, err := s.Revert(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.untouched()
	})
}

// What another run has left on somebody's proxy keeps the next fault away.
func TestAProxyWithAnotherRunsToxicIsNotStruck(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	w := foreignWay(t, server.URL, redis, "")
	r := w.Routes("")[0]
	left := toxi.Toxic{Name: "lockdrill-other-f.1-upstream", Type: "latency", Stream: "upstream", Toxicity: 1, Attributes: map[string]any{"latency": 1}}
	if err := toxi.New(r.API).Add(t.Context(), r.Proxy, left); err != nil {
		t.Fatal(err)
	}
	if _, err := w.prepared(&fault.Cut{How: fault.Down}); err == nil || !strings.Contains(err.Error(), "a toxic of another run") {
		t.Errorf("%v", err)
	}
}

// Where a Toxiproxy hangs, somebody's proxy is neither disabled nor replaced: that is for its owner to do, and the record says how.
func TestAProxyOfSomebodysOwnIsNeverReplaced(t *testing.T) {
	var others atomic.Int32
	over := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"name":"redis","listen":"127.0.0.1:1","upstream":"127.0.0.1:2","enabled":true,"toxics":[{"name":"lockdrill-test-f.1-upstream"}]}`))
		case r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/toxics/lockdrill-test-f.1-upstream"):
			select {
			case <-over:
			case <-r.Context().Done():
			}
		default:
			others.Add(1)
		}
	}))
	defer api.Close()
	defer close(over)
	err := new(Reach).end(t.Context(), undo.Record{Kind: "latency", Shot: history.Event{Fault: &history.Fault{}}, Routes: []undo.ProxyRoute{
		{API: api.URL, Proxy: "redis", Listen: "127.0.0.1:1", Theirs: true, Toxics: []string{"lockdrill-test-f.1-upstream"}}}})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "curl -X DELETE") || others.Load() != 0 {
		t.Errorf("%v, and %d other calls", err, others.Load())
	}
}

// Asked after once its fault is undone, it is not enabled: whoever has disabled it since may not be the run.
func TestAProxyOfSomebodysOwnIsNotEnabledAgain(t *testing.T) {
	enabled, others := "false", 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			others++
		}
		_, _ = w.Write([]byte(`{"name":"redis","listen":"127.0.0.1:1","upstream":"127.0.0.1:2","enabled":` + enabled + `,"toxics":[]}`))
	}))
	defer api.Close()
	again := func() error {
		return (&Reach{Again: true}).end(t.Context(), undo.Record{Kind: "down", Shot: history.Event{Fault: &history.Fault{}},
			Routes: []undo.ProxyRoute{{API: api.URL, Proxy: "redis", Listen: "127.0.0.1:1", Theirs: true, Down: true}}})
	}
	if err := again(); !errors.Is(err, undo.ErrStill) || others != 0 {
		t.Errorf("%v, and %d changes", err, others)
	}
	if enabled = "true"; again() != nil {
		t.Errorf("enabled: %v", again())
	}
}

func TestAProxyListensWhereItSays(t *testing.T) {
	for _, c := range []struct{ api, listen, dialled, remote string }{
		{"http://127.0.0.1:8474", "127.0.0.1:6390", "127.0.0.1:6390", "127.0.0.1:6390"},
		{"http://localhost:8474", "[::]:6390", "localhost:6390", "127.0.0.1:6390"},
		{"http://127.0.0.1:8474", "10.1.2.3:6390", "10.1.2.3:6390", "10.1.2.3:6390"},
		{"http://10.1.2.3:8474", "0.0.0.0:6390", "10.1.2.3:6390", "10.1.2.3:6390"},
	} {
		w := undo.ProxyRoute{API: c.api, Listen: c.listen, Theirs: true}
		var ends []string
		for _, a := range listens(&w) {
			ends = append(ends, a.String())
		}
		if w.Addr() != c.dialled || !slices.Contains(ends, c.remote) || slices.Contains(ends, "10.9.9.9:6390") {
			t.Errorf("%s at %s: dialled at %s, reached at %v", c.listen, c.api, w.Addr(), ends)
		}
	}
}
