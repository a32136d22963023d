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

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxi"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// newForeignStand is a proxy of somebody's own that carries a toxic of theirs, and r1, a client that asks over addr without end; "" = the
// proxy's. It claims nothing.
func newForeignStand(t *testing.T, api, redis, addr string) *stand {
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
	s := &stand{redis: redis, log: runner.NewLog(), lasts: 2 * time.Second}
	s.stepping = steps(nil, &Reach{
		Routes: func(string) []undo.ProxyRoute {
			return []undo.ProxyRoute{{API: api, Proxy: name, Theirs: true}}
		},
		Await: s.log.Await, Past: func() []history.Event { return s.log.Since(0) }, Clock: monotime.Now, Run: "test",
	})
	s.add(history.Event{Kind: history.ReplicaStart, Source: "runner", Replica: &history.Replica{Name: "r1", Incarnation: "r1.1", PID: client.Process.Pid}})
	return s
}

func (s *stand) theirs(t *testing.T) toxi.Proxy {
	t.Helper()
	w := s.Routes("")[0]
	p, err := toxi.New(w.API).Proxy(t.Context(), w.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// untouched checks that the proxy is as its owner made it.
func (s *stand) untouched(t *testing.T) {
	t.Helper()
	if p := s.theirs(t); !p.Enabled || p.Upstream != s.redis || len(p.Toxics) != 1 || p.Toxics[0].Name != "mine" {
		t.Errorf("their proxy is not as it was: %+v", p)
	}
}

// A proxy that is somebody's own carries each fault of the network, and is then as it was: its owner's toxic is still there, also when
// another process undoes the fault by its record.
func TestFaultsBefallAProxyOfSomebodysOwn(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	for name, f := range networkFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newForeignStand(t, server.URL, redis, "")
			f.(fault.Aimed).AimAt().Replica = "r1"
			rec, applied := s.strike(t, f)
			for _, toxic := range s.theirs(t).Toxics {
				if toxic.Name != "mine" && !strings.HasPrefix(toxic.Name, "lockdrill-test-f.1-") {
					t.Errorf("a toxic that does not name the run: %+v", toxic)
				}
			}
			_, saw, err := s.Confirm(t.Context(), rec, applied)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(saw.Detail, "r1: connected through the proxy") || saw.Observed < saw.Expected || saw.Baseline <= 0 {
				t.Errorf("seen %+v", saw)
			}
			if name == "down" || name == "latency both" {
				err = elsewhere(t.Context(), rec)
			} else {
				_, err = s.Revert(t.Context(), rec)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.untouched(t)
		})
	}
}

// Whoever goes round the proxy is not struck: by its sockets before the fault, and by a lease that is extended under a cut.
func TestAServiceThatGoesRoundItsProxyIsVoid(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	s := newForeignStand(t, server.URL, redis, redis)
	_, err := s.Prepare(t.Context(), s.shot(&fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}}))
	void := &voidError{}
	if !errors.As(err, &void) || void.word != history.Unconfirmed || !strings.Contains(err.Error(), "no connection of r1 to the proxy") {
		t.Errorf("a client that is connected elsewhere: %v", err)
	}
	s.untouched(t)

	t.Run("by another connection", func(t *testing.T) {
		s := newForeignStand(t, server.URL, redis, "")
		rec, applied := s.strike(t, &fault.Cut{How: fault.Hole, Aim: fault.Aim{All: true}})
		at := applied.To + int64(underWay)
		look := func(n, from, ttl int64) history.Event {
			return history.Event{N: n, Kind: history.LookKind, Span: history.At(from), Key: "k", Epoch: "e",
				Look: &history.Look{Present: true, PTTL: ttl, Holder: "r1.1", Prev: &history.Span{From: from - 1, To: from - 1}}}
		}
		s.add(look(1, at+2, int64(time.Second)))
		s.add(look(2, at+int64(200*time.Millisecond), int64(time.Second)))
		if _, _, err := s.Confirm(t.Context(), rec, applied); !errors.As(err, &void) || !strings.Contains(err.Error(), "the lease of k was extended under the fault") {
			t.Errorf("a lease that is extended under a cut: %v", err)
		}
		if _, err := s.Revert(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		s.untouched(t)
	})
}

// What another run has left on somebody's proxy keeps the next fault away.
func TestAProxyWithAnotherRunsToxicIsNotStruck(t *testing.T) {
	server, redis := toxitest.Start(t), redistest.Start(t)
	s := newForeignStand(t, server.URL, redis, "")
	w := s.Routes("")[0]
	left := toxi.Toxic{Name: "lockdrill-other-f.1-upstream", Type: "latency", Stream: "upstream", Toxicity: 1, Attributes: map[string]any{"latency": 1}}
	if err := toxi.New(w.API).Add(t.Context(), w.Proxy, left); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(t.Context(), s.shot(&fault.Cut{How: fault.Down})); err == nil || !strings.Contains(err.Error(), "a toxic of another run") {
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
	err := elsewhere(t.Context(), undo.Record{Kind: "latency", Shot: history.Event{Fault: &history.Fault{}}, Routes: []undo.ProxyRoute{
		{API: api.URL, Proxy: "redis", Listen: "127.0.0.1:1", Theirs: true, Toxics: []string{"lockdrill-test-f.1-upstream"}}}})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "curl -X DELETE") || others.Load() != 0 {
		t.Errorf("%v, and %d other calls", err, others.Load())
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
