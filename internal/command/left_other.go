//go:build !linux

package command

// endLeft does nothing here: after its end, a process's number may be a stranger's.
func endLeft(int) {}
