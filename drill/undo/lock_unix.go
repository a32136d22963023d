//go:build unix

package undo

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// ErrBusy: another process holds the journal's lock: its runner is alive, or somebody is undoing it already.
var ErrBusy = errors.New("the journal is in use by another process")

// lockFile takes the file's lock, which ends with the process, or fails with ErrBusy.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}

func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
