package sim

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/claims"
)

// call is one call to the locks' store. Its request and its caller go their own ways: the request may arrive after the caller has
// given up, or died.
type call struct {
	lockcore.Call
	lease  *lease
	token  int
	epoch  string
	fence  int64
	op     string
	sent   int64
	closed bool // its caller has an answer

	hit    *armed // the fault that it fell to
	silent bool   // no reply will come
	broken bool   // its connection was ended: the caller hears that, whatever the store did
	late   bool   // it is held back

	result lockcore.Result // of the store
	pttl   time.Duration
	holder int // token that the key carries
	grant  int64
	text   string // of an error
}

// call makes a call: it is announced, and then meets what stands between it and the store.
func (l *lease) call(do lockcore.Call) {
	w := l.w
	if do.Op == lockcore.OpAcquire {
		l.token = w.newToken(l)
		l.fence = 0
		if w.recording() {
			l.epoch = w.names[l.token-1].epoch
		}
	}
	c := w.calls.New(call{Call: do, lease: l, token: l.token, epoch: l.epoch, fence: l.fence, sent: w.now})
	if w.recording() {
		c.op = l.r.op(l.lock.Name, "#")
		h := l.holder(l.epoch, l.fence)
		w.emit(h.Invoke(&do, c.op, w.now))
	}
	l.flying = c
	if l.lock.Variant.Feigned(do.Op) {
		c.feign()
		return
	}
	w.about(c, atLimit, max(int64(do.Deadline), w.now)+w.late())
	if a := l.r.strike(c); a != nil {
		c.struck(a)
		return
	}
	c.send()
}

// about plans a moment of the call.
func (w *World) about(c *call, k kind, at int64) { w.plan(moment{at: at, kind: k, call: c}) }

// answered is the arrival of the reply.
func (c *call) answered() {
	if c.closed {
		return
	}
	if c.broken {
		c.result = lockcore.Unknown
	}
	c.close(c.result)
}

// limit is the caller's own deadline: the effect is not known, and what is held back will not be sent any more.
func (c *call) limit() {
	if !c.closed {
		c.late, c.text = false, "timeout"
		c.close(lockcore.Unknown)
	}
}

func (c *call) sendOn() {
	if c.late && !c.closed {
		c.late = false
		c.released()
		c.send()
	}
}

// close answers the caller, once.
func (c *call) close(r lockcore.Result) {
	c.closed = true
	l := c.lease
	w := l.w
	defer c.released()
	in := lockcore.Input{Kind: lockcore.Reply, Call: c.ID, Result: r}
	if r == lockcore.OK && c.Op == lockcore.OpAcquire {
		in.Fence = c.grant
	}
	if r == lockcore.Held {
		in.PTTL = c.pttl
	}
	if r == lockcore.OK && (c.Op == lockcore.OpAcquire || c.Op == lockcore.OpRenew) && c.token == l.token {
		l.sent = max(l.sent, c.sent)
	}
	if w.recording() {
		c.report(r)
	}
	w.truth.told(c, r)
	if !l.ended {
		l.step(in)
	}
}

// report emits the return of the call.
func (c *call) report(r lockcore.Result) {
	w, a := c.lease.w, claims.Answer{Result: r}
	switch r {
	case lockcore.OK:
		a.Fence = c.grant
	case lockcore.Unknown, lockcore.Failed:
		a.Err = c.text
		if c.hit != nil && !c.hit.onTheWay() {
			a.Fault = c.hit.arm.Shot
		}
	case lockcore.Held:
		a.Holder, a.PTTL = w.epochOf(c.holder), c.pttl
	case lockcore.Other:
		a.Holder = w.epochOf(c.holder)
	}
	h := c.lease.holder(c.epoch, c.fence)
	w.emit(h.Return(&c.Call, c.op, history.Span{From: c.sent, To: w.now}, &a))
}
