package client

import (
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// heartbeat is how often the clocks are compared while locks are held: timers stand still in a suspension, so without it a
// suspension would show at the next deadline only.
const heartbeat = time.Second

// keepTime steps every machine whose time has come, and all of them after a jump of the clocks. It never calls the store and never
// emits: a slow one of either must not delay another lock's fence.
func (c *Client) keepTime() {
	defer close(c.kept)
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	last := c.clock.Now()
	var round time.Duration // not before: in a crowd, deadlines gather
	for {
		now := c.clock.Now()
		if all := jumped(last, now); all || now.Mono >= round {
			c.tick(now, c.times.take(now.Mono, all))
			round = now.Mono + c.times.pause()
		}
		last = now
		var fire <-chan time.Time
		if at, ok := c.times.next(); ok {
			timer.Reset(min(heartbeat, max(at, round)-c.clock.Now().Mono))
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
	mu   sync.Mutex // taken while a handle's lock is held, never the other way round
	heap deadlines
	wake chan struct{} // the earliest deadline has moved forward
}

func newSchedule() *schedule { return &schedule{wake: make(chan struct{}, 1)} }

// set follows the machine's Next. The handle's lock is held.
func (s *schedule) set(h *Handle) {
	at, ok := h.m.Next()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		s.heap.remove(h)
		return
	}
	s.heap.set(h, at)
	if s.heap[0].h == h {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// remove takes the handle out: its caller drives it.
func (s *schedule) remove(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heap.remove(h)
}

// take removes and returns what is due at now, or everything.
func (s *schedule) take(now time.Duration, all bool) (due []*Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.heap) > 0 && (all || s.heap[0].at <= now) {
		h := s.heap[0].h
		s.heap.remove(h)
		due = append(due, h)
	}
	return due
}

func (s *schedule) next() (at time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		return 0, false
	}
	return s.heap[0].at, true
}

// pause is how long deadlines gather.
func (s *schedule) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) < crowd {
		return 0
	}
	return crowdPause
}
