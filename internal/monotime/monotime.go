// Package monotime reads the system's monotonic clocks as numbers that two processes of one host can compare.
//
// The standard library's monotonic reading cannot leave a process; CLOCK_MONOTONIC can, and on Linux all processes share it.
// It is the only clock whose readings are compared in lockdrill. Whoever must wake by it in time waits here, on a thread of its own.
package monotime

import "golang.org/x/sys/unix"

// Now is CLOCK_MONOTONIC in nanoseconds. It stands still while the machine is suspended.
func Now() int64 { return read(unix.CLOCK_MONOTONIC) }

func read(clock int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic("monotime: the system has no monotonic clock: " + err.Error()) // POSIX demands it
	}
	return ts.Nano()
}
