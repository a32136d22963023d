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
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockdrill/lockdrill/internal/regular"
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
	return &redis.Options{Network: Network(e.Addr), Addr: e.Addr, DB: e.DB, Username: a.User, Password: a.Password, TLSConfig: a.TLS}, nil
}

// Network is that of an address: a path is that of a socket of this host.
func Network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
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
	host := e.ServerName
	if host == "" {
		if host, _, err = net.SplitHostPort(e.Addr); err != nil {
			return a, fmt.Errorf("%s %w: %w", section, ErrSettings, err)
		}
	}
	if a.TLS, err = Secure(host, e.CA, e.Cert, e.Key); err != nil {
		return a, fmt.Errorf("%s.%w", section, err)
	}
	return a, nil
}

// Secure is how a server of that name is spoken to by TLS: ca is the PEM file of its authority, "" = the system's; cert and key are those of
// who asks, "" = none. Errors begin with the name of the file's field, and wrap ErrSettings.
func Secure(host, ca, cert, key string) (*tls.Config, error) {
	secure := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := regular.Read(ca)
		if err != nil {
			return nil, fmt.Errorf("ca %w: %w", ErrSettings, err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca %w: %s has no certificate in PEM form", ErrSettings, ca)
		}
	}
	if cert != "" {
		own, err := pair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert %w: %s with the key of %s: %w", ErrSettings, cert, key, err)
		}
		secure.Certificates = []tls.Certificate{own}
	}
	return secure, nil
}

func pair(cert, key string) (tls.Certificate, error) {
	chain, err := regular.Read(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := regular.Read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, secret)
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

// poolSize: after so many refusals in a row go-redis dials only once a second, which would keep whoever asks blind after a store has come back.
const poolSize = 64

// Client makes connections to the server of o, which stays as it is: no retries (a late answer would widen a bracket unseen), and deadlines
// that hold. It does not dial yet.
func Client(o *redis.Options, readWithin time.Duration) *redis.Client {
	own := *o
	own.Protocol, own.DisableIdentity, own.ContextTimeoutEnabled = 2, true, true
	own.MaxRetries, own.DialerRetries, own.DialTimeout, own.ReadTimeout = -1, 1, dialWithin, readWithin
	own.PoolSize, own.MaintNotificationsConfig = poolSize, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&own)
}

// Clients is Client for a server, or, where it is one of a cluster, for all of that.
func Clients(o *redis.Options, cluster bool, readWithin time.Duration) redis.UniversalClient {
	if cluster {
		return Cluster(o, readWithin)
	}
	return Client(o, readWithin)
}

// Cluster makes connections to the cluster that the server of o belongs to, as others do; it does not dial yet.
func Cluster(o *redis.Options, readWithin time.Duration, others ...string) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: append([]string{o.Addr}, others...), Username: o.Username, Password: o.Password, Dialer: Dialer(o), Protocol: 2, DisableIdentity: true,
		ContextTimeoutEnabled: true, DialTimeout: dialWithin, ReadTimeout: readWithin, PoolSize: poolSize, ClusterStateReloadInterval: layoutEvery,
	})
}
