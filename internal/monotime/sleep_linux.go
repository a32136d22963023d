package monotime

import (
	"errors"

	"golang.org/x/sys/unix"
)

// SleepUntil returns at the instant ns of Now, or as soon after it as the kernel lets the thread run: no timer of Go's own, and no other
// goroutine, is on the way.
func SleepUntil(ns int64) {
	at := unix.NsecToTimespec(ns)
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil), unix.EINTR) {
	}
}
