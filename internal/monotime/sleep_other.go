//go:build !linux

package monotime

import "time"

// SleepUntil returns at the instant ns of Now, or later.
func SleepUntil(ns int64) { time.Sleep(time.Duration(ns - Now())) }
