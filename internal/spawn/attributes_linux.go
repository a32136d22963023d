package spawn

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes: a session of its own, and so a process group (a terminal's Ctrl-C reaches the runner first), and death with the
// runner. What a replica starts stays in its session, unless it asks for one of its own. cgroup is where it is born; nil = where the
// runner is. own are those of ServerAttributes; nil = as the runner.
func childAttributes(cgroup *os.File, own *syscall.SysProcAttr) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if own != nil {
		a.Credential, a.Pdeathsig = own.Credential, own.Pdeathsig
	}
	if cgroup != nil {
		a.UseCgroupFD, a.CgroupFD = true, int(cgroup.Fd())
	}
	return a
}

// ServerAttributes: whom a process runs as (nil = as the runner), and what it is told by the kernel when the runner dies.
func ServerAttributes(as *syscall.Credential, orphaned syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: orphaned}
}

// RemoveMemory removes a segment of shared memory whose users are dead.
func RemoveMemory(segment int) {
	if segment != 0 {
		_, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) // gone already
	}
}

// Reap waits until the process is dead, ends what is left of its group, and collects it. The collecting is done under mu:
// until then the kernel keeps the process id, so a signal sent under mu cannot hit a stranger.
func Reap(mu *sync.Mutex, cmd *exec.Cmd) {
	var info unix.Siginfo
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	mu.Lock()
	defer mu.Unlock()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait() // how it ended is in ProcessState
}

// SignalGroup signals the process and whatever it has started.
func SignalGroup(cmd *exec.Cmd, sig syscall.Signal) error {
	return os.NewSyscallError("kill", syscall.Kill(-cmd.Process.Pid, sig))
}
