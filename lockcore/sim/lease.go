package sim

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// lease drives one machine, as package client does: it makes its calls, keeps its time, and tells the task that wanted it.
type lease struct {
	w      *World
	r      *replica
	lock   *Lock
	key    *keyState
	task   *task // whoever holds it; nil = nobody any more
	m      lockcore.Machine
	token  int    // number of the last acquire's, from 1
	epoch  string // its fingerprint; "" where nobody listens
	fence  int64
	sent   int64  // send time of the last success
	waitOp string // of a bounded wait
	flying *call  // the last one made
	armed  int64  // for when the deadline is planned; Never = it is not
	gen    uint32 // of that
	over   bool   // it may not be relied on any more
	ended  bool   // the machine is done
}

// seek begins an attempt on a key.
func (t *task) seek() {
	l := t.r.w.leases.Get()
	*l = lease{w: t.r.w, r: t.r, lock: t.lock, key: t.r.w.keyOf(t.lock.Name, t.key), task: t, m: *lockcore.NewMachine(t.lock.Policy), armed: Never}
	t.lease = l
	t.r.leases = append(t.r.leases, l)
	l.step(lockcore.Input{Kind: lockcore.Start})
}

func (l *lease) instant() lockcore.Instant {
	return lockcore.Instant{Mono: time.Duration(l.w.now), Wall: time.Duration(l.w.now) + l.r.ahead, Boot: time.Duration(l.w.now)}
}

// heard is what one step means for the task that wanted the lease.
type heard struct{ granted, refused, fenced, done bool }

// step gives the machine one input, does what it says, and tells the task.
func (l *lease) step(in lockcore.Input) {
	w := l.w
	in.Rand = l.random()
	if in.Fence != 0 {
		l.fence = in.Fence
	}
	var h heard
	var why lockcore.Result
	var do lockcore.Call
	w.acts = l.m.Step(l.instant(), in, w.acts[:0])
	for i := range w.acts {
		a := &w.acts[i]
		switch a.Kind {
		case lockcore.ActDo:
			do = a.Call
		case lockcore.ActGrant:
			h.granted = true
		case lockcore.ActRefuse:
			h.refused, why = true, a.Result
		case lockcore.ActFence:
			l.over, h.fenced = true, true
			w.truth.fenced(l, a)
		case lockcore.ActUnowned:
			w.truth.fenced(l, a)
		case lockcore.ActSkip:
			w.truth.skipped(l, a)
		case lockcore.ActDone:
			l.over, l.ended, h.done = true, true, true
		}
		if w.recording() {
			l.report(a)
		}
	}
	if do.ID != 0 {
		l.call(do)
	}
	l.arm()
	if l.ended {
		l.r.forget(l)
	}
	if t := l.task; t != nil {
		t.told(h, why)
	}
}

// arm plans the machine's next deadline, if it is another than the one that is planned.
func (l *lease) arm() {
	at, ok := l.m.Next()
	next := int64(at)
	if !ok {
		next = Never
	}
	if next == l.armed {
		return
	}
	l.gen++
	if l.armed = next; ok {
		l.w.plan(moment{at: max(next, l.w.now) + l.w.late(), kind: atDeadline, gen: l.gen, lease: l})
	}
}

func (l *lease) tick(gen uint32) {
	if gen != l.gen || l.ended {
		return
	}
	l.armed = Never
	l.step(lockcore.Input{Kind: lockcore.Tick})
}

// random is drawn only where something is left to chance, as by the client.
func (l *lease) random() float64 {
	p := &l.lock.Policy
	if p.RenewJitter == 0 && (p.Acquire.Mode == lockcore.AcquireTry || p.Acquire.Backoff.Mode == lockcore.BackoffFixed) {
		return 0
	}
	return l.w.rng.share()
}

// held reports whether the lease may be relied on by the clock.
func (l *lease) held() bool { return !l.over && l.m.Held(l.instant()) }

// stop ends the holder's use: the work has stopped. The lease goes on by itself where the key is left to its TTL.
func (l *lease) stop(kind lockcore.InputKind) {
	l.over = true
	l.w.truth.stopped(l, kind)
	l.step(lockcore.Input{Kind: kind})
}

// report says what an action stands for; calls report themselves.
func (l *lease) report(a *lockcore.Action) {
	e := l.event("", l.fence)
	switch a.Kind {
	case lockcore.ActWait:
		l.waitOp = l.r.op(l.lock.Name, "#")
		e.Kind, e.Epoch, e.Fence, e.Op, e.Call = history.WaitBegin, "", 0, l.waitOp, l.w.bodies.calls.New(history.Call{Result: history.ResultHeld})
	case lockcore.ActWaited:
		e.Kind, e.Epoch, e.Op, e.Outcome, e.Call = history.WaitEnd, "", l.waitOp, history.Fail, l.w.bodies.calls.New(history.Call{Result: history.ResultHeld})
		if a.Result == lockcore.OK {
			e.Epoch, e.Outcome, e.Call.Result = l.epoch, history.OK, history.ResultGranted
		}
	case lockcore.ActFence:
		e.Abandon = l.w.bodies.abandons.New(history.Abandon{Reason: string(a.Reason), Failures: a.Failures})
		if a.Working {
			first := e
			first.Kind = history.FenceObserved
			l.w.emit(first)
			e.Kind = history.AbandonKind
		} else {
			e.Kind = history.FenceObserved
		}
	case lockcore.ActUnowned:
		e.Kind, e.Abandon = history.UnownedEnter, l.w.bodies.abandons.New(history.Abandon{Reason: string(a.Reason), Failures: a.Failures})
	case lockcore.ActSkip:
		e.Kind, e.Call = history.ReleaseSkipped, l.w.bodies.calls.New(history.Call{Why: string(a.Reason)})
	default:
		return
	}
	l.w.emit(e)
}

func (l *lease) event(k history.Kind, fence int64) history.Event {
	return history.Event{
		Kind: k, Span: history.At(l.w.now), Source: l.r.Incarnation, Clock: history.ClockShared,
		Lock: l.lock.Name, Key: l.key.name, Epoch: l.epoch, Fence: fence,
	}
}
