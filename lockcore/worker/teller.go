package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// Teller writes what a replica says. It is safe for concurrent use.
type Teller struct {
	who      string
	out      io.Writer
	fail     context.CancelCauseFunc // ends everything: nobody hears it any more
	tell     func(history.Event, func(history.Event))
	ops      atomic.Int64
	validity map[string]*validity // by lock
}

func newTeller(c protocol.Configure, out io.Writer, fail context.CancelCauseFunc, tell func(history.Event, func(history.Event))) *Teller {
	t := &Teller{who: c.Incarnation, out: out, fail: fail, tell: tell, validity: map[string]*validity{}}
	for _, l := range c.Locks {
		t.validity[l.Name] = newValidity(l.Policy)
	}
	return t
}

// Say writes an event as one line, with the replica as its source. A line that cannot be written ends the worker.
func (t *Teller) Say(e history.Event) {
	e.Source = t.who
	if v := t.validity[e.Lock]; v != nil {
		v.note(e)
	}
	if t.tell != nil && e.Kind != history.ReplicaReady {
		t.tell(e, t.write)
		return
	}
	t.write(e)
}

func (t *Teller) write(e history.Event) {
	line, err := history.MarshalEvent(&e)
	if err == nil {
		_, err = t.out.Write(append(line, '\n'))
	}
	if err != nil {
		t.fail(fmt.Errorf("%w: write event: %w", errBroken, err))
	}
}

// Op names an operation of the given sort, such as "renew": uniquely over all replicas and lives.
func (t *Teller) Op(what string) string { return fmt.Sprintf("%s/%s-%d", t.who, what, t.ops.Add(1)) }

// Call makes one call to a lock's store for an epoch: do is announced before, and what came of it is said after. ttl is what an acquire
// or a renewal asks for. The error of do says what the store said: *lockcore.HeldError and *lockcore.NotOwnedError are refusals,
// lockcore.ErrNotSent is a call that was surely not made, and any other leaves the effect unknown. do returns the fence of a grant, or 0.
func (t *Teller) Call(h claims.Holder, op lockcore.Op, ttl time.Duration, do func() (fence int64, err error)) (int64, error) {
	call, name, from := lockcore.Call{Op: op, TTL: ttl, Attempt: 1}, t.Op(string(op)), monotime.Now()
	t.Say(h.Invoke(&call, name, from))
	fence, err := do()
	a := claims.AnswerOf(err, brief("store", err))
	if a.Result == lockcore.OK {
		a.Fence = fence
	}
	t.Say(h.Return(&call, name, history.Span{From: from, To: monotime.Now()}, &a))
	return a.Fence, err
}

// Act says what an action of a lock means: lockcore.ActFence that its holder may not rely on it any more (Working: and that work was
// under way), ActSkip that it is not given back, and why.
func (t *Teller) Act(h claims.Holder, a lockcore.Action) {
	for _, e := range h.Append(nil, &a, "", monotime.Now()) {
		t.Say(e)
	}
}

// Seed gives each lock of a replica random choices of its own, the same in each run with the same seed.
func Seed(c protocol.Configure, lock string) int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, lock)
	return c.Seed ^ int64(h.Sum64())
}

// brief is the kind of an error of a store or ledger, without its address.
func brief(of string, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return of + ": no answer"
}

// validity keeps the validity end of each epoch: the sending of its last ok acquire or renewal, plus the TTL that it asked for - drift. The
// handle forgets it when the lock is given up, and that is when it is asked for: how late did the work stop?
type validity struct {
	ttl, drift int64 // of the policy; a library may keep to less

	mu   sync.Mutex
	ends map[string]int64 // by epoch, CLOCK_MONOTONIC ns
}

func newValidity(p lockcore.Policy) *validity {
	return &validity{ttl: int64(p.TTL), drift: int64(p.Drift), ends: map[string]int64{}}
}

// note learns from the client's own events: a .return begins when its call was sent.
func (v *validity) note(e history.Event) {
	if e.Outcome != history.OK || e.Kind != history.AcquireReturn && e.Kind != history.RenewReturn {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.ends[e.Epoch]; known || e.Kind == history.AcquireReturn {
		asked := int64(0)
		if e.Call != nil {
			asked = e.Call.TTL
		}
		v.ends[e.Epoch] = e.From + cmp.Or(asked, v.ttl) - v.drift
	}
}

func (v *validity) end(epoch string) (int64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	end, known := v.ends[epoch]
	return end, known
}

func (v *validity) forget(epoch string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.ends, epoch)
}
