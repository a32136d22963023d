package pace

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is seldom waits for nothing; what is asked for again at once is looked at on the common instants, every so often.
func TestAhead(t *testing.T) {
	var p Pace
	now := 3*time.Second + 1234*time.Microsecond
	for i := range 100 {
		if wait := p.Ahead(now); wait != 0 {
			t.Fatalf("look %d, one every %s: waits %s", i, Every, wait)
		}
		now += Every
	}
	now += time.Hour
	looks, waited := 0, 0
	for until := now + time.Second; now < until; looks++ {
		wait := p.Ahead(now)
		if wait < 0 || wait > Every {
			t.Fatalf("waits %s", wait)
		}
		if now += wait; wait > 0 {
			if waited++; now%Every != 0 {
				t.Fatalf("waits until %s, which is none of the common instants", now)
			}
		}
		now += time.Duration(rand.Int64N(int64(Every / 10))) // what a look takes
	}
	if most := int(time.Second/Every) + 2*spare; looks > most || waited < looks-2*spare {
		t.Errorf("%d looks in a second, %d of them after a wait: want at most %d, and nearly all", looks, waited, most)
	}
}

func TestUntil(t *testing.T) {
	for now, want := range map[time.Duration]time.Duration{0: 10, 1: 9, 9: 1, 10: 10, 25: 5} {
		if got := Until(now, 10); got != want {
			t.Errorf("Until(%d, 10) = %d, want %d", now, got, want)
		}
	}
}
