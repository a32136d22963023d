package kubetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Need returns the folder with these programs, as internal/kubetools/build left them. Where one is missing the test is skipped;
// with LOCKDRILL_KUBE=1, as `make test-kube` sets it, it fails. It is skipped with -short too, as the other tests that take seconds.
func Need(t testing.TB, programs ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: -short")
	}
	dir, err := binaries()
	for _, p := range programs {
		if err == nil {
			_, err = os.Stat(filepath.Join(dir, p))
		}
	}
	switch {
	case err == nil:
		return dir
	case os.Getenv("LOCKDRILL_KUBE") == "1":
		t.Fatalf("a program of Kubernetes is not built, and LOCKDRILL_KUBE=1 asks for it: run `make test-kube`: %v", err)
	default:
		t.Skipf("SKIPPED, NOT TESTED: `make test-kube` builds a real Kubernetes and runs this: %v", err)
	}
	return ""
}

// binaries is the folder that internal/kubetools/build prints.
func binaries() (string, error) {
	if dir := os.Getenv("LOCKDRILL_KUBE_BIN"); dir != "" {
		return dir, nil
	}
	root, err := os.Getwd() // of a test: its package's folder
	if err != nil {
		return "", err
	}
	tools := filepath.Join("internal", "kubetools")
	for {
		if _, err := os.Stat(filepath.Join(root, tools, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(root)
		if up == root {
			return "", errors.New("internal/kubetools is not above this folder")
		}
		root = up
	}
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(root, tools, name))
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return filepath.Join(root, "bin", "kube", hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// Process is a program that runs.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	gone      chan struct{}
}

// Spawn starts a program of the folder of Need, or one whose path is given, in Env.Dir. It ends with the test, and with the test's
// process whatever ends that; its output is NAME.log in Env.Dir.
func (e *Env) Spawn(program string, args ...string) (*Process, error) {
	p := &Process{name: filepath.Base(program), gone: make(chan struct{})}
	p.log = filepath.Join(e.Dir, p.name+".log")
	if p.name == program {
		program = filepath.Join(e.bin, program)
	}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = e.Dir, out, out, attributes()
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	e.t.Cleanup(p.Kill)
	return p, nil
}

// start keeps the thread that starts the process until the process is over: the death signal follows that thread.
func (p *Process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in ProcessState
			close(p.gone)
		}
	}()
	return <-started
}

// Kill ends the process at once: what it knows is thrown away, and an API server takes its time to end nicely.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// until polls ready; an error says how the program's log ended. It ends a program that does not get ready.
func (p *Process) until(ctx context.Context, ready func() error) error {
	poll := time.NewTicker(lookEvery)
	defer poll.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-p.gone:
			return fmt.Errorf("%s exited at once:\n%s", p.name, p.tail())
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("%s is not ready: %w:\n%s", p.name, err, p.tail())
		}
	}
}

// tail is the end of the program's log.
func (p *Process) tail() string {
	const most = 2000
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}
