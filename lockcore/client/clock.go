package client

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Clock reads the replica's clocks. Timers run on the standard library's, so Mono must run like it.
type Clock interface {
	Now() lockcore.Instant
}

// systemClock reads CLOCK_MONOTONIC and the wall clock the way that costs no system call, and CLOCK_BOOTTIME only where it may tell
// something new: a call of the client's reads the clocks a dozen times.
type systemClock struct {
	base   time.Time
	origin time.Duration // CLOCK_MONOTONIC at base
	ahead  atomic.Pointer[lead]
}

// lead is how far the other clocks were ahead of Mono when all three were read.
type lead struct{ at, boot, wall time.Duration }

const (
	leadKeeps  = 10 * time.Millisecond // a suspension that the wall clock does not show is noticed within this
	wallMoves  = time.Millisecond      // more than this, and CLOCK_BOOTTIME is asked at once
	originLook = 16                    // readings, of which the quickest counts
)

// NewSystemClock returns the clock that a Client uses where its options name none: for those who want to wrap it. Clients may share it.
func NewSystemClock() Clock { return newSystemClock() }

func newSystemClock() *systemClock {
	c := &systemClock{}
	best := time.Duration(1<<63 - 1)
	for range originLook {
		before := monotime.Now()
		base := time.Now()
		width := time.Duration(monotime.Now() - before)
		if width < best {
			best, c.base, c.origin = width, base, time.Duration(before)+width/2
		}
	}
	return c
}

// Now implements Clock.
func (c *systemClock) Now() lockcore.Instant {
	t := time.Now()
	now := lockcore.Instant{Mono: c.origin + t.Sub(c.base), Wall: time.Duration(t.UnixNano())}
	if runtime.GOOS != "linux" { // elsewhere Go's monotonic clock need not be CLOCK_MONOTONIC
		now.Mono, now.Boot = time.Duration(monotime.Now()), time.Duration(monotime.Boot())
		return now
	}
	l := c.ahead.Load()
	if l == nil || now.Mono-l.at > leadKeeps || (now.Wall-now.Mono-l.wall).Abs() > wallMoves {
		l = &lead{at: now.Mono, boot: c.bootLead(), wall: now.Wall - now.Mono}
		c.ahead.Store(l)
	}
	now.Boot = now.Mono + l.boot
	return now
}

// bootLead reads how far CLOCK_BOOTTIME is ahead of Mono. A reading that was interrupted is repeated: it would look like a
// suspension.
func (c *systemClock) bootLead() time.Duration {
	const quick, tries = 50 * time.Microsecond, 4
	for try := 1; ; try++ {
		before := time.Now()
		boot := time.Duration(monotime.Boot())
		width := time.Since(before)
		if width < quick || try == tries {
			return max(0, boot-width/2-(c.origin+before.Sub(c.base)))
		}
	}
}
