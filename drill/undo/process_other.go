//go:build !linux

package undo

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lives knows on these systems only that there is no such process: one of that number may be another by now.
func lives(p Process) (bool, error) {
	if errors.Is(syscall.Kill(p.PID, 0), syscall.ESRCH) {
		return false, nil
	}
	return false, fmt.Errorf("whether process %d is still the same cannot be told on this system", p.PID)
}

// signalAlone refuses here what may reach another process.
func (p Process) signalAlone(syscall.Signal) (none bool, err error) {
	gone, err := lives(p)
	return !gone && err == nil, err
}

// members knows here only that there is no such group.
func (p Process) members() ([]int, error) {
	if errors.Is(syscall.Kill(-p.PID, 0), syscall.ESRCH) {
		return nil, nil
	}
	return nil, fmt.Errorf("whether process group %d is still the same cannot be told on this system", p.PID)
}

func (p Process) carries(int) bool { return false }

func markOf(int) string { return "" }

func hasAccessList(*os.File) bool { return false }

func startOf(int) string { return "" }

func bootID() string { return "" }

// endMarked cannot tell here which processes carry a mark.
func endMarked(string) (none bool, err error) { return true, nil }
