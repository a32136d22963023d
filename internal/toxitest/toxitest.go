// Package toxitest starts the real Toxiproxy server for a test, built from its module, on a free loopback port, and ends it with the
// test. It is for tests only.
//
// Its one invariant: a test that needs the real server and cannot have it says so loudly where a person tests, and fails in
// continuous integration (CI=true).
package toxitest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/servertest"
)

// Server is one running server.
type Server struct {
	URL string // of its API

	t      testing.TB
	binary string
	run    *servertest.Process
}

const (
	buildWithin = 5 * time.Minute // a cold cache on a busy machine
	readyWithin = 5 * time.Second // a server that cannot listen does not exit
	tries       = 4               // between the choice of a free port and its use another process may take it
)

// program is the server, linked once for all tests of a package: that takes longer than most of them.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "toxitest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "server")
	ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/Shopify/toxiproxy/v2/cmd/server").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// Start starts the server.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, binary: filepath.Join(t.TempDir(), "toxiproxy-server")}
	text, err := program()
	if err != nil {
		servertest.Missing(t, fmt.Sprintf("the Toxiproxy server cannot be built: %v", err))
	}
	syscall.ForkLock.RLock() // a child of another test would have the file open for writing, and nobody could run it then
	err = os.WriteFile(s.binary, text, 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	for range tries {
		addr, err := servertest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		s.URL = "http://" + addr
		if s.start() {
			t.Cleanup(func() { s.run.Kill() })
			return s
		}
	}
	t.Fatal("the Toxiproxy server does not answer")
	return nil
}

// Restart ends the server with all that it knows and starts it again at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.run.Kill()
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
	run, err := servertest.Start(exec.Command(s.binary, "-host", host, "-port", port))
	if err != nil {
		s.t.Fatal(err)
	}
	s.run = run
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	if err := run.Ready(ctx, 5*time.Millisecond, func(ctx context.Context) error { return servertest.Serves(ctx, s.URL+"/version") }); err != nil {
		run.Kill()
		return false
	}
	return true
}
