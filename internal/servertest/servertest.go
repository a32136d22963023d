// Package servertest runs the programs of real servers for a test: it finds them, gives them an address, waits until they answer and
// ends them. It knows none of them. It is for tests only.
//
// Its one invariant: a test that needs a program and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/poll"
)

// Program is the path of a program, in one of the folders or on the PATH. from says where there is one to be had.
func Program(t testing.TB, name, from string, folders ...string) string {
	t.Helper()
	for _, dir := range folders {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Sprintf("%s is not on the PATH (%s)", name, from))
	}
	return path
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// Missing skips a test for what is not there; in continuous integration the test fails.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what + ": continuous integration must test against the real one")
	}
	t.Skip("SKIPPED, NOT TESTED: " + what)
}

// FreeAddr is an address of loopback that was free a moment ago: until it is used another process may take it.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Process is a program that runs.
type Process struct {
	*os.Process
	cmd  *exec.Cmd
	gone chan struct{}
}

// Start starts a program. Whoever starts it kills it.
func Start(cmd *exec.Cmd) (*Process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{Process: cmd.Process, cmd: cmd, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(p.gone)
	}()
	return p, nil
}

// Kill ends the program at once; it may be called again.
func (p *Process) Kill() {
	_ = p.Process.Kill()
	<-p.gone
}

// Ends waits for the program to end by itself; false = it has not.
func (p *Process) Ends(within time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(within):
		return false
	}
}

// Ready asks every so often until there is no error. The error says that the program has ended, or what it answered last when ctx ended.
func (p *Process) Ready(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	var last error
	for range poll.Every(ctx, every) {
		if last = ask(ctx); last == nil {
			return nil
		}
		select {
		case <-p.gone:
			return fmt.Errorf("it ended at once (%s)", p.cmd.ProcessState)
		default:
		}
	}
	return errors.Join(ctx.Err(), last)
}

// Serves asks for a page, which must be there.
func Serves(ctx context.Context, url string) error {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

// Alive reports whether a process runs; one that only waits to be collected does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return !strings.HasPrefix(rest, " Z") && !strings.HasPrefix(rest, " X")
}

// AwaitDeath waits until a process runs no more.
func AwaitDeath(t testing.TB, within time.Duration, pid int) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for limit := time.After(within); Alive(pid); {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("process %d is still alive after %s", pid, within)
		}
	}
}
