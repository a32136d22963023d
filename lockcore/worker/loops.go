package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

// term is a leader's hold on its loop's key.
type term struct {
	h     *client.Handle // nil = not the leader
	begun bool           // this epoch has written its begin
}

// runLoop polls until ctx ends: whoever gets the key, or has it, does a tick. Replicas begin at random phases, so that they do
// not ask all at once.
func (w *worker) runLoop(ctx context.Context, l *lock) {
	p := l.Policy.Loop
	rng := rand.New(rand.NewPCG(uint64(w.seed(l.Name)), 1))
	var t term
	defer func() { w.resign(ctx, l, &t) }()
	next := time.Now().Add(time.Duration(rng.Float64() * float64(p.Poll)))
	for {
		if !w.await(ctx, l, &t, next) {
			return
		}
		interval := float64(p.Poll) * (1 + p.Jitter*(2*rng.Float64()-1))
		next = next.Add(time.Duration(interval))
		if now := time.Now(); next.Before(now) { // a tick longer than the poll: the next one at once, none are made up for
			next = now
		}
		if t.h != nil && t.h.Context().Err() != nil { // lost at this very moment
			w.resign(ctx, l, &t)
		}
		if t.h == nil {
			h, err := l.client.Acquire(ctx, l.Key)
			if err != nil { // busy, or no answer: the next poll asks again
				continue
			}
			t = term{h: h}
		}
		w.tick(ctx, l, &t)
	}
}

// await waits for the time of the next poll, and resigns as soon as a lock that is held idle is lost. It returns false when
// ctx has ended.
func (w *worker) await(ctx context.Context, l *lock, t *term, next time.Time) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		var lost <-chan struct{}
		if t.h != nil {
			lost = t.h.Context().Done()
		}
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		case <-lost:
			w.resign(ctx, l, t)
		}
	}
}

// tick is one tick of work, and what the loop's mode does with the lock afterwards.
func (w *worker) tick(ctx context.Context, l *lock, t *term) {
	s := w.enter(l, t.h, l.Key, l.Name)
	why := s.tick(ctx, l.Policy.Loop.Tick, t)
	s.exit(why)
	switch {
	case why == exitFenced || why == exitRefused || why == exitStopped || l.Policy.Loop.Mode == lockcore.LoopExplicit:
		w.resign(ctx, l, t)
	case l.Policy.Loop.Mode == lockcore.LoopTTLHold:
		t.h.Leave()
		l.validity.forget(t.h.Epoch())
		*t = term{}
	}
}

func (s *workItem) tick(ctx context.Context, length time.Duration, t *term) string {
	if !t.begun {
		if _, why := s.write(effect{state: history.StateBegin, loop: true}); why != "" {
			return why
		}
		t.begun = true
	}
	if _, why := s.write(effect{state: history.StateTick, loop: true}); why != "" {
		return why
	}
	if why := s.labour(ctx, length); why != "" {
		return why
	}
	return exitDone
}

// resign gives up the key, if it is held.
func (w *worker) resign(ctx context.Context, l *lock, t *term) {
	if t.h != nil {
		w.release(ctx, l, t.h)
		*t = term{}
	}
}
