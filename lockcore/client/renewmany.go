package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

const (
	// maxTogether bounds the renewals of one call to a store that takes many: a few milliseconds of the server's.
	maxTogether = 2048
	// maxMany bounds such calls under way: after a stall all locks may be due at once, and a connection for each thousand of them
	// would only make the store slower.
	maxMany = 4
	// crowd is how many deadlines make it worth while to let some gather: below it every deadline has a timer's precision.
	crowd = 1024
	// crowdPause is how long they gather. A fence may come so much late too; the policy's stop budget must have room for it.
	crowdPause = 6 * time.Millisecond
)

// due is a handle with a renewal that it must make.
type due struct {
	h *Handle
	t todo
}

// batch is the renewals of one call, with what the call needs.
type batch struct {
	all      []due
	ops      []string
	renewals []lockcore.Renewal
}

// tick steps the machines whose time has come, and starts what they ask for: renewals together where the store can do that. room is
// kept by the caller for the next tick.
func (c *Client) tick(now lockcore.Instant, handles []*Handle, room *[]due) {
	// Where calls hang, those of a few locks need not wait for one another: each has its whole time, on a connection of its own.
	apart := c.renewer == nil || c.times.pause() == 0 && c.many.full()
	together := (*room)[:0]
	for _, h := range handles {
		t := h.stepAt(now, byClient, lockcore.Input{Kind: lockcore.Tick})
		// One that must be answered sooner than the rest, because little validity is left, goes by itself.
		usual := t.task.call.Op == lockcore.OpRenew && t.task.call.Deadline-now.Mono >= c.policy.OpTimeout
		if apart || !usual {
			h.later(t)
			continue
		}
		together = append(together, due{h, t})
	}
	for range c.gathered.add(together) {
		c.many.submit(c.renewGathered)
	}
	clear(together)
	*room = together
}

// gathered is the renewals that wait to be made. Where the store is slow they grow to fewer, larger calls.
type gathered struct {
	mu  sync.Mutex
	all []due
}

// add puts renewals in line, and says how many calls more they are worth: one at least, where there are any.
func (g *gathered) add(more []due) (calls int) {
	if len(more) == 0 {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.all)
	g.all = append(g.all, more...)
	return len(g.all)/maxTogether - before/maxTogether + 1
}

// take moves what waited longest into b.
func (g *gathered) take(b *batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.all), maxTogether)
	b.all = append(b.all, g.all[:n]...)
	rest := copy(g.all, g.all[n:])
	clear(g.all[rest:])
	g.all = g.all[:rest]
}

// renewGathered makes one call's worth of renewals.
func (c *Client) renewGathered() {
	b := c.batches.Get().(*batch)
	c.gathered.take(b)
	if len(b.all) > 0 {
		c.renewMany(b)
	}
	clear(b.all)
	clear(b.renewals)
	clear(b.ops)
	b.all, b.renewals, b.ops = b.all[:0], b.renewals[:0], b.ops[:0]
	c.batches.Put(b)
}

// renewMany makes all renewals in one call, and answers each machine by itself. Each is announced before the call is made.
func (c *Client) renewMany(b *batch) {
	all := b.all
	from := c.clock.Now().Mono
	until := all[0].t.task.call.Deadline
	for _, d := range all {
		c.emit(d.t.events)
		if c.sink != nil {
			b.ops = append(b.ops, d.h.announce(d.t.task, from))
		}
		until = min(until, d.t.task.call.Deadline)
		b.renewals = append(b.renewals, lockcore.Renewal{Key: d.h.key, Token: d.t.task.token})
	}
	ctx, cancel := context.WithTimeout(context.Background(), until-from)
	c.renewer.RenewMany(ctx, all[0].t.task.call.TTL, b.renewals)
	cancel()
	now := c.clock.Now()
	at := history.Span{From: int64(from), To: int64(now.Mono)}
	for i, d := range all {
		err := b.renewals[i].Err
		if errors.Is(err, lockcore.ErrAlone) {
			c.renewAlone(d, b.op(i), from)
			continue
		}
		reply := lockcore.Input{Kind: lockcore.Reply, Call: d.t.task.call.ID, Result: lockcore.ResultOf(err)}
		d.h.meter.called(lockcore.OpRenew, reply.Result, time.Duration(at.Width()))
		d.h.answer(d.t.task, b.op(i), at, reply, err)
		d.h.later(d.h.stepAt(now, byClient, reply))
	}
}

// renewAlone makes a renewal by itself that was announced with others.
func (c *Client) renewAlone(d due, op string, from time.Duration) {
	c.calls.submit(func() {
		ctx, cancel := context.WithTimeout(context.Background(), d.t.task.call.Deadline-c.clock.Now().Mono)
		defer cancel()
		d.h.carryOn(d.h.step(byClient, d.h.call(ctx, d.t.task, op, from)))
	})
}

// op is what the renewal was announced as.
func (b *batch) op(i int) string {
	if len(b.ops) == 0 {
		return ""
	}
	return b.ops[i]
}
