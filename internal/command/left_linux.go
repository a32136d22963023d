package command

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// endLeft waits until the process is dead and ends what is left of its group. The process is not collected yet: until then its number,
// and that of its group, is nobody else's.
func endLeft(pid int) {
	var info unix.Siginfo
	for errors.Is(unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // nothing is left, or it is not to be
}
