// Package toxitest starts the real Toxiproxy server for a test, built from its module, on a free loopback port, and ends it with the
// test. It is for tests only.
//
// Its one invariant: a test that needs the real server and cannot have it says so loudly where a person tests, and fails in
// continuous integration (CI=true).
package toxitest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Server is one running server.
type Server struct {
	URL string // of its API

	t      testing.TB
	binary string
	cmd    *exec.Cmd
	gone   chan struct{}
}

const (
	buildWithin = 5 * time.Minute // a cold cache on a busy machine
	readyWithin = 5 * time.Second // a server that cannot listen does not exit
	tries       = 4               // between the choice of a free port and its use another process may take it
)

// Start builds the server and starts it.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, binary: filepath.Join(t.TempDir(), "toxiproxy-server")}
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "github.com/Shopify/toxiproxy/v2/cmd/server").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the Toxiproxy server cannot be built: continuous integration must test against the real one: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED, NOT TESTED: the Toxiproxy server cannot be built: %v\n%s", err, out)
	}
	for range tries {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.URL = "http://" + l.Addr().String()
		_ = l.Close()
		if s.start() {
			t.Cleanup(s.stop)
			return s
		}
	}
	t.Fatal("the Toxiproxy server does not answer")
	return nil
}

// Restart ends the server with all that it knows and starts it again at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.stop()
	for range tries {
		if s.start() {
			return
		}
	}
	s.t.Fatal("the Toxiproxy server does not answer again")
}

// start reports whether the server answers; one that does not is ended.
func (s *Server) start() bool {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.URL[len("http://"):])
	s.cmd = exec.Command(s.binary, "-host", host, "-port", port)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, gone := s.cmd, make(chan struct{})
	s.gone = gone
	go func() {
		_ = cmd.Wait() // says "killed"
		close(gone)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/version", nil)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			s.stop()
			return false
		}
	}
}

func (s *Server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}
