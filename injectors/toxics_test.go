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

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/internal/redistest"
	"github.com/lockdrill/lockdrill/internal/toxi"
	"github.com/lockdrill/lockdrill/internal/toxitest"
)

// net is a store, a way to it for r1 and r2, and r1, which renews without end over the address that it is given.
type stand struct {
	*stepping
	proxies *testbed.Proxies
	redis   string
	log     *runner.Log
	lasts   time.Duration // of a shot

	mu sync.Mutex
	n  int64 // events in the log, which are numbered as a recorder does it
}

func newStand(t *testing.T, o testbed.ProxyOptions) *stand {
	t.Helper()
	return newStandBefore(t, o, redistest.Start(t), endpoint.AskRedis(endpoint.Access{}))
}

func newStandBefore(t *testing.T, o testbed.ProxyOptions, store string, q endpoint.Question) *stand {
	t.Helper()
	s := &stand{redis: store, log: runner.NewLog(), lasts: 2 * time.Second}
	o.Question = q
	o.Run, o.Replicas, o.Upstream = "test", []string{"r1", "r2"}, func(string) []string { return []string{s.redis} }
	var err error
	if s.proxies, err = testbed.OpenProxies(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.proxies.Close(ctx); err != nil && o.URL == "" {
			t.Error(err)
		}
	})
	s.stepping = steps(nil, &Reach{
		Routes:   s.proxies.Routes,
		Replicas: o.Replicas,
		Await:    s.log.Await,
		Past:     func() []history.Event { return s.log.Since(0) },
		Clock:    monotime.Now,
		Question: q,
	})
	return s
}

// beat makes a victim that asks the store at addr again and again, as a replica does that renews, until the test is over.
func (s *stand) beat(t *testing.T, name, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	s.add(history.Event{Kind: history.ReplicaStart, Source: "runner", Replica: &history.Replica{Name: name, Incarnation: name + ".1", PID: syscall.Getpgrp()}})
	wg.Go(func() {
		var conn net.Conn
		for n := 0; ctx.Err() == nil; n++ {
			e := history.Event{Kind: history.RenewInvoke, Span: history.At(monotime.Now()), Source: name + ".1", Op: string(rune('a' + n%26)), Call: &history.Call{}}
			s.add(e)
			e.Kind, e.Outcome, e.Call = history.RenewReturn, history.OK, &history.Call{Result: history.ResultRenewed}
			var err error
			if conn, err = renew(ctx, (&Hit{Reach: s.Reach}).question(), conn, addr); err != nil {
				e.Outcome, e.Call = history.Unknown, &history.Call{Result: history.ResultError}
			}
			e.To = monotime.Now() // the effect lies anywhere within the call
			s.add(e)
			pause := time.NewTimer(10 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		if conn != nil {
			_ = conn.Close()
		}
	})
}

func (s *stand) add(e history.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	e.N = s.n
	s.log.Add([]history.Event{e})
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

// shot is a fault aimed at r1.
func (s *stand) shot(f fault.Spec) history.Event {
	s.spec = f
	return history.Event{N: 0, Op: "f#1", Fault: &history.Fault{ID: "f", Shot: 1, Kind: f.Kind(), Victim: "r1.1", Declared: int64(s.lasts)}}
}

// strike prepares and injects.
func (s *stand) strike(t *testing.T, f fault.Spec) (undo.Record, history.Span) {
	t.Helper()
	shot := s.shot(f)
	rec, err := s.Prepare(t.Context(), shot)
	if err != nil {
		t.Fatal(err)
	}
	rec.Kind, rec.Shot = f.Kind(), shot
	applied, err := s.Inject(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	return rec, applied
}

func (s *stand) proxy(t *testing.T, name string) toxi.Proxy {
	t.Helper()
	w := s.proxies.Routes(name)[0]
	p, err := toxi.New(w.API).Current(t.Context(), w.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func networkFaults() map[string]fault.Spec {
	r1 := fault.Aim{Replica: "r1"}
	return map[string]fault.Spec{
		"latency both":        &fault.Latency{Aim: r1, Add: 40 * time.Millisecond, Stream: fault.StreamBoth},
		"latency with jitter": &fault.Latency{Aim: r1, Add: 60 * time.Millisecond, Jitter: 20 * time.Millisecond, Stream: fault.StreamDown},
		"jitter":              &fault.Jitter{Aim: r1, By: 300 * time.Millisecond, Stream: fault.StreamUp}, // a busy machine adds 100 ms of its own
		"bandwidth":           &fault.Bandwidth{Aim: r1, Rate: 50, Stream: fault.StreamBoth},
		"slices":              &fault.Slices{Aim: r1, Size: 100, Delay: 10 * time.Millisecond, Stream: fault.StreamBoth},
		"slow close":          &fault.SlowClose{Aim: r1, Delay: 100 * time.Millisecond, Stream: fault.StreamDown},
		"black hole":          &fault.Cut{How: fault.Hole, Aim: r1},
		"reset":               &fault.Cut{How: fault.Reset, Aim: r1},
		"down":                &fault.Cut{How: fault.Down, Aim: r1},
	}
}

func TestFaultsOfTheNetworkAreFeltAndEnd(t *testing.T) {
	areFeltAndEnd(t, func(t *testing.T) *stand { return newStand(t, testbed.ProxyOptions{}) })
}

func areFeltAndEnd(t *testing.T, before func(t *testing.T) *stand) {
	for name, f := range networkFaults() {
		t.Run(name, func(t *testing.T) {
			s := before(t)
			s.lasts = 20 * time.Second // of which it takes as many as show the fault: of a jitter, several operations, which are late by chance
			s.beat(t, "r1", s.proxies.Addrs("r1")[0])
			rec, applied := s.strike(t, f)
			if p := s.proxy(t, "r2"); len(p.Toxics) != 0 || !p.Enabled {
				t.Errorf("the way of r2 was struck: %+v", p)
			}
			window, saw, err := s.Confirm(t.Context(), rec, applied)
			if err != nil {
				t.Fatal(err)
			}
			if window.From != applied.From || window.To < applied.To || !strings.Contains(saw.Detail, "r1") || saw.Observed < saw.Expected || saw.Baseline <= 0 {
				t.Errorf("window %v of %v, seen %+v", window, applied, saw)
			}
			if f.(fault.Network).Wire().Cut == "" && saw.Expected <= 0 {
				t.Errorf("nothing was expected: %+v", saw)
			}
			for range 2 { // it may be called again
				if _, err := s.Revert(t.Context(), rec); err != nil {
					t.Fatal(err)
				}
			}
			if p := s.proxy(t, "r1"); len(p.Toxics) != 0 || !p.Enabled {
				t.Errorf("left behind: %+v", p)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := pinged(1, false)(ctx, (&Hit{Reach: s.Reach}).question(), s.proxies.Addrs("r1")[0], 0); err != nil {
				t.Errorf("the way does not work again: %v", err)
			}
		})
	}
}

// The fault is on the way, and the victim goes round it: its operations, or its sockets, give that away.
func TestAClientThatGoesRoundTheProxyIsVoid(t *testing.T) {
	for name, f := range networkFaults() {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, testbed.ProxyOptions{})
			s.beat(t, "r1", s.redis)
			rec, applied := s.strike(t, f)
			if _, _, err := s.Confirm(t.Context(), rec, applied); voidOf(err) != "unconfirmed" {
				t.Errorf("%v, want a void shot", err)
			}
			if _, err := s.Revert(t.Context(), rec); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFaultThatNobodyFeelsIsVoid(t *testing.T) {
	s := newStand(t, testbed.ProxyOptions{})
	rec, applied := s.strike(t, &fault.Cut{How: fault.Hole})
	if len(rec.Routes) != 2 {
		t.Errorf("aimed at all, and struck %d ways of 2", len(rec.Routes))
	}
	if _, _, err := s.Confirm(t.Context(), rec, applied); voidOf(err) != "unconfirmed" {
		t.Errorf("%v, want a void shot", err)
	}
}

// Somebody else ends the fault: before it is confirmed it is void, afterwards nobody knows for how long it was on.
func TestAFaultThatEndsBeforeItsTime(t *testing.T) {
	latency := &fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 50 * time.Millisecond, Stream: fault.StreamDown}
	remove := func(rec undo.Record) {
		w := rec.Routes[0]
		if err := toxi.New(w.API).Remove(t.Context(), w.Proxy, w.Toxics[0]); err != nil {
			t.Fatal(err)
		}
	}
	s := newStand(t, testbed.ProxyOptions{})
	s.beat(t, "r1", s.proxies.Addrs("r1")[0])

	rec, applied := s.strike(t, latency)
	remove(rec)
	if _, _, err := s.Confirm(t.Context(), rec, applied); voidOf(err) != "unconfirmed" {
		t.Errorf("%v, want a void shot", err)
	}
	if _, err := s.Revert(t.Context(), rec); err != nil {
		t.Errorf("nothing is left of a void shot: %v", err)
	}

	rec, applied = s.strike(t, latency)
	if _, _, err := s.Confirm(t.Context(), rec, applied); err != nil {
		t.Fatal(err)
	}
	remove(rec)
	if _, err := s.Revert(t.Context(), rec); err == nil || !strings.Contains(err.Error(), "how long") {
		t.Errorf("%v: somebody else ended the fault, and that is not said", err)
	}
	if _, err := s.Revert(t.Context(), rec); err != nil {
		t.Errorf("nothing is left: %v", err)
	}
}

func TestAnotherOnesToxicStays(t *testing.T) {
	s := newStand(t, testbed.ProxyOptions{})
	rec, _ := s.strike(t, &fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 20 * time.Millisecond, Stream: fault.StreamDown})
	w := rec.Routes[0]
	theirs := toxi.Toxic{Name: "theirs", Type: "latency", Stream: "upstream", Toxicity: 1, Attributes: map[string]any{"latency": 1}}
	if err := toxi.New(w.API).Add(t.Context(), w.Proxy, theirs); err != nil {
		t.Fatal(err)
	}
	if err := elsewhere(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if p := s.proxy(t, "r1"); len(p.Toxics) != 1 || p.Toxics[0].Name != "theirs" {
		t.Errorf("the toxics are %+v, want the stranger's", p.Toxics)
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
			s := newStand(t, o)
			rec, _ := s.strike(t, &fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 30 * time.Millisecond, Stream: fault.StreamDown})
			stuck := s.stopReading(t, s.proxies.Addrs("r1")[0])
			defer stuck.Close()

			start := time.Now()
			if _, err := s.Revert(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			t.Logf("reverted after %s", time.Since(start))
			if p := s.proxy(t, "r1"); !strings.HasSuffix(p.Name, "~2") || len(p.Toxics) != 0 {
				t.Errorf("the deadlock was not provoked, or not passed by: %+v", p)
			}
			if err := elsewhere(t.Context(), rec); err != nil {
				t.Errorf("again, by the record alone: %v", err)
			}
			s.beat(t, "r1", s.proxies.Addrs("r1")[0])
			rec, applied := s.strike(t, &fault.Latency{Aim: fault.Aim{Replica: "r1"}, Add: 30 * time.Millisecond, Stream: fault.StreamBoth})
			if _, _, err := s.Confirm(t.Context(), rec, applied); err != nil {
				t.Errorf("the way cannot be struck again: %v", err)
			}
			if _, err := s.Revert(t.Context(), rec); err != nil {
				t.Error(err)
			}
			err := s.proxies.Close(t.Context())
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
func (s *stand) stopReading(t *testing.T, addr string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := open(ctx, (&Hit{Reach: s.Reach}).question(), s.redis)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	value := strings.Repeat("x", 16<<20)
	_, err = conn.Write([]byte("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$16777216\r\n" + value + "\r\n"))
	if err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	lazy, err := open(ctx, (&Hit{Reach: s.Reach}).question(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := lazy.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := lazy.Write([]byte("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: s.redis, MaxRetries: -1, DisableIdentity: true})
	defer client.Close()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for last, same := "", 0; same < 10; { // the store cannot get rid of its answer any more
		list, err := client.ClientList(ctx).Result()
		if err != nil {
			t.Fatal(err)
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
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("the buffers do not fill")
		}
	}
	return lazy
}

func TestARestartedServerIsNotMistakenForAFault(t *testing.T) {
	server := toxitest.Start(t)
	s := newStand(t, testbed.ProxyOptions{Mode: experiments.ProxyExternal, URL: server.URL})
	s.beat(t, "r1", s.proxies.Addrs("r1")[0])
	rec, applied := s.strike(t, &fault.Cut{How: fault.Down, Aim: fault.Aim{Replica: "r1"}})
	server.Restart() // nobody listens on the way: as with the fault
	if _, _, err := s.Confirm(t.Context(), rec, applied); voidOf(err) != "unconfirmed" || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("%v, want a void shot", err)
	}
	if err := elsewhere(t.Context(), rec); err != nil {
		t.Errorf("what is gone is undone: %v", err)
	}
}

func TestAServerThatIsGoneIsRevertedOnlyIfItWasTheRunners(t *testing.T) {
	w := undo.ProxyRoute{API: "http://127.0.0.1:1", // no port that others are given
		Proxy: "lockdrill-x-r1", Listen: "127.0.0.1:1", Toxics: []string{"lockdrill-x-r1-f.1-upstream"}}
	err := elsewhere(t.Context(), undo.Record{Kind: "latency", Shot: history.Event{Fault: &history.Fault{}}, Routes: []undo.ProxyRoute{w}})
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "curl -X DELETE") {
		t.Errorf("%v: nobody knows whether a server that does not answer still has the toxic, and how it is removed", err)
	}
	w.Own = os.Getpid()
	if err := elsewhere(t.Context(), undo.Record{Kind: "latency", Shot: history.Event{Fault: &history.Fault{}}, Routes: []undo.ProxyRoute{w}}); err != nil {
		t.Errorf("the embedded server is gone: %v", err)
	}
}
