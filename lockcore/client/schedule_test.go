package client_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// lateClock hands out one of its readings only when it is old: a pause came between reading and using it.
type lateClock struct {
	clock
	n, late int64 // readings so far; the one that is late
	length  time.Duration
	ends    atomic.Int64 // of the pause
}

func (c *lateClock) Now() lockcore.Instant {
	now := c.clock.Now()
	if atomic.AddInt64(&c.n, 1) == c.late {
		c.ends.Store(int64(now.Mono + c.length))
		wait(c.length)
	}
	return now
}

// Whichever reading of the clock a pause follows, the fence comes when it is due, or when the pause is over. (A timer that was set from
// an old reading used to be late by the whole pause, however long before.)
func TestPauseAfterAnyReading(t *testing.T) {
	const pause = 800 * time.Millisecond
	readings := int64(1)
	for late := int64(1); late <= readings; late++ {
		synctest.Test(t, func(t *testing.T) {
			p := policy()
			p.RenewEvery = 0
			c := &lateClock{clock: clock{start: time.Now()}, late: late, length: pause}
			cl, err := client.New(client.Options{Store: newFaulty(), Policy: p, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			h, err := cl.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			<-h.Context().Done()
			at := time.Since(c.start)
			readings = max(readings, atomic.LoadInt64(&c.n))
			if want := max(9*time.Second, time.Duration(c.ends.Load())); at != want {
				t.Errorf("a pause after reading %d ended at %s: fenced at %s, want at %s", late, time.Duration(c.ends.Load()), at, want)
			}
			if err := cl.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d readings until the fence", readings)
}
