//go:build unix

package drill

import "syscall"

// mostFiles is how many files this process may have open; 0 = not known.
func mostFiles() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur)
}
