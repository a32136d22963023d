package injectors

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/tap"
	"github.com/lockdrill/lockdrill/lockcore/burst"
)

// Hit takes what the tap reports, and writes it down like the hit of a replica. It is the tap's OnHit.
func (x *Failures) Hit(h tap.Hit) {
	x.mu.Lock()
	shot, ok := x.shots[h.Fault]
	x.mu.Unlock()
	if !ok {
		return
	}
	e := x.hit(shot, history.At(h.At), tap.Struck{Key: h.Key, Epoch: h.Epoch}, h.N)
	for _, v := range victimsOf(shot) {
		if history.ReplicaOf(v) == h.Name {
			e.Fault.Victim = v
		}
	}
	_ = x.Record(e) // a failed recorder ends the run by itself
}

// hit is the event of the n-th operation that was struck on the way.
func (x *Failures) hit(shot history.Event, at history.Span, s tap.Struck, n int64) history.Event {
	e := history.Event{Kind: history.FaultHit, Span: at, Source: "runner", Op: shot.Op, Epoch: s.Epoch}
	e.Lock, e.Key = x.Bare(s.Key)
	e.Fault = &history.Fault{
		ID: shot.Fault.ID, Shot: shot.Fault.Shot, Kind: shot.Fault.Kind, Form: shot.Fault.Form, Via: shot.Fault.Via,
		Want: shot.Fault.Want, Declared: shot.Fault.Declared, Hits: n,
	}
	return e
}

// armTap arms the ways of the victims' names: a victim that is replaced meanwhile is struck as well, as a network would.
func (x *Failures) armTap(shot history.Event, b *fault.Failures) error {
	lock, key := reach(shot, b)
	f := tap.Fault{
		ID: shot.Op, Op: operation(shot), Mode: string(b.Mode), Count: int(shot.Fault.Want), Share: b.Share, Delay: b.Delay,
		For: time.Duration(shot.Fault.Declared), Key: x.Glob(lock, key),
	}
	for _, v := range victimsOf(shot) {
		if name := history.ReplicaOf(v); !slices.Contains(f.Names, name) {
			f.Names = append(f.Names, name)
		}
	}
	if b.All {
		f.Names = nil
	}
	x.mu.Lock()
	if x.shots == nil {
		x.shots = map[string]history.Event{}
	}
	x.shots[shot.Op] = shot
	x.mu.Unlock()
	_, err := x.Tap.Inject(f)
	return err
}

// confirmTap: the tap counts, and says when it is over: also the connections that hang.
func (x *Failures) confirmTap(ctx context.Context, shot history.Event, applied history.Span) (history.Span, history.Fault, error) {
	over := x.Tap.Over(shot.Op)
	if over == nil {
		return applied, history.Fault{}, fmt.Errorf("the proxy has no fault %s", shot.Op)
	}
	var late error
	select {
	case <-over:
	case <-ctx.Done():
		late = ctx.Err()
	}
	s := x.status(shot.Op)
	window := applied
	if s.Hits > 0 {
		window = history.Span{From: s.First, To: s.Last}
	}
	if late != nil {
		return window, history.Fault{Hits: s.Hits}, late
	}
	return outcome(shot, window, burst.Tally{Hits: s.Hits, Want: shot.Fault.Want}, x.passed(shot, s))
}

func (x *Failures) status(id string) tap.Status {
	for _, s := range x.Tap.Faults() {
		if s.ID == id {
			return s
		}
	}
	return tap.Status{}
}

// passed says where the operations may have gone that were not hit.
func (x *Failures) passed(shot history.Event, s tap.Status) string {
	var all int64
	for _, n := range x.Tap.Stats().Names {
		all += n.Acquire + n.Renew + n.Release
	}
	switch {
	case all == 0:
		return ": no operation on a lock has passed the proxy since the run began; do the clients go round it?"
	case s.Spare > 0:
		return fmt.Sprintf(": %d were spared by its share", s.Spare)
	}
	return ""
}

// endTap ends the burst on the way; after an end of its own nothing is left to be done.
func (x *Failures) endTap(shot history.Event) history.Span {
	s, ok := x.Tap.End(shot.Op, "reverted")
	x.mu.Lock()
	delete(x.shots, shot.Op)
	x.mu.Unlock()
	if !ok {
		return history.At(x.Clock())
	}
	return history.At(s.To)
}
