package testbed

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes: a session of its own, and so a process group (a terminal's Ctrl-C reaches the runner first), and death with the
// runner. What a replica starts stays in its session, unless it asks for one of its own.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits until the process is dead, ends what is left of its group, and collects it. The collecting is done under mu:
// until then the kernel keeps the process id, so a signal sent under mu cannot hit a stranger.
func reap(mu *sync.Mutex, cmd *exec.Cmd) {
	var info unix.Siginfo
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	mu.Lock()
	defer mu.Unlock()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait() // how it ended is in ProcessState
}

// signalGroup signals the process and whatever it has started.
func signalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	return os.NewSyscallError("kill", syscall.Kill(-cmd.Process.Pid, sig))
}
