//go:build !linux

package spawn

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// childAttributes: a process group of its own. Nothing here ends a child with its parent but the closing of its standard input.
func childAttributes(_ *os.File, own *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if own != nil {
		a.Credential = own.Credential
	}
	return a
}

// ServerAttributes: whom a process runs as; nil = as the runner.
func ServerAttributes(as *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}

// RemoveMemory does nothing here.
func RemoveMemory(int) {}

// Reap waits for the process and collects it.
func Reap(_ *sync.Mutex, cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended is in ProcessState
}

// SignalGroup signals the process alone: only os.Process guards against a process id that was given to a stranger.
func SignalGroup(cmd *exec.Cmd, sig syscall.Signal) error { return cmd.Process.Signal(sig) }
