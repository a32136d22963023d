package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/internal/kube"
	"github.com/lockdrill/lockdrill/proxies/apiproxy"
	"github.com/lockdrill/lockdrill/proxies/tap"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// openTap puts a proxy that understands the protocol on the way of each replica, next to the store.
func (s *pair) openTap(context.Context) error {
	store, ok := s.Held.(stores.Tapped)
	if !ok {
		return fmt.Errorf("open the proxy: none reads what clients say to a store of kind %s", s.e.StoreKind())
	}
	t, way, err := store.Tap(tap.Options{Clock: s.clock, Seed: s.seed, OnHit: s.strikes.Hit}, s.e.ReplicaNames())
	if t != nil {
		s.stands = append(s.stands, func(context.Context) error { return t.Close() })
	}
	if err != nil {
		return fmt.Errorf("open the proxy: %w", err)
	}
	s.strikes.Tap, s.tapped = t, way
	return nil
}

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
func CoreScripts() []tap.ScriptRule { return redis.CoreScripts() }

// glob fits the key, as the store knows it; or all keys of the lock; or those of every lock.
func (s *pair) glob(lock, key string) string {
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
func (s *pair) bare(name string) (lock, key string) {
	key = strings.TrimPrefix(name, s.strikes.Keys)
	return s.lockOf(key), key
}
