package probes

import (
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// read is readBy, but briefly the thread waits itself, and Go does not learn of it: to park a goroutine until its answer comes, with
// a timer as the limit, costs more than all else about a look, since others are woken to search for work meanwhile.
func (a *answers) read(b []byte, until time.Time) (n int, err error) {
	if a.raw == nil || time.Until(until) > briefly {
		return a.readBy(b, until)
	}
	closed := a.raw.Control(func(fd uintptr) {
		for err = unix.EINTR; err == unix.EINTR || err == unix.EAGAIN; {
			if err = readable(fd, until); err == nil {
				n, err = unix.Read(int(fd), b)
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// readable waits until a socket has something to read.
func readable(fd uintptr, until time.Time) error {
	limit := unix.NsecToTimespec(max(0, int64(time.Until(until))))
	ask := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	switch n, _, err := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); {
	case err == unix.EINTR: // Go wants the processor
		runtime.Gosched()
		return err
	case err != 0:
		return err
	case n == 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}
