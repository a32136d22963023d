//go:build !linux

package monotime

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SleepUntil returns at the instant ns of Now, or later.
func SleepUntil(ns int64) { time.Sleep(time.Duration(ns - Now())) }

// AwaitReadable waits until a descriptor has something to read, or is at its end: nil. At the instant ns of Now, or up to a millisecond later,
// it is os.ErrDeadlineExceeded.
func AwaitReadable(fd uintptr, ns int64) error {
	for {
		left := max(0, time.Duration(ns-Now())+time.Millisecond-1)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left/time.Millisecond))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return os.ErrDeadlineExceeded
		default:
			return nil
		}
	}
}
