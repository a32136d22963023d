//go:build !linux

package testbed

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

func serverAttributes(as *syscall.Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}

func removeMemory(int) {}

// reap waits for the process and collects it.
func reap(_ *sync.Mutex, cmd *exec.Cmd) {
	_ = cmd.Wait() // how it ended is in ProcessState
}

// signalGroup signals the process alone: only os.Process guards against a process id that was given to a stranger.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error { return cmd.Process.Signal(sig) }
