package drill

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// openTap puts a proxy that understands the protocol on the way of each replica, next to the store. It speaks TLS to the store, and
// reads plain text.
func (s *stores) openTap(context.Context) error {
	options, err := s.Locks.Options()
	if err != nil {
		return fmt.Errorf("open the proxy: %w", err)
	}
	t := tap.New(tap.Options{
		Dial:  func(ctx context.Context) (net.Conn, error) { return DialPlain(ctx, options.Addr, options.TLSConfig) },
		Clock: s.clock, Seed: s.seed, Rules: tap.Rules{Keys: []string{tap.Quote(s.Locks.Prefix) + "*"}, Scripts: CoreScripts()},
		OnHit: func(h tap.Hit) { s.hit(h) },
	})
	s.strikes.Tap = t
	s.stands = append(s.stands, func(context.Context) error { return t.Close() })
	listeners := map[string]string{}
	for _, name := range s.e.ReplicaNames() {
		if listeners[name], err = t.Listen(name, "127.0.0.1:0"); err != nil {
			return fmt.Errorf("open the proxy: %w", err)
		}
	}
	s.tapped = func(replica string, e protocol.Endpoint) protocol.Endpoint {
		e.Addr, e.TLS, e.ServerName, e.CA = listeners[replica], false, "", ""
		return e
	}
	return nil
}

// DialPlain opens a connection as it is: a client behind a proxy introduces itself.
func DialPlain(ctx context.Context, addr string, secure *tls.Config) (net.Conn, error) {
	if secure != nil {
		return (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// CoreScripts are the lock core's own, by their hashes.
func CoreScripts() (rules []tap.ScriptRule) {
	for hash, op := range redisstore.Operations() {
		rules = append(rules, tap.ScriptRule{SHA1: hash, Op: op})
	}
	return rules
}

// glob fits the key, as the store knows it; or all keys of the lock; or those of every lock.
func (s *stores) glob(lock, key string) string {
	prefix := tap.Quote(s.Locks.Prefix)
	if key != "" {
		return prefix + tap.Quote(key)
	}
	switch l := s.e.Lock(lock); {
	case l == nil:
		return prefix + "*"
	case l.Loop():
		return prefix + tap.Quote(l.Key)
	default:
		return prefix + tap.Quote(l.KeyPrefix) + "*"
	}
}

// bare is the lock and the key that the store knows by name.
func (s *stores) bare(name string) (lock, key string) {
	key = strings.TrimPrefix(name, s.Locks.Prefix)
	return s.lockOf(key), key
}
