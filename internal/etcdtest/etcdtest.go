// Package etcdtest starts a real etcd of one server for a test, on free loopback ports and in a folder of the test's own, and ends it with
// the test. It is for tests only, and knows no client of etcd: the plain build has none.
//
// Its one invariant: a test that needs a real etcd and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package etcdtest

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/servertest"
)

// Need returns the path of etcd; without one the test is skipped, in continuous integration it fails.
func Need(t testing.TB) string {
	t.Helper()
	return servertest.Program(t, "etcd", "Debian's etcd-server")
}

const (
	startWithin = 60 * time.Second // all attempts together: a disk may be slow to sync
	lookEvery   = 20 * time.Millisecond
)

// Server is one etcd.
type Server struct {
	Addr string // host:port of its clients
	run  *servertest.Process
}

// StartTLS starts one that asks its clients for a certificate: ca vouches for it, and cert with key is one that it takes.
func StartTLS(t testing.TB) (s *Server, ca, cert, key string) {
	t.Helper()
	a := servertest.NewAuthority(t, t.TempDir())
	cert, key = a.Server(net.IPv4(127, 0, 0, 1))
	return Start(t, "--client-cert-auth", "--trusted-ca-file", a.CA, "--cert-file", cert, "--key-file", key), a.CA, cert, key
}

// Start starts an etcd whose shortest lease is a second, and waits until it has a leader.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary := Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for {
		s, err := start(ctx, binary, t.TempDir(), args)
		if err == nil {
			t.Cleanup(s.run.Kill)
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("start etcd: %v", err)
		}
	}
}

func start(ctx context.Context, binary, dir string, args []string) (*Server, error) {
	addr, err1 := servertest.FreeAddr()
	peers, err2 := servertest.FreeAddr()
	health, err3 := servertest.FreeAddr()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	scheme := "http"
	if slices.Contains(args, "--client-cert-auth") {
		scheme = "https"
	}
	run, err := servertest.Start(exec.Command(binary, append([]string{"--name", "m1", "--data-dir", dir,
		"--listen-client-urls", scheme + "://" + addr, "--advertise-client-urls", scheme + "://" + addr, "--listen-metrics-urls", "http://" + health,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers, "--initial-cluster", "m1=http://" + peers,
		"--heartbeat-interval", "100", "--election-timeout", "600", "--logger", "zap", "--log-level", "error"}, args...)...))
	if err != nil {
		return nil, err
	}
	if err := run.Ready(ctx, lookEvery, func(ctx context.Context) error { return servertest.Serves(ctx, "http://"+health+"/health") }); err != nil {
		run.Kill()
		return nil, err
	}
	return &Server{Addr: addr, run: run}, nil
}

// Stop lets it stand still; Continue lets it go on.
func (s *Server) Stop() error     { return s.run.Signal(syscall.SIGSTOP) }
func (s *Server) Continue() error { return s.run.Signal(syscall.SIGCONT) }
