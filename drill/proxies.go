package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/stores"
)

// byNetwork reports whether a fault is one of the network.
func byNetwork(faults []experiments.Fault) bool {
	return slices.ContainsFunc(faults, func(f experiments.Fault) bool { return f.Net() })
}

// openProxies puts a Toxiproxy on the way of each replica to the locks' store. Probes and ledger never go by it. The certificate of the
// store still names the store.
func (s *pair) openProxies(ctx context.Context) error {
	question, err := s.question()
	if err != nil {
		return err
	}
	proxies, err := testbed.OpenProxies(ctx, testbed.ProxyOptions{
		Mode: s.e.Proxy.Mode, URL: s.e.Proxy.URL, Run: s.run, Replicas: s.e.ReplicaNames(),
		Upstream: func(replica string) []string {
			e := s.behind(replica)
			return append([]string{e.Addr}, e.Addrs[min(1, len(e.Addrs)):]...)
		},
		Question: question, Journal: s.journal,
	})
	if foreign := new(testbed.ForeignError); errors.As(err, &foreign) {
		return &Error{verdict.ExitRefused, err}
	}
	if err != nil {
		return err
	}
	s.stands = append(s.stands, proxies.Close)
	s.strikes.Routes, s.strikes.Question = proxies.Routes, question
	s.env.Proxy = string(proxies.Mode)
	s.notices = append(s.notices, fmt.Sprintf("replicas reach the locks through %s Toxiproxy", map[experiments.ProxyMode]string{
		experiments.ProxyEmbedded: "an embedded", experiments.ProxyExternal: "an external",
	}[proxies.Mode]))
	s.proxied = func(replica string, e protocol.Endpoint) protocol.Endpoint {
		if host, _, err := net.SplitHostPort(e.Addr); err == nil && e.TLS && e.ServerName == "" {
			e.ServerName = host
		}
		e.Addrs = proxies.Addrs(replica)
		if e.Addr = e.Addrs[0]; len(e.Addrs) == 1 {
			e.Addrs = nil
		}
		return e
	}
	return nil
}

// openRoutes lets faults of the network befall the proxies that observed replicas go through anyway.
func (s *pair) openRoutes(context.Context) (err error) {
	p := s.e.Proxy
	if s.strikes.Question, err = s.question(); err != nil {
		return err
	}
	s.strikes.Replicas = nil
	s.strikes.Routes = func(replica string) []undo.ProxyRoute {
		w := undo.ProxyRoute{API: strings.TrimSuffix(p.URL, "/"), Proxy: p.Route, Theirs: true}
		if p.Shared() {
			return []undo.ProxyRoute{w}
		}
		for _, l := range s.replicas() {
			if history.ReplicaOf(l.Incarnation) == replica {
				var whole bool
				if w.Proxy, whole = experiments.FillIn(p.Route, l.Known); whole {
					return []undo.ProxyRoute{w}
				}
			}
		}
		return nil
	}
	s.env.Proxy = string(p.Mode)
	s.notices = append(s.notices, fmt.Sprintf("faults of the network go by proxy %s of the Toxiproxy at %s, which is somebody's own", p.Route, p.URL))
	return nil
}

// routeGuard refuses a drill of the network where the proxies that observed replicas go through are not what the file says.
func routeGuard(ctx context.Context, e *experiments.Experiment) (Guard, error) {
	ctx, cancel := context.WithTimeout(ctx, environmentWithin)
	defer cancel()
	names := []string{e.Proxy.Route}
	if !e.Proxy.Shared() {
		found, _, err := testbed.FindProcesses(ctx, e.System.Processes)
		if err != nil {
			return Guard{Refuses: true, Says: err.Error()}, nil
		}
		names = nil
		for _, f := range found {
			name, _ := experiments.FillIn(e.Proxy.Route, f.Known)
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := testbed.LookAtRoute(ctx, e.Proxy.URL, name, e.Redis); err != nil {
			return Guard{Refuses: true, Says: err.Error()}, nil
		}
	}
	return Guard{Says: fmt.Sprintf("%s at %s: enabled, and leads to the locks' store", strings.Join(names, ", "), e.Proxy.URL)}, nil
}

// question is how the locks' store is asked by whoever measures the way there, as a replica asks.
func (s *pair) question() (endpoint.Question, error) {
	store, ok := s.Held.(stores.Asked)
	if !ok {
		return endpoint.Question{}, fmt.Errorf("no fault of the network befalls a store of kind %s", s.e.StoreKind())
	}
	return store.Question(s.behind(s.e.ReplicaNames()[0]))
}
