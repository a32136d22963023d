package worker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// faults are the armed faults of this replica. Each ends by itself: its count is spent, its time is up, or the worker ends. Events
// are written under the mutex, so that no hit is told after the end.
type faults struct {
	who   string
	seed  int64
	emit  func(history.Event)
	clock *clock // of all locks: armed offsets set it off

	mu     sync.Mutex
	armed  []*armed
	closed bool
}

// armed is one shot. It stays in faults until it has been reverted, also where its count is spent but calls are still held.
type armed struct {
	fault  string
	number int
	*burst.Burst
	over  chan struct{} // closed at the end: whoever is held goes on
	timer *time.Timer   // nil = not bounded by time
}

func newFaults(who string, seed int64, emit func(history.Event)) *faults {
	return &faults{who: who, seed: seed, emit: emit, clock: newClock()}
}

// arm makes operations go wrong from now on. What this worker cannot do is reverted at once, with the reason.
func (f *faults) arm(p protocol.Arm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &armed{fault: p.Fault, number: p.Shot, over: make(chan struct{})}
	a.Burst = burst.New(p.Spec, rand.New(rand.NewPCG(uint64(f.seed), burst.Stream(a.shot()))).Float64)
	if f.closed || slices.ContainsFunc(f.armed, func(o *armed) bool { return o.shot() == a.shot() }) {
		return
	}
	if why := unfit(p); why != "" {
		f.tell(history.FaultReverted, a, history.Event{}, why)
		return
	}
	f.armed = append(f.armed, a)
	if p.Op == protocol.OpClock {
		f.setClock(a)
	}
	if p.For > 0 {
		a.timer = time.AfterFunc(p.For, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.revert(a, burst.TimeUp)
		})
	}
}

// unfit says why a fault cannot be armed here; "" = it can.
func unfit(p protocol.Arm) string {
	if p.Op == protocol.OpClock {
		switch {
		case p.Mode != protocol.ModeOffset:
			return fmt.Sprintf("op %q with mode %q is not supported", p.Op, p.Mode)
		case p.For <= 0:
			return "no time bounds it, and an offset has no count"
		case p.Delay == 0:
			return "an offset of 0 is none"
		}
		return ""
	}
	why := ""
	p.Check(func(field, problem, _ string) { why = cmp.Or(why, field+": "+problem) })
	if p.Count <= 0 && p.For <= 0 {
		why = cmp.Or(why, "neither count nor time bounds it")
	}
	return why
}

// setClock puts the wall clock off, and says by how much it is then seen to be off.
func (f *faults) setClock(a *armed) {
	a.Hits++
	f.clock.ahead.Add(int64(a.Delay))
	f.tell(history.FaultHit, a, history.Event{}, "observed offset "+f.clock.observed().String())
}

// disarm ends a shot early.
func (f *faults) disarm(d protocol.Disarm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.armed {
		if a.fault == d.Fault && a.number == d.Shot {
			f.revert(a, "disarmed")
			return
		}
	}
}

// close ends all shots.
func (f *faults) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for len(f.armed) > 0 {
		f.revert(f.armed[0], "the replica ended")
	}
}

// hit returns the shot that a call falls to, or nil. The call must be given back by done.
func (f *faults) hit(op, lock, key, token string) *armed {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := burst.First(f.armed, burst.Call{Op: op, Lock: lock, Key: key})
	if !ok {
		return nil
	}
	f.tell(history.FaultHit, a, history.Event{Lock: lock, Key: key, Epoch: lockcore.Fingerprint(token)}, "")
	return a
}

// done takes back a call that was hit. A shot whose count is spent is over with the last of its calls: until then they hang.
func (f *faults) done(a *armed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.Done() {
		f.revert(a, burst.CountSpent)
	}
}

// aimed marks the renewals that a shot may hit.
func (f *faults) aimed(lock string, renewals []lockcore.Renewal) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range renewals {
		renewals[i].Err = nil
		if slices.ContainsFunc(f.armed, func(a *armed) bool {
			return a.Open(burst.Call{Op: burst.Renew, Lock: lock, Key: renewals[i].Key})
		}) {
			renewals[i].Err = lockcore.ErrAlone
			n++
		}
	}
	return n
}

// revert ends a shot that is still armed; a timer may come late.
func (f *faults) revert(a *armed, why string) {
	i := slices.Index(f.armed, a)
	if i < 0 {
		return
	}
	f.armed = slices.Delete(f.armed, i, i+1)
	a.End()
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.Op == protocol.OpClock {
		f.clock.ahead.Add(-int64(a.Delay))
	}
	close(a.over)
	f.tell(history.FaultReverted, a, history.Event{Lock: a.Lock, Key: a.Key}, why)
}

func (f *faults) tell(k history.Kind, a *armed, e history.Event, detail string) {
	e.Kind, e.Span, e.Op = k, history.At(monotime.Now()), a.shot()
	e.Fault = &history.Fault{
		ID: a.fault, Shot: a.number, Kind: a.kind(), Form: a.Mode, Victim: f.who,
		Detail: detail, Declared: int64(a.For), Want: int64(a.Count), Hits: a.Hits,
	}
	f.emit(e)
}

func (a *armed) shot() string { return fmt.Sprintf("%s#%d", a.fault, a.number) }

// kind is the experiment's name of the fault that this is a shot of.
func (a *armed) kind() string {
	if a.Op == protocol.OpClock {
		return a.Op
	}
	return a.Op + "_failures"
}
