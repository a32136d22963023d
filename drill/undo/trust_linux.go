package undo

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasAccessList reports that more than the mode says who may write.
func hasAccessList(f *os.File) bool {
	n, err := unix.Fgetxattr(int(f.Fd()), "system.posix_acl_access", nil)
	return err == nil && n > 0
}
