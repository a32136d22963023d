package kubetest

import "syscall"

// attributes: a group of its own, so that a terminal's Ctrl-C reaches the test first, and death with the test.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
