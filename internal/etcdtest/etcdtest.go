// Package etcdtest starts a real etcd of one server for a test, on free loopback ports and in a folder of the test's own, and ends it with
// the test. It is for tests only, and knows no client of etcd: the plain build has none.
//
// Its one invariant: a test that needs a real etcd and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Need returns the path of etcd; without one the test is skipped, in continuous integration it fails.
func Need(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("etcd")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("etcd is not on the PATH: continuous integration must test against a real one (Debian's etcd-server)")
	}
	t.Skip("SKIPPED, NOT TESTED: etcd is not on the PATH (Debian's etcd-server)")
	return ""
}

const (
	startWithin = 60 * time.Second // all attempts together: a disk may be slow to sync
	lookEvery   = 20 * time.Millisecond
)

// Server is one etcd.
type Server struct {
	Addr string // host:port of its clients
	cmd  *exec.Cmd
	gone chan struct{}
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
			t.Cleanup(s.kill)
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("start etcd: %v", err)
		}
	}
}

func start(ctx context.Context, binary, dir string, args []string) (*Server, error) {
	addr, err1 := free()
	peers, err2 := free()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, gone: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{"--name", "m1", "--data-dir", dir,
		"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
		"--listen-peer-urls", "http://" + peers, "--initial-advertise-peer-urls", "http://" + peers, "--initial-cluster", "m1=http://" + peers,
		"--heartbeat-interval", "100", "--election-timeout", "600", "--logger", "zap", "--log-level", "error"}, args...)...)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // says "killed"
		close(s.gone)
	}()
	if err := s.ready(ctx); err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

// ready asks for its health until it has a leader.
func (s *Server) ready(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/health", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(ask)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.gone:
			return fmt.Errorf("it ended at once: %s", s.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Stop lets it stand still; Continue lets it go on.
func (s *Server) Stop() error     { return s.cmd.Process.Signal(syscall.SIGSTOP) }
func (s *Server) Continue() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

func (s *Server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
