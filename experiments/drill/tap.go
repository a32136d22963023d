package drill

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/apiproxy"
	"github.com/lockdrill/lockdrill/internal/endpoint"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// openTap puts a proxy that understands the protocol on the way of each replica, next to the store.
func (s *stores) openTap(context.Context) error {
	kind, err := kindOf(s.e)
	if err != nil {
		return err
	}
	if kind.tap == nil {
		return fmt.Errorf("open the proxy: none reads what clients say to a store of kind %s", s.e.StoreKind())
	}
	t, way, err := kind.tap(s, tap.Options{Clock: s.clock, Seed: s.seed, OnHit: s.strikes.Hit})
	if t != nil {
		s.stands = append(s.stands, func(context.Context) error { return t.Close() })
	}
	if err != nil {
		return fmt.Errorf("open the proxy: %w", err)
	}
	s.strikes.Tap, s.tapped = t, way
	return nil
}

// tapRedis opens a proxy that speaks TLS to the store, and reads plain text.
func tapRedis(s *stores, o tap.Options) (*tap.Tap, hop, error) {
	options, err := s.Locks.Options()
	if err != nil {
		return nil, nil, err
	}
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		return endpoint.DialPlain(ctx, options.Addr, options.TLSConfig)
	}
	o.Rules = tap.Rules{Keys: []string{tap.Quote(s.Locks.Prefix) + "*"}, Scripts: CoreScripts()}
	t := tap.New(o)
	way, err := s.oneServer(t.Listen)
	return t, way, err
}

// tapPostgres opens a proxy before a server of the run's own, which has no TLS.
func tapPostgres(s *stores, o tap.Options) (*tap.Tap, hop, error) {
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		return endpoint.DialPlain(ctx, s.Held.Endpoint().Addr, nil)
	}
	t := tap.New(o)
	way, err := s.oneServer(t.ListenPostgres)
	return t, way, err
}

// oneServer lets a proxy listen for each replica.
func (s *stores) oneServer(listen func(name, addr string) (string, error)) (_ hop, err error) {
	listeners := map[string]string{}
	for _, name := range s.e.ReplicaNames() {
		if listeners[name], err = listen(name, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	return func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Addr, e.TLS, e.ServerName, e.CA, e.Cert, e.Key = listeners[replica], false, "", "", "", ""
		return e
	}, nil
}

const tapGuardName = "lockdrill proxy"

// tapGuard refuses a drill whose faults go by a lockdrill proxy that does not answer.
func tapGuard(ctx context.Context, e *experiments.Experiment) (Guard, error) {
	seen, err := tap.NewClient(e.Proxy.API).Stats(ctx)
	if err != nil {
		return Guard{Refuses: true, Says: "lockdrill proxy at " + e.Proxy.API + ": " + err.Error()}, nil
	}
	var passed int64
	for _, n := range seen.Names {
		passed += n.Acquire + n.Renew + n.Release
	}
	if passed == 0 {
		return Guard{Refuses: true, Says: "no operation on a lock has passed the lockdrill proxy at " + e.Proxy.API + " yet: does the service go round it?"}, nil
	}
	return Guard{Says: fmt.Sprintf("%s operations on locks have passed %s", figures.Count(passed), e.Proxy.API)}, nil
}

const apiProxyGuardName = "API proxy"

// byAPIProxy reports faults of the API server, which a lockdrill proxy before it makes.
func byAPIProxy(e *experiments.Experiment) bool {
	return slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Traits().ByAPIProxy })
}

// apiProxyGuard refuses a drill whose API proxy does not answer, has no clients, or cannot do what the file asks for.
func apiProxyGuard(ctx context.Context, e *experiments.Experiment) Guard {
	at := e.Kubernetes.APIProxy
	seen, err := apiproxy.Seen(ctx, at)
	if err != nil {
		return Guard{Refuses: true, Says: "lockdrill proxy at " + at + ": " + err.Error()}
	}
	if len(seen.Sources) == 0 {
		return Guard{Refuses: true, Says: "nobody has connected through the lockdrill proxy at " + at + " yet: point the electors at it in place of their API server"}
	}
	for i := range e.Faults {
		if f := &e.Faults[i]; f.Traits().ByAPIProxy && slices.Contains([]string{string(fault.ReadOnly), string(fault.LostAPI)}, f.Form()) && !seen.EndsTLS {
			return Guard{Refuses: true, Says: fmt.Sprintf("fault %s: the lockdrill proxy at %s passes TLS through, so it cannot tell writes: start it with --cert and --key", f.ID, at)}
		}
	}
	return Guard{Says: fmt.Sprintf("%s connected through %s", figures.Plural(len(seen.Sources), "address"), at)}
}

// WrittenToLease says what a request to an API server does to a Lease: apiproxy.Options.Written.
func WrittenToLease(path string, body []byte) string { return kube.Written(path, body) }

// CoreScripts are the lock core's own, by their hashes.
func CoreScripts() (rules []tap.ScriptRule) {
	for hash, op := range redisstore.Operations() {
		rules = append(rules, tap.ScriptRule{SHA1: hash, Op: op})
	}
	return rules
}

// glob fits the key, as the store knows it; or all keys of the lock; or those of every lock.
func (s *stores) glob(lock, key string) string {
	prefix := tap.Quote(s.strikes.Keys)
	if key != "" {
		return prefix + tap.Quote(key)
	}
	switch l := s.e.Lock(lock); {
	case l == nil:
		return prefix + "*"
	case l.Loop():
		return prefix + tap.Quote(l.Key)
	default:
		return prefix + tap.Quote(l.KeyPrefix) + "*" + tap.Quote(l.KeySuffix)
	}
}

// bare is the lock and the key that the store knows by name.
func (s *stores) bare(name string) (lock, key string) {
	key = strings.TrimPrefix(name, s.strikes.Keys)
	return s.lockOf(key), key
}
