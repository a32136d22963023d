// Package pace spares wake-ups: what comes seldom is looked at when it comes, what comes often is looked at together. To wake a thread
// costs more than what is done with an event, and so does each time that a process which slept does anything at all: who waits, waits
// for the same instants as all others.
//
// It holds up no event for longer than Every, and none at all where fewer come than that allows.
package pace

import "time"

const (
	// Every is the time between two looks at what comes often.
	Every = 5 * time.Millisecond
	spare = 20 // looks that may be made at once, where none was made for so many times Every
)

// Pace is that of one thing. It is not safe for concurrent use.
type Pace struct{ next time.Duration }

// Ahead says how long the look that is due at now is to wait, and counts it as made. All of a process use one clock.
func (p *Pace) Ahead(now time.Duration) (wait time.Duration) {
	if p.next > now {
		wait = Until(now, Every)
	}
	p.next = max(p.next, now-spare*Every) + Every
	return wait
}

// Until is how long it is from now to the next of the instants that lie every so often.
func Until(now, every time.Duration) time.Duration { return every - now%every }
