//go:build !linux

package monotime

// Boot equals Now where the system has no CLOCK_BOOTTIME: a suspension then shows in the wall clock only.
func Boot() int64 { return Now() }
