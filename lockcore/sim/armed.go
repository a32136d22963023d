package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// How an operation is made to fail: Arm.Mode.
const (
	ModeError     = "error"      // at once, surely without effect
	ModeTimeout   = "timeout"    // never sent on; no answer
	ModeDelay     = "delay"      // held back, then sent on
	ModeLostReply = "lost_reply" // executed; no answer
)

// Arm is a burst of failing operations: in one replica's own client, or on the ways of the named replicas. Count or For bounds it.
type Arm struct {
	Op     string // shot, "burst#1"
	Fault  history.Fault
	What   lockcore.Op // acquire, renew or release; an undo is a release
	Mode   string
	Share  float64 // of the operations, each by chance; 0 = all
	Delay  time.Duration
	Lock   string // only of this lock; "" = all
	Key    string // only of this key; "" = all
	Count  int
	For    time.Duration
	Names  []string            // on the way: whose; nil = all
	Victim func(string) string // on the way: the incarnation to be named for a replica's name
}

// armed is a burst in effect.
type armed struct {
	Arm
	w     *World
	r     *replica // nil = on the way
	rng   rng
	hits  int64
	held  []*call
	ended bool
	Over  func() // called once, when it has ended; may be nil
}

// Burst is a burst that was armed.
type Burst struct{ a *armed }

// Arm arms a burst in the incarnation, or, where that is "", on the way. over, which may be nil, is told of its end.
func (w *World) Arm(incarnation string, arm Arm, over func()) (*Burst, error) {
	a := &armed{Arm: arm, w: w, rng: rng(w.rng.next()), Over: over}
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
	if a.For > 0 {
		w.After(a.For, func() { a.end("its time was up") })
	}
	return &Burst{a}, nil
}

// End ends a burst that has not ended.
func (b *Burst) End(why string) { b.a.end(why) }

// Ended reports whether it has ended; a burst in a dead replica has.
func (b *Burst) Ended() bool { return b.a.ended || b.a.r != nil && b.a.r.dead }

// Hits is how many operations it has hit.
func (b *Burst) Hits() int64 { return b.a.hits }

func (a *armed) onTheWay() bool { return a.r == nil }

// strike is the burst that a call falls to, or nil.
func (r *replica) strike(c *call) *armed {
	if len(r.armed) == 0 && len(r.w.taps) == 0 {
		return nil
	}
	what := c.Op
	if what == lockcore.OpUndo {
		what = lockcore.OpRelease
	}
	for _, list := range [][]*armed{r.armed, r.w.taps} {
		for _, a := range list {
			if a.aims(what, c) && (a.Share == 0 || a.rng.share() < a.Share) {
				return a
			}
		}
	}
	return nil
}

func (a *armed) aims(what lockcore.Op, c *call) bool {
	spent := a.Count > 0 && a.hits >= int64(a.Count)
	way := a.r != nil || a.Names == nil || slices.Contains(a.Names, c.lease.r.Name)
	return !a.ended && !spent && way && a.What == what && (a.Lock == "" || a.Lock == c.lease.lock.Name) && (a.Key == "" || a.Key == c.lease.key.name)
}

// struck is what becomes of a call that a burst hits.
func (c *call) struck(a *armed) {
	w := c.lease.w
	c.hit = a
	a.hits++
	a.held = append(a.held, c)
	a.tell(history.FaultHit, c, "")
	switch a.Mode {
	case ModeError:
		c.result, c.text = lockcore.Failed, "made to fail by "+a.Op
		if a.onTheWay() {
			w.about(c, atClient, w.now+2*w.flight())
		} else {
			w.about(c, atClient, w.now)
		}
	case ModeDelay:
		c.late = true
		w.about(c, atLater, w.now+int64(a.Delay))
	case ModeLostReply:
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
	if len(a.held) == 0 && a.Count > 0 && a.hits >= int64(a.Count) {
		a.w.After(0, func() { a.end("its count was spent") })
	}
}

// end ends the burst: whoever is held goes on.
func (a *armed) end(why string) {
	if a.ended || a.r != nil && a.r.dead {
		return
	}
	if a.r != nil && a.r.paused { // a process that stands still ends nothing
		a.r.later = append(a.r.later, moment{kind: doFunc, fn: func() { a.end(why) }})
		return
	}
	a.ended = true
	a.tell(history.FaultReverted, nil, why)
	for _, c := range a.held {
		switch {
		case c.late:
			a.w.about(c, atLater, a.w.now)
		case a.Mode != ModeError:
			c.broken, c.text = true, "timeout"
			a.w.about(c, atClient, a.w.now)
		}
	}
	if a.Over != nil {
		a.Over()
	}
}

// tell says what the burst does: the replica itself, or for one on the way the runner, which leaves its end to whoever armed it.
func (a *armed) tell(k history.Kind, c *call, detail string) {
	if !a.w.recording() || a.onTheWay() && k == history.FaultReverted {
		return
	}
	e := history.Event{Kind: k, Span: history.At(a.w.now), Source: "runner", Op: a.Op, Lock: a.Lock, Key: a.Key}
	f := a.Fault
	f.Detail, f.Hits = detail, a.hits
	if a.r != nil {
		e.Source, e.Clock, f.Victim = a.r.Incarnation, history.ClockShared, a.r.Incarnation
	}
	if c != nil {
		e.Lock, e.Key, e.Epoch = c.lease.lock.Name, c.lease.key.name, c.epoch
		if a.r == nil {
			f.Victim = a.Victim(c.lease.r.Name)
		}
	}
	e.Fault = &f
	a.w.emit(e)
}
