package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// wire is a contender's way to the store of its world. A request and its answer travel for as long as they will, whether somebody
// waits for them or not: a call that has given up may still take effect.
type wire struct{ c *contender }

// fault is what happens to one call.
type fault struct {
	there, back time.Duration
	refused     bool          // surely not sent
	broken      bool          // the store answers with an error, and does nothing
	lost, mute  bool          // the request, the answer
	deaf        bool          // the call does not heed its deadline
	late        bool          // where the answer and the deadline come during a pause, the deadline wins
	freeze      time.Duration // pause of the contender when the call returns
}

type answer struct {
	grant lockcore.Grant
	err   error
}

var errBroken = errors.New("the store is loading")

func (l wire) Acquire(ctx context.Context, _, token string, ttl time.Duration) (lockcore.Grant, error) {
	w := l.c.w
	w.mu.Lock()
	if w.asks[token] == nil {
		w.asks[token] = &ask{who: l.c.who, answer: lockcore.Unknown}
	}
	w.mu.Unlock()
	a := l.call(ctx, lockcore.OpAcquire, func() (a answer) {
		a.grant, a.err = w.acquire(l.c.who, token, ttl)
		return a
	})
	w.mu.Lock()
	w.asks[token].answer = lockcore.ResultOf(a.err)
	w.mu.Unlock()
	return a.grant, a.err
}

func (l wire) Renew(ctx context.Context, _, token string, ttl time.Duration) error {
	w := l.c.w
	err := l.call(ctx, lockcore.OpRenew, func() answer { return answer{err: w.renew(token, ttl)} }).err
	var lost *lockcore.NotOwnedError
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.As(err, &lost) {
		w.losses = append(w.losses, loss{l.c.who, lockcore.Fingerprint(token), w.now()})
	}
	return err
}

func (l wire) Release(ctx context.Context, _, token string) error {
	w := l.c.w
	w.mu.Lock()
	w.asks[token].undone = true
	w.mu.Unlock()
	return l.call(ctx, lockcore.OpRelease, func() answer { return answer{err: w.release(token)} }).err
}

// manyWire takes many renewals at once.
type manyWire struct{ wire }

func (l manyWire) RenewMany(ctx context.Context, ttl time.Duration, renewals []lockcore.Renewal) {
	var all sync.WaitGroup
	for i := range renewals {
		all.Go(func() { renewals[i].Err = l.Renew(ctx, renewals[i].Key, renewals[i].Token, ttl) })
	}
	all.Wait()
}

// call is one call from where it leaves the contender until it is back.
func (l wire) call(ctx context.Context, op lockcore.Op, do func() answer) answer {
	c := l.c
	c.gate(atSending)
	if err := ctx.Err(); err != nil { // its time was over before it could leave
		return answer{err: fmt.Errorf("%w: %w", lockcore.ErrNotSent, err)}
	}
	end, _ := ctx.Deadline()
	f := c.fault(op, max(time.Until(end), 0))
	replies := make(chan answer, 1)
	switch {
	case f.refused:
		return answer{err: fmt.Errorf("dial: %w", lockcore.ErrNotSent)}
	case f.broken:
		do = func() answer { return answer{err: errBroken} }
	}
	if !f.lost {
		time.AfterFunc(time.Microsecond+f.there, func() {
			if a := do(); !f.mute {
				time.AfterFunc(f.back, func() { replies <- a })
			}
		})
	}
	heed := ctx.Done()
	if f.deaf {
		stuck, cancel := context.WithTimeout(context.Background(), 3*c.w.policy.TTL)
		defer cancel()
		heed = stuck.Done()
	}
	got := answer{err: context.DeadlineExceeded}
	select {
	case got = <-replies:
	case <-heed:
	}
	if f.freeze > 0 {
		c.mu.Lock()
		c.freeze(c.w.now(), c.w.now()+f.freeze)
		c.mu.Unlock()
	}
	c.gate(atReply)
	if !f.late {
		select {
		case got = <-replies: // it lay there when the contender woke up
		default:
		}
	}
	return got
}

// fault decides what happens to the contender's next call of a kind, which has so long a time limit.
func (c *contender) fault(op lockcore.Op, limit time.Duration) fault {
	c.mu.Lock()
	n := c.calls[op]
	c.calls[op]++
	c.mu.Unlock()
	return c.randomFault(op, n, limit)
}

// mood is what a contender's network is like for a while.
type mood int

const (
	calm mood = iota
	slow
	rough
	dead
)

// mood changes about once a lease; a network may be dead for longer than one.
func (c *contender) mood() mood {
	rng := c.w.dice(c.who, chooseMood, 0)
	length := share(rng, c.w.policy.TTL, 0.3, 1.2)
	rng = c.w.dice(c.who, chooseMood, 1+int(c.w.now()/length))
	return []mood{calm, calm, calm, slow, rough, dead}[rng.IntN(6)]
}

func (c *contender) randomFault(op lockcore.Op, n int, limit time.Duration) fault {
	rng := c.w.dice(c.who, chooseCall, n<<4|len(op)) // the names of operations differ in length
	f := fault{there: share(rng, limit, 0, 0.05), back: share(rng, limit, 0, 0.05), late: rng.IntN(2) == 0}
	m := c.mood()
	if m == slow {
		f.there, f.back = share(rng, limit, 0, 0.6), share(rng, limit, 0, 0.6)
	}
	odds := []int{calm: 50, slow: 20, rough: 2, dead: 1}[m]
	if rng.IntN(odds) > 0 {
		return f
	}
	f.deaf = c.w.limits.deaf && rng.IntN(8) == 0
	switch kind := rng.IntN(8); {
	case m == dead && kind > 0, kind == 1:
		f.lost = true
	case kind <= 3:
		f.mute = true
	case kind == 4:
		f.broken = true
	case kind == 5:
		f.refused = true
	case kind == 6:
		f.there = share(rng, limit, 0.5, 3)
	default:
		f.back = share(rng, limit, 0.5, 1.5)
	}
	return f
}
