package monotime

import "golang.org/x/sys/unix"

// Boot is CLOCK_BOOTTIME in nanoseconds: like Now, but runs on while the machine is suspended.
func Boot() int64 { return read(unix.CLOCK_BOOTTIME) }
