package client

import (
	"container/heap"
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
	for {
		now := c.clock.Now()
		for _, h := range c.times.take(now.Mono, jumped(last, now)) {
			h.later(h.step(byClient, lockcore.Input{Kind: lockcore.Tick}))
		}
		last = now
		var fire <-chan time.Time
		if at, ok := c.times.next(); ok {
			timer.Reset(min(heartbeat, at-c.clock.Now().Mono))
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
	switch {
	case !ok:
		if h.slot >= 0 {
			heap.Remove(&s.heap, h.slot)
		}
		return
	case h.slot >= 0:
		h.at = at
		heap.Fix(&s.heap, h.slot)
	default:
		h.at = at
		heap.Push(&s.heap, h)
	}
	if s.heap[0] == h {
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
	if h.slot >= 0 {
		heap.Remove(&s.heap, h.slot)
	}
}

// take removes and returns what is due at now, or everything.
func (s *schedule) take(now time.Duration, all bool) (due []*Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.heap) > 0 && (all || s.heap[0].at <= now) {
		due = append(due, heap.Pop(&s.heap).(*Handle))
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

// deadlines implements heap.Interface; each handle knows its slot.
type deadlines []*Handle

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

func (d *deadlines) Push(x any) {
	h := x.(*Handle)
	h.slot = len(*d)
	*d = append(*d, h)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.slot = -1
	return h
}
