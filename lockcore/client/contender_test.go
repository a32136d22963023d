package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// contender is a process that wants the key of a world, again and again, and works under it.
//
// A pause stops all of it at once, as SIGSTOP or a long collection of garbage does: whatever goroutine reads the clock, sends a
// request, receives an answer, emits an event, or goes on with its work, is stopped there until the pause ends; its timers fire late,
// and the world runs on. What the code does between two such places takes no virtual time, so nothing can be seen of a pause
// elsewhere. Not modelled: a suspension, in which CLOCK_MONOTONIC stands still (TestPoint10), a wall clock that is set, and death,
// which a pause beyond every lease comes near.
type contender struct {
	w      *world
	who    int
	client *client.Client
	checks bool // asks Check before each write, not only the context

	mu     sync.Mutex
	calls  map[lockcore.Op]int
	writes int
	until  time.Duration // of the pause, if there is one now
	next   pause
	pauses []interval // that were noticed
	drawn  int
}

// pause comes at from, or at a passing of a place afterwards: not always the first, because much happens at one instant.
type pause struct {
	from   time.Duration
	at     place
	skip   int // passings
	length time.Duration
}

type interval struct{ from, to time.Duration }

// place is where a pause can hit worst.
type place int

const (
	anywhere  place = iota // wherever the contender is at that time
	atReading              // the clock has been read, and what was read grows old
	atSending              // a request is about to leave
	atReply                // an answer has come, or its time is over
	atLook                 // the work has seen that it may go on, and has not gone on yet
	elsewhere              // a pause holds here, but is not aimed here
)

func newContender(t *testing.T, w *world, who int, p lockcore.Policy) *contender {
	c := &contender{w: w, who: who, calls: map[lockcore.Op]int{}}
	rng := w.dice(who, chooseWork, 0)
	c.checks = p.Class == lockcore.Critical || rng.IntN(2) == 0
	c.next = c.drawPause(0)
	var store lockcore.Store = wire{c}
	if rng.IntN(2) == 0 {
		store = manyWire{wire{c}}
	}
	var err error
	c.client, err = client.New(client.Options{
		Store: store, Policy: p, Lock: "job", Source: fmt.Sprintf("r%d.1", who+1), Emit: c.emit, Clock: c, Seed: int64(w.seed)*4 + int64(who),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *contender) emit(e history.Event) {
	c.gate(elsewhere)
	if c.w.log != nil {
		c.w.tracef(c.who, "%s %s %s %+v %+v", e.Kind, e.Epoch, e.Outcome, e.Call, e.Abandon)
	}
}

// Now implements client.Clock.
func (c *contender) Now() lockcore.Instant {
	c.gate(elsewhere)
	now := c.w.now()
	c.gate(atReading)
	return lockcore.Instant{Mono: now, Boot: now, Wall: now}
}

// gate lets pass who is not paused.
func (c *contender) gate(at place) {
	for {
		d := c.pausedUntil(at) - c.w.now()
		if d <= 0 {
			return
		}
		wait(d)
	}
}

// pausedUntil begins the pause that is due at this place, if any.
func (c *contender) pausedUntil(at place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.w.now()
	for c.until <= now && c.next.from <= now {
		from := now
		switch {
		case c.next.at == anywhere:
			from = c.next.from
		case c.next.at != at:
			return c.until
		case c.next.skip > 0:
			c.next.skip--
			return c.until
		}
		end := from + c.next.length
		c.next = c.drawPause(end)
		if end > now {
			c.freeze(from, end)
		}
	}
	return c.until
}

func (c *contender) freeze(from, to time.Duration) {
	c.until = to
	c.pauses = append(c.pauses, interval{from, to})
	c.w.tracef(c.who, "PAUSED from %s to %s", from, to)
}

// drawPause chooses the pause that follows one that ended at after.
func (c *contender) drawPause(after time.Duration) pause {
	l := c.w.limits
	if l.pause == 0 || after > c.w.horizon {
		return pause{from: 1 << 62}
	}
	rng := c.w.dice(c.who, choosePause, c.drawn)
	c.drawn++
	p := pause{from: after + l.gap + share(rng, c.w.policy.TTL, 0, 2), length: share(rng, l.pause, 0.7, 1)}
	if rng.IntN(2) == 0 {
		p.at, p.skip = place(rng.IntN(int(elsewhere))), rng.IntN(8)
	}
	return p
}

// awake is the first instant from at on at which the contender was not paused.
func (c *contender) awake(at time.Duration) time.Duration {
	for _, p := range c.pauses {
		if p.from <= at && at < p.to {
			at = p.to
		}
	}
	return at
}

// rest lets d pass in the contender's life, or less where ctx ends.
func (c *contender) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	c.gate(elsewhere)
}

// live takes the lock and works, until the horizon.
func (c *contender) live() {
	ctx, cancel := context.WithTimeout(context.Background(), c.w.horizon)
	defer cancel()
	for n := 1; ctx.Err() == nil; n++ {
		rng := c.w.dice(c.who, chooseWork, n)
		c.rest(ctx, share(rng, c.w.policy.TTL, 0.01, 0.6))
		if ctx.Err() == nil {
			c.round(ctx, rng)
		}
	}
}

// round is one attempt: with Do or by hand, by a caller who is patient or not.
func (c *contender) round(ctx context.Context, rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		impatient, cancel := context.WithTimeout(ctx, share(rng, c.w.policy.TTL, 0, 1))
		defer cancel()
		ctx = impatient
	}
	if rng.IntN(3) == 0 {
		_ = c.client.Do(ctx, "k", func(work context.Context, h *client.Handle) error {
			c.work(work, h, rng)
			return nil
		})
		return
	}
	h, err := c.client.Acquire(ctx, "k")
	if err != nil {
		return
	}
	c.work(h.Context(), h, rng)
	if rng.IntN(16) == 0 {
		h.Leave()
		return
	}
	_ = h.Release(context.Background())
}

// believe records the belief in h until its context ends.
func (c *contender) believe(work context.Context, h *client.Handle) {
	w := c.w
	b := belief{who: c.who, epoch: h.Epoch(), from: w.now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	for token, a := range w.asks {
		if lockcore.Fingerprint(token) == b.epoch {
			a.used = true
		}
	}
	context.AfterFunc(work, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		b.to, b.owner, b.reason = w.now(), w.owner(), reason(work)
		w.beliefs = append(w.beliefs, b)
		w.tracef(c.who, "END of belief in %s: %q", b.epoch, b.reason)
	})
}

// work writes to the ledger, first the begin.
func (c *contender) work(ctx context.Context, h *client.Handle, rng *rand.Rand) {
	c.believe(ctx, h)
	state := history.StateBegin
	for range 1 + rng.IntN(24) {
		if c.w.now() > c.w.horizon || !c.write(ctx, h, state) {
			return
		}
		state = history.StateTick
		c.rest(ctx, share(rng, c.w.policy.TTL, 0.01, 0.2))
	}
}

// may is the look before an effect.
func (c *contender) may(ctx context.Context, h *client.Handle) bool {
	if ctx.Err() != nil || c.checks && h.Check() != nil {
		return false
	}
	c.gate(atLook)
	return true
}

// write makes one effect, with the same operation until it is answered; false = the work must stop. It waits for an answer as long as
// the request may be on its way: work whose last write may still be applied has not stopped.
func (c *contender) write(ctx context.Context, h *client.Handle, state string) bool {
	c.mu.Lock()
	c.writes++
	n := c.writes
	c.mu.Unlock()
	answers := make(chan lockcore.Receipt, 4) // as many as tries
	for try := range cap(answers) {
		if !c.may(ctx, h) {
			return false
		}
		e := lockcore.Effect{Key: "k", Subject: "loop", Loop: true, State: state, Epoch: h.Epoch(), Fence: h.Fence(),
			Op: fmt.Sprintf("c%d#%d", c.who, n), Writer: fmt.Sprintf("r%d.1", c.who+1)}
		c.gate(atSending)
		c.deliver(e, n*cap(answers)+try, answers)
		timer := time.NewTimer(c.w.policy.StopBudget)
		select {
		case r := <-answers:
			timer.Stop()
			c.gate(atReply)
			return r.Accepted
		case <-timer.C:
			c.gate(atReply)
		}
	}
	return false
}

// deliver carries one request to the ledger, and its answer back, unless one of them gets lost.
func (c *contender) deliver(e lockcore.Effect, n int, answers chan<- lockcore.Receipt) {
	w, rng := c.w, c.w.dice(c.who, chooseWrite, n)
	there, back := share(rng, w.limits.flight, 0, 0.1), share(rng, w.policy.TTL, 0, 0.01)
	if rng.IntN(4) == 0 {
		there = share(rng, w.limits.flight, 0, 1)
	}
	lost, mute := rng.IntN(20) == 0, rng.IntN(20) == 0
	if lost {
		return
	}
	time.AfterFunc(there, func() {
		r := w.write(c.who, e)
		if !mute {
			time.AfterFunc(back, func() { answers <- r })
		}
	})
}
