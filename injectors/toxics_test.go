package injectors

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxitest"
	"github.com/lockdrill/lockdrill/proxies/toxi"
)

// ways puts a Toxiproxy between a store, which is asked so, and r1 and r2.
func (w *world) ways(o testbed.ProxyOptions, store string, q endpoint.Question) {
	w.Helper()
	o.Run, o.Replicas, o.Upstream, o.Question = "test", []string{"r1", "r2"}, func(string) []string { return []string{store} }, q
	var err error
	if w.proxies, err = testbed.OpenProxies(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.proxies.Close(ctx); err != nil && o.URL == "" {
			w.Error(err)
		}
	})
	w.redis, w.Replicas, w.Routes, w.Question, w.lasts = store, o.Replicas, w.proxies.Routes, q, 2*time.Second
}

// wayed is a world with ways to a Redis.
func wayed(t *testing.T, o testbed.ProxyOptions) *world {
	w := newWorld(t)
	w.ways(o, redistest.Start(t), endpoint.AskRedis(endpoint.Access{}))
	return w
}

// network is r1, which renews over its way to a store, and a look at the ways: whether that of r1 is struck, or does not work.
func (w *world) network(store string, q endpoint.Question) {
	w.ways(testbed.ProxyOptions{}, store, q)
	addr := w.proxies.Addrs("r1")[0]
	w.beat("r1", addr)
	w.lasts = 20 * time.Second // of which it takes as many as show the fault: of a jitter, several operations, which are late by chance
	w.look = func() bool {
		if p := w.proxy("r2"); len(p.Toxics) != 0 || !p.Enabled {
			w.Errorf("the way of r2 was struck: %+v", p)
		}
		if p := w.proxy("r1"); len(p.Toxics) != 0 || !p.Enabled {
			return true
		}
		ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
		defer cancel()
		_, err := pinged(1, false)(ctx, (&Hit{Reach: w.Reach}).question(), addr, 0)
		return err != nil
	}
}

// beat makes a victim that asks the store at addr again and again, as a replica does that renews, until the test is over.
func (w *world) beat(name, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	w.Cleanup(func() { cancel(); wg.Wait() })
	_ = w.add(history.Event{Kind: history.ReplicaStart, Source: "runner", Replica: &history.Replica{Name: name, Incarnation: name + ".1", PID: syscall.Getpgrp()}})
	wg.Go(func() {
		var conn net.Conn
		n := 0
		for range poll.Every(ctx, 10*time.Millisecond) {
			e := history.Event{Kind: history.RenewInvoke, Span: history.At(monotime.Now()), Source: name + ".1", Op: string(rune('a' + n%26)), Call: &history.Call{}}
			_ = w.add(e)
			e.Kind, e.Outcome, e.Call = history.RenewReturn, history.OK, &history.Call{Result: history.ResultRenewed}
			var err error
			if conn, err = renew(ctx, (&Hit{Reach: w.Reach}).question(), conn, addr); err != nil {
				e.Outcome, e.Call = history.Unknown, &history.Call{Result: history.ResultError}
			}
			e.To = monotime.Now() // the effect lies anywhere within the call
			_ = w.add(e)
			n++
		}
		if conn != nil {
			_ = conn.Close()
		}
	})
}

// renew is one question, within a second, on the connection or a new one; it closes what is broken.
func renew(ctx context.Context, q endpoint.Question, conn net.Conn, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if conn == nil {
		var err error
		if conn, err = q.Dial(ctx, addr); err != nil {
			return nil, err
		}
	}
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if err := q.Ask(conn, bufio.NewReader(conn), 0); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func (w *world) proxy(name string) toxi.Proxy {
	w.Helper()
	route := w.proxies.Routes(name)[0]
	p, err := toxi.New(route.API).Current(w.Context(), route.Proxy)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// injected is a fault that is made, and not seen yet.
func (w *world) injected(f fault.Spec) (*struck, history.Span) {
	w.Helper()
	s := w.prepare(f)
	applied, err := s.Inject(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s, applied
}

// networks are the faults of the network.
func networks() (all []tried) {
	r1 := fault.Aim{Replica: "r1"}
	for name, f := range map[string]fault.Spec{
		"latency":             &fault.Latency{Aim: r1, Add: 40 * time.Millisecond, Stream: fault.StreamBoth},
		"latency with jitter": &fault.Latency{Aim: r1, Add: 60 * time.Millisecond, Jitter: 20 * time.Millisecond, Stream: fault.StreamDown},
		"jitter":              &fault.Jitter{Aim: r1, By: 300 * time.Millisecond, Stream: fault.StreamUp}, // a busy machine adds 100 ms of its own
		"bandwidth":           &fault.Bandwidth{Aim: r1, Rate: 50, Stream: fault.StreamBoth},
		"slices":              &fault.Slices{Aim: r1, Size: 100, Delay: 10 * time.Millisecond, Stream: fault.StreamBoth},
		"limit data":          &fault.LimitData{Aim: r1, Bytes: 5000, Stream: fault.StreamBoth},
		"slow close":          &fault.SlowClose{Aim: r1, Delay: 100 * time.Millisecond, Stream: fault.StreamDown},
		"black hole":          &fault.Cut{How: fault.Hole, Aim: r1},
		"reset":               &fault.Cut{How: fault.Reset, Aim: r1},
		"down":                &fault.Cut{How: fault.Down, Aim: r1},
	} {
		all = append(all, tried{name, f, func(w *world) { w.network(redistest.Start(w), endpoint.AskRedis(endpoint.Access{})) }})
	}
	return all
}

// The fault is on the way, and the victim goes round it: its operations, or its sockets, give that away.
func TestAClientThatGoesRoundTheProxyIsVoid(t *testing.T) {
	for _, c := range networks() {
		t.Run(c.name, func(t *testing.T) {
			w := wayed(t, testbed.ProxyOptions{})
			w.beat("r1", w.redis)
			s, applied := w.injected(c.spec)
			if _, _, err := s.confirm(applied); voidOf(err) != "unconfirmed" {
				t.Errorf("%v, want a void shot", err)
			}
			if _, err := s.Revert(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFaultThatNobodyFeelsIsVoid(t *testing.T) {
	s, applied := wayed(t, testbed.ProxyOptions{}).injected(&fault.Cut{How: fault.Hole})
	if len(s.Rec.Routes) != 2 {
		t.Errorf("aimed at all, and struck %d ways of 2", len(s.Rec.Routes))
	}
	if _, _, err := s.confirm(applied); voidOf(err) != "unconfirmed" {
		t.Errorf("%v, want a void shot", err)
	}
}

// Somebody else ends the fault: before it is confirmed it is void, afterwards nobody knows for how long it was on.
func TestAFaultThatEndsBeforeItsTime(t *testing.T) {
	latency := &fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 50 * time.Millisecond, Stream: fault.StreamDown}
	w := wayed(t, testbed.ProxyOptions{})
	w.beat("r1", w.proxies.Addrs("r1")[0])
	remove := func(s *struck) {
		r := s.Rec.Routes[0]
		if err := toxi.New(r.API).Remove(t.Context(), r.Proxy, r.Toxics[0]); err != nil {
			t.Fatal(err)
		}
	}
	s, applied := w.injected(latency)
	remove(s)
	if _, _, err := s.confirm(applied); voidOf(err) != "unconfirmed" {
		t.Errorf("%v, want a void shot", err)
	}
	if _, err := s.Revert(t.Context()); err != nil {
		t.Errorf("nothing is left of a void shot: %v", err)
	}

	s, applied = w.injected(latency)
	if _, _, err := s.confirm(applied); err != nil {
		t.Fatal(err)
	}
	remove(s)
	if _, err := s.Revert(t.Context()); err == nil || !strings.Contains(err.Error(), "how long") {
		t.Errorf("%v: somebody else ended the fault, and that is not said", err)
	}
	if _, err := s.Revert(t.Context()); err != nil {
		t.Errorf("nothing is left: %v", err)
	}
}

// A latency toxic and a client that stops reading with its buffers full: Shopify/toxiproxy#558. The server hangs for ever.
func TestTheKnownDeadlockIsSurvived(t *testing.T) {
	for _, mode := range []string{"embedded", "external"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel() // the server that hangs is waited for
			o := testbed.ProxyOptions{}
			if mode == "external" {
				o.Mode, o.URL = experiments.ProxyExternal, toxitest.Start(t).URL
			}
			w := wayed(t, o)
			s, _ := w.injected(&fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 30 * time.Millisecond, Stream: fault.StreamDown})
			stuck := w.stopReading(w.proxies.Addrs("r1")[0])
			defer stuck.Close()

			start := time.Now()
			if _, err := s.Revert(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("reverted after %s", time.Since(start))
			if p := w.proxy("r1"); !strings.HasSuffix(p.Name, "~2") || len(p.Toxics) != 0 {
				t.Errorf("the deadlock was not provoked, or not passed by: %+v", p)
			}
			if err := s.elsewhere(); err != nil {
				t.Errorf("again, by the record alone: %v", err)
			}
			w.beat("r1", w.proxies.Addrs("r1")[0])
			s, applied := w.injected(&fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 30 * time.Millisecond, Stream: fault.StreamBoth})
			if _, _, err := s.confirm(applied); err != nil {
				t.Errorf("the way cannot be struck again: %v", err)
			}
			if _, err := s.Revert(t.Context()); err != nil {
				t.Error(err)
			}
			err := w.proxies.Close(t.Context())
			if mode == "embedded" && err != nil {
				t.Errorf("end the embedded server: %v", err)
			}
			if mode == "external" && (err == nil || !strings.Contains(err.Error(), "restart the Toxiproxy")) {
				t.Errorf("%v: a proxy that hangs is left, and that is not said", err)
			}
		})
	}
}

// stopReading asks for far more than all buffers hold and reads nothing, until no more comes through.
func (w *world) stopReading(addr string) net.Conn {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	client := w.client(undo.Store{Addr: w.redis}).WithTimeout(30 * time.Second) // as long as a busy machine takes for it
	if err := client.Set(ctx, "big", strings.Repeat("x", 16<<20), 0).Err(); err != nil {
		w.Fatal(err)
	}
	lazy, err := open(ctx, (&Hit{Reach: w.Reach}).question(), addr)
	if err != nil {
		w.Fatal(err)
	}
	if err := lazy.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		w.Fatal(err)
	}
	for range 8 {
		if _, err := lazy.Write([]byte("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n")); err != nil {
			w.Fatal(err)
		}
	}
	last, same := "", 0
	for range poll.Every(ctx, 100*time.Millisecond) {
		list, err := client.ClientList(ctx).Result()
		if err != nil {
			w.Fatal(err)
		}
		held := ""
		for line := range strings.Lines(list) {
			if i := strings.Index(line, " omem="); i >= 0 && !strings.Contains(line, " omem=0 ") {
				held = strings.Fields(line[i:])[0]
			}
		}
		if same++; held == "" || held != last {
			last, same = held, 0
		}
		if same == 10 { // the store cannot get rid of its answer any more
			return lazy
		}
	}
	w.Fatal("the buffers do not fill")
	return nil
}

func TestARestartedServerIsNotMistakenForAFault(t *testing.T) {
	server := toxitest.Start(t)
	w := wayed(t, testbed.ProxyOptions{Mode: experiments.ProxyExternal, URL: server.URL})
	w.beat("r1", w.proxies.Addrs("r1")[0])
	s, applied := w.injected(&fault.Cut{How: fault.Down, Aim: fault.Aim{Replica: "r1"}})
	server.Restart() // nobody listens on the way: as with the fault
	if _, _, err := s.confirm(applied); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("%v, want a void shot", err)
	}
	if err := s.elsewhere(); err != nil {
		t.Errorf("what is gone is undone: %v", err)
	}
}

func TestAServerThatIsGoneIsRevertedOnlyIfItWasTheRunners(t *testing.T) {
	w := undo.ProxyRoute{API: "http://127.0.0.1:1", // no port that others are given
		Proxy: "lockdrill-x-r1", Listen: "127.0.0.1:1", Toxics: []string{"lockdrill-x-r1-f.1-upstream"}}
	undone := func() error {
		return new(Reach).end(t.Context(), undo.Record{Kind: "latency", Shot: history.Event{Fault: &history.Fault{}}, Routes: []undo.ProxyRoute{w}})
	}
	err := undone()
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "curl -X DELETE") {
		t.Errorf("%v: nobody knows whether a server that does not answer still has the toxic, and how it is removed", err)
	}
	w.Own = os.Getpid()
	if err := undone(); err != nil {
		t.Errorf("the embedded server is gone: %v", err)
	}
}
