package drill

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/redisstore"
)

// openTap puts a proxy that understands the protocol on the way of each replica, next to the store, if a fault goes by it.
func (d *Drill) openTap() error {
	byProxy := func(f experiments.Fault) bool { return f.Traits().Via == fault.ViaProxy }
	if !slices.ContainsFunc(d.e.Faults, byProxy) {
		return nil
	}
	options, err := d.stores.Locks.Options()
	if err != nil {
		return fmt.Errorf("open the proxy: %w", err)
	}
	d.tap = tap.New(tap.Options{
		Dial:  func(ctx context.Context) (net.Conn, error) { return DialPlain(ctx, options.Addr, options.TLSConfig) },
		Clock: d.clock, Seed: d.seed, Rules: tap.Rules{Keys: []string{tap.Quote(d.stores.Locks.Prefix) + "*"}, Scripts: CoreScripts()},
		OnHit: func(h tap.Hit) { d.injectors.Hit(h) },
	})
	d.taps = map[string]string{}
	for n := range d.e.System.Replicas {
		name := fmt.Sprintf("r%d", n+1)
		if d.taps[name], err = d.tap.Listen(name, "127.0.0.1:0"); err != nil {
			return fmt.Errorf("open the proxy: %w", err)
		}
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

// beforeProxy is where a replica finds the locks if no Toxiproxy is before that: at the proxy that understands the protocol, if there
// is one. That one speaks TLS to the store, and reads plain text.
func (d *Drill) beforeProxy(replica string) protocol.Endpoint {
	e := d.stores.Locks.Endpoint()
	if addr := d.taps[replica]; addr != "" {
		e.Addr, e.TLS, e.ServerName, e.CA = addr, false, "", ""
	}
	return e
}

// glob fits the key; or all keys of the lock; or those of every lock.
func (d *Drill) glob(lock, key string) string {
	if key != "" {
		return tap.Quote(key)
	}
	for i := range d.e.System.Locks {
		if l := &d.e.System.Locks[i]; l.Name == lock && l.Loop() {
			return tap.Quote(l.Key)
		} else if l.Name == lock {
			return tap.Quote(l.KeyPrefix) + "*"
		}
	}
	return "*"
}

// closeTap ends the proxy, and with it what it held up.
func (d *Drill) closeTap() error {
	if d.tap == nil {
		return nil
	}
	return d.tap.Close()
}
