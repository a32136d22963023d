package monotime

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SleepUntil returns at the instant ns of Now, or as soon after it as the kernel lets the thread run: no timer of Go's own, and no other
// goroutine, is on the way. It keeps one of Go's processors meanwhile, which others must be able to spare.
//
// Go does not learn that the thread sleeps: it would take the processor away and give it back, and its monitor, which watches for such
// calls every 20 microseconds, cost more than all of the sleeper's own work. When Go wants the processor, it sends a signal.
func SleepUntil(ns int64) {
	at := unix.NsecToTimespec(ns)
	for {
		_, _, err := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		if err != unix.EINTR {
			return
		}
		runtime.Gosched()
	}
}
