//go:build !linux

package kubetest

import "syscall"

// attributes: a group of its own. Nothing here ends a program with a test that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
