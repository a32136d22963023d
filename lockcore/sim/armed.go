package sim

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Arm is a burst of failing operations: in one replica's own client, or on the ways of the named replicas.
type Arm struct {
	burst.Spec
	Shot   string // "burst#1"
	Fault  history.Fault
	Victim func(string) string // on the way: the incarnation to be named for a replica's name
}

// armed is a burst in effect.
type armed struct {
	*burst.Burst
	arm  Arm
	w    *World
	r    *replica // nil = on the way
	held []*call
	over func() // called once, when it has ended; may be nil
}

// Burst is a burst that was armed.
type Burst struct{ a *armed }

// Arm arms a burst in the incarnation, or, where that is "", on the way. over, which may be nil, is told of its end.
func (w *World) Arm(incarnation string, arm Arm, over func()) (*Burst, error) {
	draws := rng(w.rng.next())
	a := &armed{arm: arm, Burst: burst.New(arm.Spec, draws.share), w: w, over: over}
	if incarnation != "" {
		r := w.replicas[incarnation]
		if r == nil || r.dead {
			return nil, fmt.Errorf("arm %s: it is dead", incarnation)
		}
		a.r = r
		r.armed = append(r.armed, a)
	} else {
		w.taps = append(w.taps, a)
	}
	if arm.For > 0 {
		w.After(arm.For, func() { a.end(burst.TimeUp) })
	}
	return &Burst{a}, nil
}

// End ends a burst that has not ended.
func (b *Burst) End(why string) { b.a.end(why) }

// Ended reports whether it has ended; a burst in a dead replica has.
func (b *Burst) Ended() bool { return b.a.State() == burst.Ended || b.a.r != nil && b.a.r.dead }

// Hits is how many operations it has hit.
func (b *Burst) Hits() int64 { return b.a.Hits }

func (a *armed) onTheWay() bool { return a.r == nil }

// strike is the burst that a call falls to, or nil.
func (r *replica) strike(c *call) *armed {
	if len(r.armed) == 0 && len(r.w.taps) == 0 {
		return nil
	}
	asked := burst.Call{Op: string(c.Op), Lock: c.lease.lock.Name, Key: c.lease.key.name, Name: r.Name}
	if c.Op == lockcore.OpUndo {
		asked.Op = burst.Release
	}
	if a, ok := burst.First(r.armed, asked); ok {
		return a
	}
	a, _ := burst.First(r.w.taps, asked)
	return a
}

// struck is what becomes of a call that a burst hits.
func (c *call) struck(a *armed) {
	w := c.lease.w
	c.hit = a
	a.held = append(a.held, c)
	a.tell(history.FaultHit, c, "")
	switch a.Mode {
	case burst.Error:
		c.result, c.text = lockcore.Failed, "made to fail by "+a.arm.Shot
		if a.onTheWay() {
			w.about(c, atClient, w.now+2*w.flight())
		} else {
			w.about(c, atClient, w.now)
		}
	case burst.Delay:
		c.late = true
		w.about(c, atLater, w.now+int64(a.Delay))
	case burst.LostReply:
		c.silent = true
		c.send()
	}
}

// released takes the call back from the burst that holds it. A burst whose count is spent is over with the last of its calls.
func (c *call) released() {
	a := c.hit
	if a == nil {
		return
	}
	i := slices.Index(a.held, c)
	if i < 0 {
		return
	}
	a.held = slices.Delete(a.held, i, i+1)
	if a.Done() {
		a.w.After(0, func() { a.end(burst.CountSpent) })
	}
}

// end ends the burst: whoever is held goes on.
func (a *armed) end(why string) {
	if a.State() == burst.Ended || a.r != nil && a.r.dead {
		return
	}
	if a.r != nil && a.r.paused { // a process that stands still ends nothing
		a.r.later = append(a.r.later, moment{kind: doFunc, fn: func() { a.end(why) }})
		return
	}
	a.End()
	a.tell(history.FaultReverted, nil, why)
	for _, c := range a.held {
		switch {
		case c.late:
			a.w.about(c, atLater, a.w.now)
		case a.Mode != burst.Error:
			c.broken, c.text = true, "timeout"
			a.w.about(c, atClient, a.w.now)
		}
	}
	if a.over != nil {
		a.over()
	}
}

// tell says what the burst does: the replica itself, or for one on the way the runner, which leaves its end to whoever armed it.
func (a *armed) tell(k history.Kind, c *call, detail string) {
	if !a.w.recording() || a.onTheWay() && k == history.FaultReverted {
		return
	}
	e := history.Event{Kind: k, Span: history.At(a.w.now), Source: "runner", Op: a.arm.Shot, Lock: a.Lock, Key: a.Key}
	f := a.arm.Fault
	f.Detail, f.Hits = detail, a.Hits
	if a.r != nil {
		e.Source, e.Clock, f.Victim = a.r.Incarnation, history.ClockShared, a.r.Incarnation
	}
	if c != nil {
		e.Lock, e.Key, e.Epoch = c.lease.lock.Name, c.lease.key.name, c.epoch
		if a.r == nil {
			f.Victim = a.arm.Victim(c.lease.r.Name)
		}
	}
	e.Fault = &f
	a.w.emit(e)
}
