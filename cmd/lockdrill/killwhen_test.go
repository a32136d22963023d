package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// killWhen runs the drill and kills its runner as soon as the moment has come; returns the run's folder. The kill takes the runner's process
// group along, as a CI does.
func killWhen(t *testing.T, k killable, unguarded bool, moment func(dir string, said fmt.Stringer)) (folder string) {
	t.Helper()
	base := t.TempDir()
	file, dir := filepath.Join(base, "drill.yaml"), filepath.Join(base, "run")
	write(t, file, []byte(unrehearsed(k.yaml)))
	var text saying
	cmd := lockdrill(append([]string{"run", file, "--out", dir}, k.args...)...)
	cmd.Env = append(os.Environ(), scriptedEnv+"="+t.TempDir()) // for experiments whose worker is this test
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if unguarded {
		var dogs []int
		until(t, "the watchdog", func() bool { dogs = processes("watchdog", dir); return len(dogs) == 1 })
		if err := syscall.Kill(dogs[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		_ = cmd.Wait()
		text.end()
	}()
	moment(dir, &text)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the killed run", text.Over)
	if cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the run ended by itself, before it was killed:\n%s", text.String())
	}
	return dir
}

// saying is what a run has said so far, and whether it has ended.
type saying struct {
	mu   sync.Mutex
	text bytes.Buffer
	over bool
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *saying) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// Over says whether the run has ended.
func (s *saying) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}
