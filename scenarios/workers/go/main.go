// Command go is a healthy worker to copy: a lock on Redis, with fences and renewals, on the engine of package worker.
//
// Put your own lock in place of type hold. docs/worker-protocol.md says what is owed; `lockdrill run worker-check -- ./worker` says whether
// it is done. It is no library. Its one invariant: work under a lock ends before its lease does, as class "standard" wants it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := worker.Run(ctx, os.Stdin, os.Stdout, open, worker.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// locks are those of the experiment, on one Redis.
type locks struct {
	redis  *redis.Client
	prefix string
	tell   *worker.Teller
}

func open(ctx context.Context, c protocol.Configure, t *worker.Teller) (worker.Locker, error) {
	o, err := options(c.Store)
	if err != nil {
		return nil, err
	}
	l := &locks{redis: redis.NewClient(o), prefix: c.Store.Prefix, tell: t}
	return l, worker.Answers(ctx, "locks", func(ctx context.Context) error { return l.redis.Ping(ctx).Err() })
}

func (l *locks) Close() error { return l.redis.Close() }

// options are how the store is reached. MaxRetries: a call that is sent twice is reported once.
func options(e protocol.Endpoint) (*redis.Options, error) {
	o := &redis.Options{
		Addr: e.Addr, DB: e.DB, Username: os.Getenv(e.UsernameEnv), Password: os.Getenv(e.PasswordEnv),
		MaxRetries: -1, ContextTimeoutEnabled: true,
	}
	if strings.HasPrefix(e.Addr, "/") {
		o.Network = "unix"
	}
	if !e.TLS {
		return o, nil
	}
	o.TLSConfig = &tls.Config{ServerName: e.ServerName}
	if e.CA != "" {
		pem, err := os.ReadFile(e.CA)
		if err != nil {
			return nil, err
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		o.TLSConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, err
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}
