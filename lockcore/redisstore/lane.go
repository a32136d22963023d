package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockdrill/lockdrill/lockcore"
)

const (
	maxBatch = 256   // calls in one pipeline: about a millisecond of the server's
	maxLine  = 16384 // calls that wait for a pipeline; more than that are refused
)

// lane makes the calls of many goroutines in few pipelines: while one is under way, what comes gathers for the next. A call that
// finds the lane empty is made at once, by its caller.
//
// Its one invariant: a call is written at most once, and one whose error wraps lockcore.ErrNotSent was not written.
type lane struct {
	redis redis.UniversalClient
	many  *script // runs several calls at once; nil where their keys would have to share a slot
	max   int     // pipelines under way at once, each on a connection of its own
	never bool    // nobody makes a call by itself: for tests of what travels together

	mu      sync.Mutex
	waiting []*call
	active  int
	closed  bool
	busy    sync.WaitGroup // those who are active
}

// do makes the call. ctx's end ends the wait: the call was not sent where it still waited, else its effect is unknown.
func (l *lane) do(ctx context.Context, c *call) (any, error) {
	c.until, _ = ctx.Deadline()
	alone, err := l.enter(c)
	switch {
	case err != nil:
		return nil, err
	case alone:
		l.one(ctx, c)
		l.leave()
		return c.result()
	}
	select {
	case <-c.done:
		return c.result()
	case <-ctx.Done():
	}
	if c.state.CompareAndSwap(waiting, withdrawn) {
		return nil, fmt.Errorf("%w: %w", lockcore.ErrNotSent, ctx.Err())
	}
	return nil, ctx.Err()
}

// enter puts the call in line, or says that its caller can make it: nobody else is there.
func (l *lane) enter(c *call) (alone bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false, fmt.Errorf("%w: %w", lockcore.ErrNotSent, redis.ErrClosed)
	case len(l.waiting) >= maxLine:
		return false, fmt.Errorf("%w: %d calls wait already", lockcore.ErrNotSent, maxLine)
	case l.active == 0 && !l.never:
		l.active++
		l.busy.Add(1)
		c.state.Store(taken)
		return true, nil
	}
	l.waiting = append(l.waiting, c)
	if l.active < l.max {
		l.active++
		l.busy.Add(1)
		go l.work()
	}
	return false, nil
}

// leave ends a caller's own call; what has gathered meanwhile goes on without it.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		go l.work()
		return
	}
	l.active--
	l.busy.Done()
}

// work makes what waits until nothing does.
func (l *lane) work() {
	var batch []*call
	for {
		runtime.Gosched() // whoever has just been answered may ask again: larger batches
		if batch = l.take(batch[:0]); len(batch) == 0 {
			return
		}
		l.all(batch)
		clear(batch)
	}
}

// take moves what waits into batch; where nothing does, the worker is no longer active.
func (l *lane) take(batch []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.active--
		l.busy.Done()
		return nil
	}
	n := min(len(l.waiting), maxBatch)
	batch = append(batch, l.waiting[:n]...)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return batch
}

// one makes a call by itself.
func (l *lane) one(ctx context.Context, c *call) {
	_ = l.redis.Process(ctx, c.command(ctx))
	if c.unloaded() {
		_ = l.redis.Process(ctx, c.command(ctx))
	}
	c.settle()
}

// all makes the calls of a batch that are still waited for.
func (l *lane) all(batch []*call) {
	until := time.Time{}
	live := batch[:0]
	for _, c := range batch {
		if !c.state.CompareAndSwap(waiting, taken) {
			continue
		}
		if c.until.IsZero() {
			c.until = time.Now().Add(callLimit)
		}
		if c.until.After(until) { // the others stop waiting by themselves: one call's end must not cut off its neighbours
			until = c.until
		}
		live = append(live, c)
	}
	if len(live) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	l.send(ctx, live)
	for _, c := range live {
		c.done <- struct{}{}
	}
}

// close refuses further calls, and waits for those under way.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.busy.Wait()
}
