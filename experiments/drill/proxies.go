package drill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// byNetwork reports whether a fault is one of the network.
func byNetwork(faults []experiments.Fault) bool {
	return slices.ContainsFunc(faults, func(f experiments.Fault) bool { return f.Net() })
}

// openProxies puts a Toxiproxy on the way of each replica to the locks' store. Probes and ledger never go by it. The certificate of the
// store still names the store.
func (s *stores) openProxies(ctx context.Context) error {
	proxies, err := testbed.OpenProxies(ctx, testbed.ProxyOptions{
		Mode: s.e.Proxy.Mode, URL: s.e.Proxy.URL, Run: s.run, Replicas: s.e.ReplicaNames(),
		Upstream: func(replica string) string { return s.behind(replica).Addr },
		Dial:     s.dialRoute, Journal: s.journal,
	})
	if foreign := new(testbed.ForeignError); errors.As(err, &foreign) {
		return &Error{verdict.ExitRefused, err}
	}
	if err != nil {
		return err
	}
	s.stands = append(s.stands, proxies.Close)
	s.strikes.Route, s.strikes.Dial = proxies.Route, s.dialRoute
	s.env.Proxy = string(proxies.Mode)
	s.notices = append(s.notices, fmt.Sprintf("replicas reach the locks through %s Toxiproxy", map[experiments.ProxyMode]string{
		experiments.ProxyEmbedded: "an embedded", experiments.ProxyExternal: "an external",
	}[proxies.Mode]))
	s.proxied = func(replica string, e protocol.Endpoint) protocol.Endpoint {
		if host, _, err := net.SplitHostPort(e.Addr); err == nil && e.TLS && e.ServerName == "" {
			e.ServerName = host
		}
		e.Addr = proxies.Addr(replica)
		return e
	}
	return nil
}

// openRoutes lets faults of the network befall the proxies that observed replicas go through anyway.
func (s *stores) openRoutes(context.Context) error {
	p := s.e.Proxy
	s.strikes.Dial, s.strikes.Replicas = s.dialRoute, nil
	s.strikes.Route = func(replica string) (undo.ProxyRoute, bool) {
		w := undo.ProxyRoute{API: strings.TrimSuffix(p.URL, "/"), Proxy: p.Route, Theirs: true}
		if p.Shared() {
			return w, true
		}
		for _, l := range s.replicas() {
			if history.ReplicaOf(l.Incarnation) == replica {
				var whole bool
				w.Proxy, whole = experiments.FillIn(p.Route, l.Known)
				return w, whole
			}
		}
		return w, false
	}
	s.env.Proxy = string(p.Mode)
	s.notices = append(s.notices, fmt.Sprintf("faults of the network go by proxy %s of the Toxiproxy at %s, which is somebody's own", p.Route, p.URL))
	return nil
}

const routeGuardName = "route"

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

// dialRoute connects through a replica's Toxiproxy as the replica does, and names the password, if there is one.
func (s *stores) dialRoute(ctx context.Context, addr string) (net.Conn, error) {
	options, err := s.Locks.Options()
	if err != nil {
		return nil, err
	}
	if !s.behind(s.e.ReplicaNames()[0]).TLS { // the proxy behind it speaks plain text
		options.TLSConfig = nil
	}
	conn, err := DialPlain(ctx, addr, options.TLSConfig)
	if err != nil {
		return nil, err
	}
	if err := introduce(ctx, conn, options.Username, options.Password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// introduce sends AUTH. What goes wrong there is told without the command.
func introduce(ctx context.Context, conn net.Conn, username, password string) error {
	if password == "" {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	words := []string{"AUTH", password}
	if username != "" {
		words = []string{"AUTH", username, password}
	}
	command := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		command += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := conn.Write([]byte(command)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+") {
		return errors.New("the store refused the password")
	}
	return err
}
