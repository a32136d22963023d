package main

import (
	"bytes"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/internal/testkit"
)

var (
	until = testkit.Until
	write = testkit.Write
	read  = testkit.Read
)

func kubeconfig(t *testing.T, dir, url string) { testkit.Kubeconfig(t, dir, url) }

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// try runs the binary in a fresh working directory and waits for its end.
func try(t *testing.T, args ...string) result {
	t.Helper()
	return tryIn(t, t.TempDir(), args...)
}

func tryIn(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return finish(t, dir, lockdrill(args...))
}

// finish runs a command in a folder and waits for its end.
func finish(t *testing.T, dir string, cmd *exec.Cmd) result {
	t.Helper()
	return finishWithin(t, dir, cmd, 5*time.Minute)
}

// finishWithin is finish with a limit: one that hangs, on whatever machine, is killed.
func finishWithin(t *testing.T, dir string, cmd *exec.Cmd, within time.Duration) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	limit := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
