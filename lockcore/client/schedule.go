package client

import (
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// heartbeat is how often the clocks are compared while locks are held: timers stand still in a suspension, so without it a
// suspension would show at the next deadline only.
const heartbeat = time.Second

// armSlack is how old the reading may be from which the timer was set: a pause in between makes the timer late by as much, and a
// second one at the deadline would then use up a stop budget that has room for one.
const armSlack = time.Millisecond

// keepTime steps every machine whose time has come, and all of them after a jump of the clocks. It never calls the store and never
// emits: a slow one of either must not delay another lock's fence.
func (c *Client) keepTime() {
	defer close(c.kept)
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	last := c.clock.Now()
	var ripe []*Handle
	var together []due
	var round time.Duration // not before: in a crowd, deadlines gather
	for {
		now := c.clock.Now()
		if all := jumped(last, now); all || now.Mono >= round {
			ripe = c.times.take(now.Mono, all, ripe)
			c.tick(now, ripe, &together)
			clear(ripe)
			ripe = ripe[:0]
			round = now.Mono + c.times.pause()
		}
		last = now
		var fire <-chan time.Time
		if at, ok := c.times.next(); ok {
			read := c.clock.Now().Mono
			timer.Reset(min(heartbeat, max(at, round)-read))
			if c.clock.Now().Mono-read > armSlack {
				timer.Reset(0) // look again
			}
			fire = timer.C
		}
		select {
		case <-fire:
		case <-c.times.wake:
		case <-c.stop:
			return
		}
	}
}

// jumped reports whether the clocks disagree about the time passed by more than a correction could explain.
func jumped(a, b lockcore.Instant) bool {
	const correction = 10 * time.Millisecond
	mono := b.Mono - a.Mono
	return b.Boot-a.Boot-mono > correction || b.Wall-a.Wall-mono > correction
}

// schedule is the deadlines of the machines that the client drives, earliest first.
type schedule struct {
	mu    sync.Mutex // taken while a handle's lock is held, never the other way round
	all   deadlines
	asked time.Duration // what next answered
	wake  chan struct{} // there is an earlier one by now
}

const never = time.Duration(1<<63 - 1)

func newSchedule() *schedule {
	return &schedule{asked: never, wake: make(chan struct{}, 1)}
}

// set follows the machine's Next. The handle's lock is held. One that its caller drives keeps its place: a tick does nothing to it.
func (s *schedule) set(h *Handle) {
	at, ok := h.m.Next()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		s.all.remove(h)
		return
	}
	s.all.set(h, at)
	if at < s.asked {
		s.asked = at
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// take removes what is due at now, or everything, and appends it to due.
func (s *schedule) take(now time.Duration, all bool, due []*Handle) []*Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.take(now, all, due)
}

// next is the earliest deadline. Who asks is woken when there is an earlier one.
func (s *schedule) next() (at time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok = s.all.first()
	if s.asked = at; !ok {
		s.asked = never
	}
	return at, ok
}

// pause is how long deadlines gather.
func (s *schedule) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < crowd {
		return 0
	}
	return crowdPause
}
