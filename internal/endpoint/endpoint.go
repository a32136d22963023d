// Package endpoint turns what a process was told about a store into the options of its connections.
//
// Passwords come from the environment of the process that dials, by the names of variables, and a certificate's authority from a
// file: neither stands in an experiment, a history, a journal or a command. Its one invariant: no error of it tells a password.
package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// ErrSettings is wrapped by errors that a person mends by setting a variable or naming another file: nothing was dialled.
var ErrSettings = errors.New("cannot be used as it is set")

// Options are the options of a connection to e; the caller tunes them.
func Options(e protocol.Endpoint) (*redis.Options, error) {
	a, err := AccessTo(e, "redis")
	if err != nil {
		return nil, err
	}
	return &redis.Options{Addr: e.Addr, DB: e.DB, Username: a.User, Password: a.Password, TLSConfig: a.TLS}, nil
}

// Access is what a connection needs beside an address.
type Access struct {
	User, Password string      // "" = none is named
	TLS            *tls.Config // nil = none
}

// AccessTo reads what e names; section is the part of an experiment that says it.
func AccessTo(e protocol.Endpoint, section string) (a Access, err error) {
	for _, v := range []struct {
		name, what string
		into       *string
	}{{e.UsernameEnv, "username", &a.User}, {e.PasswordEnv, "password", &a.Password}} {
		if v.name == "" {
			continue
		}
		if *v.into = os.Getenv(v.name); *v.into == "" {
			return a, fmt.Errorf("%s %w: the environment variable %s, which %s.%s_env names, is not set or empty", section, ErrSettings, v.name, section, v.what)
		}
	}
	if !e.TLS {
		return a, nil
	}
	a.TLS = &tls.Config{ServerName: e.ServerName, MinVersion: tls.VersionTLS12}
	if e.ServerName == "" {
		host, _, err := net.SplitHostPort(e.Addr)
		if err != nil {
			return a, fmt.Errorf("%s %w: %w", section, ErrSettings, err)
		}
		a.TLS.ServerName = host
	}
	if e.CA == "" {
		return a, nil
	}
	pem, err := os.ReadFile(e.CA)
	if err != nil {
		return a, fmt.Errorf("%s.ca %w: %w", section, ErrSettings, err)
	}
	a.TLS.RootCAs = x509.NewCertPool()
	if !a.TLS.RootCAs.AppendCertsFromPEM(pem) {
		return a, fmt.Errorf("%s.ca %w: %s has no certificate in PEM form", section, ErrSettings, e.CA)
	}
	return a, nil
}

// dialWithin is what connecting to one server of several may take.
const dialWithin = time.Second

// Dialer dials any of the servers of which o names the first, as those of a cluster. A certificate must name the host that is dialled;
// where a server calls itself by a bare address, which few certificates name, and o has a name, that one.
func Dialer(o *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialWithin}
	if o.TLSConfig == nil {
		return plain.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config := o.TLSConfig
		if host, _, err := net.SplitHostPort(addr); err == nil && (net.ParseIP(host) == nil || net.ParseIP(config.ServerName) != nil) {
			config = config.Clone()
			config.ServerName = host
		}
		return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
	}
}

// layoutEvery is how often a client asks for a cluster's layout. Left to itself it asks every minute, and asks a primary that has crashed
// until then.
const layoutEvery = time.Second

// Cluster makes connections to the cluster that the server of o belongs to; it does not dial yet.
func Cluster(o *redis.Options, readWithin time.Duration) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, Dialer: Dialer(o), Protocol: 2, DisableIdentity: true,
		ContextTimeoutEnabled: true, DialTimeout: dialWithin, ReadTimeout: readWithin, PoolSize: 64, ClusterStateReloadInterval: layoutEvery,
	})
}
