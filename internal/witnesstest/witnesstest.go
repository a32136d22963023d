// Package witnesstest starts the witnesses: a service in Python, and the same in Node, that takes locks, that knows nothing of lockdrill,
// and that tests drill as somebody's own (scenarios/witness). It is for tests only.
//
// Its one invariant: a test that needs Python or Node and finds none says so loudly where a person tests, and fails in continuous
// integration (CI=true); it never passes without one.
package witnesstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Bugs are the promises that the witness breaks on demand.
var Bugs = []string{
	"no-stop", "renew-blind", "release-blind", "no-guard", "double-terminal",
	"short-ttl", "never-release", "token-reuse", "swallow-errors", "idle-leader",
}

// NodeBugs are the promises that the witness in Node breaks on demand.
var NodeBugs = []string{"never-renews", "no-stop", "finishes-twice"}

// endsWithin is what the supervisor and its replicas may take to end.
const endsWithin = 20 * time.Second

// Witness is a supervisor and its replicas.
type Witness struct {
	Dir  string // pid files NAME.pid, logs NAME.log
	Port int    // metrics of the replica sN are on Port + N
}

// Folder is where the witness's programs are.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "scenarios", "witness")
}

// Python returns the path of the interpreter itself; without one the test is skipped, in continuous integration it fails. What is
// called python3 on the PATH may be a script that chooses one (pyenv's): while it chooses, it and its subshells have the command line by
// which a drill looks for the replica.
func Python(t testing.TB) string {
	t.Helper()
	path, err := interpreter()
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("no python3 that runs: continuous integration must drill the witness: %v", err)
	}
	t.Skipf("SKIPPED, NOT TESTED: no python3 that runs: %v", err)
	return ""
}

// Node is what the supervisor starts the witness in Node with, beside its other arguments; without a node the test is skipped, in
// continuous integration it fails.
func Node(t testing.TB) []string {
	t.Helper()
	if out, err := exec.Command("node", "--version").CombinedOutput(); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("no node that runs: continuous integration must drill the witness in Node: %v %s", err, out)
	} else if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: no node that runs: %v %s", err, out)
	}
	return []string{"--program", "scheduler.js"}
}

var interpreter = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	return strings.TrimSpace(string(out)), err
})

// Start starts three replicas on the Redis at an address, with args added to the supervisor's command line, and returns when each is
// ready. They end with the test.
func Start(t testing.TB, redis string, args ...string) *Witness {
	t.Helper()
	w := &Witness{Dir: t.TempDir(), Port: FreePorts(t, Replicas)}
	supervise(t, append([]string{"--dir", w.Dir, "--redis", redis, "--port", strconv.Itoa(w.Port), "--replicas", strconv.Itoa(Replicas)}, args...))
	w.Await(t, "three replicas that are ready", func() bool {
		for i := range Replicas {
			if !strings.Contains(w.Log(t, i+1), " ready ") {
				return false
			}
		}
		return true
	})
	return w
}

// Offer offers jobs until the test ends, to replicas that others start.
func Offer(t testing.TB, redis string, args ...string) {
	t.Helper()
	supervise(t, append([]string{"--dir", t.TempDir(), "--redis", redis, "--replicas", "0"}, args...))
}

// supervise runs the supervisor until the test ends.
func supervise(t testing.TB, args []string) {
	t.Helper()
	said := &bytes.Buffer{}
	cmd := exec.Command(Python(t), append([]string{filepath.Join(Folder(), "supervisor.py")}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { end(t, cmd, ended, said) })
}

// Metrics are where the replicas serve theirs, host:port.
func (w *Witness) Metrics() (all []string) {
	for i := range Replicas {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", w.Port+i+1))
	}
	return all
}

// Replicas is how many Start starts.
const Replicas = 3

func end(t testing.TB, cmd *exec.Cmd, ended chan error, said *bytes.Buffer) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the supervisor of the witness: %v\n%s", err, said)
		}
	case <-time.After(endsWithin):
		_ = cmd.Process.Kill()
		t.Errorf("the supervisor of the witness did not end within %s of TERM", endsWithin)
	}
}

// Pid is that of a replica that lives, 0 where none does.
func (w *Witness) Pid(t testing.TB, replica int) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, fmt.Sprintf("s%d.pid", replica)))
	if os.IsNotExist(err) {
		return 0
	}
	pid, errPid := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || errPid != nil {
		t.Fatalf("pid file of s%d: %q, %v", replica, data, err)
	}
	return pid
}

// Log is what a replica has written, in all its lives.
func (w *Witness) Log(t testing.TB, replica int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, fmt.Sprintf("s%d.log", replica)))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(data)
}

// Await polls until something is so.
func (w *Witness) Await(t testing.TB, what string, so func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for late := time.After(endsWithin); !so(); {
		select {
		case <-poll.C:
		case <-late:
			t.Fatalf("not within %s: %s\n%s", endsWithin, what, w.Log(t, 1))
		}
	}
}

// FreePorts is a port whose n next ones are free. It is below those that a kernel gives to connections: among them there may be no gap,
// where many tests connect.
func FreePorts(t testing.TB, n int) int {
	t.Helper()
	for range 100 {
		port, free := 10000+rand.IntN(20000), true
		for i := range n + 1 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no free ports in a row")
	return 0
}
