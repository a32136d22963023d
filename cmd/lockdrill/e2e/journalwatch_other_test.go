//go:build !linux

package e2e

import (
	"testing"
	"time"
)

// writesTo returns a function that waits until the file may have been written to.
func writesTo(*testing.T, string) (wait func()) {
	tick := time.NewTicker(time.Millisecond)
	return func() { <-tick.C }
}
