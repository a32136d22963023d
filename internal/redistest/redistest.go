// Package redistest starts a real redis-server for a test, on a free loopback port and in a folder of the test's own, and ends it
// with the test. It is for tests only.
//
// Its one invariant: a test that needs a real Redis and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/servertest"
)

// Need returns the path of redis-server; without one the test is skipped, in continuous integration it fails.
func Need(t testing.TB) string {
	t.Helper()
	return servertest.Program(t, "redis-server", "make deps")
}

// startWithin is how long all attempts to start a server may take together.
const startWithin = 20 * time.Second

// Start starts a redis-server, with args added to its command line, and returns its address.
func Start(t testing.TB, args ...string) string {
	t.Helper()
	return startOn(t, freePort, args...)
}

// startOn starts a server on a port that choose finds free.
func startOn(t testing.TB, choose func() (int, error), args ...string) string {
	t.Helper()
	return startConfigured(t, choose, "", append([]string{"--save", "", "--appendonly", "no"}, args...)...)
}

// startConfigured is startOn with a configuration file; "" = none.
func startConfigured(t testing.TB, choose func() (int, error), config string, args ...string) string {
	t.Helper()
	binary := Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for {
		addr, err := start(ctx, t, binary, choose, config, args)
		if err == nil {
			return addr
		}
		if ctx.Err() != nil {
			t.Fatalf("start redis-server: %v", err)
		}
	}
}

// start makes one attempt. Between the choice of a free port and its use another process may take it: then there is an error, and
// whoever answers there is not mistaken for the server.
func start(ctx context.Context, t testing.TB, binary string, choose func() (int, error), config string, args []string) (string, error) {
	free, err := choose()
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(free)
	addr := net.JoinHostPort("127.0.0.1", port)
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir()}, args...)
	if config != "" {
		args = append([]string{config}, args...)
	}
	run, err := servertest.Start(exec.Command(binary, args...))
	if err != nil {
		return "", err
	}
	if err := run.Ready(ctx, 5*time.Millisecond, func(ctx context.Context) error { return answers(ctx, addr, run.Pid) }); err != nil {
		run.Kill()
		return "", fmt.Errorf("the server at %s: %w", addr, err)
	}
	t.Cleanup(run.Kill)
	return addr, nil
}

// freePort is a port of loopback that was free a moment ago.
func freePort() (int, error) {
	addr, err := servertest.FreeAddr()
	if err != nil {
		return 0, err
	}
	_, port, _ := net.SplitHostPort(addr)
	return strconv.Atoi(port)
}

// answers asks whether the server at addr is the process of that pid.
func answers(ctx context.Context, addr string, pid int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	_ = conn.Close() // only now ask with go-redis, which logs refused dials
	c := node(addr)
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		err = errors.New("another one answers there")
	}
	return err
}

// Nobody is an address at which every connection is refused until the test ends: its port is taken, and nobody listens there.
func Nobody(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}
