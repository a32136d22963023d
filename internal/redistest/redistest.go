// Package redistest starts a real redis-server for a test, on a free loopback port and in a folder of the test's own, and ends it
// with the test. It is for tests only.
//
// Its one invariant: a test that needs a real Redis and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Need returns the path of redis-server; without one the test is skipped, in continuous integration it fails.
func Need(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("redis-server is not on the PATH: continuous integration must test against a real one")
	}
	t.Skip("SKIPPED, NOT TESTED: redis-server is not on the PATH")
	return ""
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
	cmd := exec.Command(binary, args...)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // says "killed"
		close(exited)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-exited
	}
	if err := ready(ctx, addr, cmd.Process.Pid, exited); err != nil {
		stop()
		return "", err
	}
	t.Cleanup(stop)
	return addr, nil
}

// freePort is a port of loopback that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ready waits until the server of that pid answers at addr.
func ready(ctx context.Context, addr string, pid int, exited <-chan struct{}) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	defer c.Close()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close() // only now ask with go-redis, which logs refused dials
			info, err := c.Info(ctx, "server").Result()
			if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-exited:
			return fmt.Errorf("the server at %s exited at once", addr)
		case <-ctx.Done():
			return fmt.Errorf("the server at %s does not answer: %w", addr, ctx.Err())
		}
	}
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
