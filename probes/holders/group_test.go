package holders

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func endGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
