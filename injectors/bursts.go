package injectors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/poll"
	"github.com/lockdrill/lockdrill/lockcore/burst"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/proxies/tap"
)

// Bursts of operations that fail.
//
// Via worker the victims' own store clients make them fail, count them, and end the fault by count or by time. Several victims are
// each armed with the whole count; the burst is over once they have hit that many together, and may have hit a few more by then. Via
// proxy one tap on all ways counts, exactly. Either way the fault ends by itself: in the replica, with the runner, or with its time.

var bursts = []Row{
	{Needs: func(h *Hit) bool { return viaProxy(h) && h.API != "" }, Find: proxyFault, Do: armProxy, See: countedByProxy, End: endAtProxy},
	{Needs: func(h *Hit) bool { return viaProxy(h) && h.Tap != nil }, Do: armTap, See: countedByTap, End: endTap},
	{Needs: func(h *Hit) bool { return !viaProxy(h) && h.Send != nil }, Do: armWorkers(burstOf), See: countedByVictims, End: disarm},
}

// clocks are wall clocks that are set off, as lock cores see them. Each replica says by how much it then sees its clock to be off, and sets it
// right by itself when the time is up, so that a dead runner leaves no clock wrong.
var clocks = Row{Needs: func(h *Hit) bool { return h.Send != nil }, Do: armWorkers(offset), See: allSawOffset, End: disarm}

func viaProxy(h *Hit) bool { return h.Spec.(*fault.Failures).Via == fault.ViaProxy }

// operation is the word for what fails: renew, acquire, release.
func operation(shot history.Event) string { return strings.TrimSuffix(shot.Fault.Kind, "_failures") }

// victimsOf are the incarnations that a shot strikes.
func victimsOf(shot history.Event) []string {
	if shot.Fault.Victim != "" {
		return []string{shot.Fault.Victim}
	}
	return shot.Fault.Victims
}

// aimed is what the burst strikes: the held key, or for acquires any key of its lock; else the operations on the lock that it names.
func (h *Hit) aimed() (lock, key string) {
	switch b := h.Spec.(*fault.Failures); {
	case b.HolderOf == "":
		return b.Lock, ""
	case operation(h.Rec.Shot) == burst.Acquire:
		return h.Rec.Shot.Lock, ""
	}
	return h.Rec.Shot.Lock, h.Rec.Shot.Key
}

func burstOf(h *Hit) burst.Spec {
	b := h.Spec.(*fault.Failures)
	lock, key := h.aimed()
	return burst.Spec{Op: operation(h.Rec.Shot), Mode: string(b.Mode), Share: b.Share, Delay: b.Delay, Lock: lock, Key: key, Count: int(h.fault().Want), For: h.lasts()}
}

func offset(h *Hit) burst.Spec {
	return burst.Spec{Op: protocol.OpClock, Mode: protocol.ModeOffset, Delay: h.Spec.(*fault.Clock).Offset, For: h.lasts()}
}

// armWorkers tells every victim. Of several in a burst, those that died meanwhile strike nothing; a clock is to be off at all of them.
func armWorkers(of func(*Hit) burst.Spec) step {
	return func(_ context.Context, h *Hit) error {
		arm, victims := protocol.Arm{Fault: h.fault().ID, Shot: h.fault().Shot, Spec: of(h)}, victimsOf(h.Rec.Shot)
		var errs []error
		for _, v := range victims {
			if err := h.Send(v, protocol.Command{V: protocol.Version, Cmd: protocol.CmdArm, Arm: &arm}); err != nil {
				errs = append(errs, fmt.Errorf("arm %s: %w", v, err))
			}
		}
		switch {
		case len(errs) > 0 && arm.Spec.Op == protocol.OpClock:
			return void(history.Moved, "%v", errs[0])
		case len(errs) == len(victims):
			return void(history.Moved, "nobody could be armed: %v", errors.Join(errs...))
		}
		return nil
	}
}

// outcome is the tally in the words of a confirmation.
func (h *Hit) outcome(t burst.Tally, why string) error {
	h.Saw.Hits = t.Hits
	switch t.Outcome() {
	case burst.Moved:
		return void(history.Moved, "%s died during the burst", strings.Join(victimsOf(h.Rec.Shot), ", "))
	case burst.None:
		return void(history.Unconfirmed, "the burst hit no %s%s", operation(h.Rec.Shot), why)
	case burst.TooFew:
		return void(history.Unconfirmed, "the burst hit %d of %d operations (%s)%s", t.Hits, t.Want, operation(h.Rec.Shot), why)
	}
	return nil
}

// countedByVictims: the end is each victim's own word, or its death; or the count, where several share it. The window reaches from the first
// hit to the last.
func countedByVictims(ctx context.Context, h *Hit) error {
	shot, victims := h.Rec.Shot, victimsOf(h.Rec.Shot)
	t := burst.Tally{Victims: len(victims), Want: shot.Fault.Want}
	var over []string
	why := ""
	_, err := h.Await(ctx, int(shot.N), func(e history.Event) bool {
		if v := endOf(e, shot, victims); v != "" && !slices.Contains(over, v) {
			over = append(over, v)
			t.Over++
			if e.Kind == history.ReplicaExit {
				t.Died++
			} else if e.Fault.Hits == 0 && e.Fault.Detail != "" {
				why = ": " + v + " says " + e.Fault.Detail
			}
		}
		if e.Op == shot.Op && e.Kind == history.FaultHit && slices.Contains(victims, e.Source) {
			if t.Hits++; t.Hits == 1 {
				h.Window = e.Span
			}
			h.Window.To = max(h.Window.To, e.To)
		}
		return t.Settled()
	})
	h.Saw.Hits = t.Hits
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return void(history.Unconfirmed, "the end of the burst in %s was not seen in time; %d operations (%s) failed so far", strings.Join(victims, ", "), t.Hits, operation(shot))
	case err != nil:
		return err
	}
	return h.outcome(t, why)
}

// endOf names the victim for which the event is the end of the shot.
func endOf(e, shot history.Event, victims []string) string {
	switch {
	case e.Kind == history.ReplicaExit && slices.Contains(victims, e.Replica.Incarnation):
		return e.Replica.Incarnation
	case e.Kind == history.FaultReverted && e.Op == shot.Op && slices.Contains(victims, e.Source):
		return e.Source
	}
	return ""
}

// disarm tells the victims that the shot is over, and waits until each has said so: a replica that has ended, or disarmed itself, has nothing
// armed, and a dead one cannot be told.
func disarm(ctx context.Context, h *Hit) error {
	if h.Send == nil {
		return nil
	}
	shot, victims := h.Rec.Shot, victimsOf(h.Rec.Shot)
	for _, v := range victims {
		_ = h.Send(v, protocol.Command{V: protocol.Version, Cmd: protocol.CmdDisarm, Disarm: &protocol.Disarm{Fault: shot.Fault.ID, Shot: shot.Fault.Shot}})
	}
	left, span := slices.Clone(victims), history.Span{}
	_, err := h.Await(ctx, int(shot.N), func(e history.Event) bool {
		if v := endOf(e, shot, left); v != "" {
			left = slices.DeleteFunc(left, func(l string) bool { return l == v })
			span = history.Span{From: max(span.From, e.From), To: max(span.To, e.To)}
		}
		return len(left) == 0
	})
	if err != nil {
		return fmt.Errorf("disarm %s in %s: no answer: %w", shot.Op, strings.Join(left, ", "), err)
	}
	h.Ended = span
	return nil
}

// sawOffset begins what a replica says about its clock: "observed offset 2s".
const sawOffset = "observed offset "

// allSawOffset waits until every victim has said how far its clock is off, and compares that with what was asked for.
func allSawOffset(ctx context.Context, h *Hit) error {
	want, shot := h.Spec.(*fault.Clock).Offset, h.Rec.Shot
	h.Saw.Expected = int64(want)
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	for _, victim := range victimsOf(shot) {
		e, err := h.Await(ctx, int(shot.N), func(e history.Event) bool {
			mine := e.Source == victim && e.Op == shot.Op && (e.Kind == history.FaultHit || e.Kind == history.FaultReverted)
			return mine || e.Kind == history.ReplicaExit && e.Replica.Incarnation == victim
		})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return void(history.Unconfirmed, "%s does not say that its clock is off", victim)
		case err != nil:
			return err
		case e.Kind == history.ReplicaExit:
			return void(history.Moved, "%s died", victim)
		case e.Kind == history.FaultReverted:
			return void(history.Unconfirmed, "%s did not set its clock off: %s", victim, e.Fault.Detail)
		}
		text, said := strings.CutPrefix(e.Fault.Detail, sawOffset)
		off, err := time.ParseDuration(text)
		if !said || err != nil {
			return void(history.Unconfirmed, "%s does not say by how much its clock is off (%q)", victim, e.Fault.Detail)
		}
		h.Saw.Observed = int64(off)
		if (off - want).Abs() > max(want.Abs()/10, 5*time.Millisecond) {
			return void(history.Unconfirmed, "the clock of %s is off by %s, not by %s", victim, off, want)
		}
		h.Saw.Hits++
		h.Window = history.Span{From: max(h.Window.From, e.From), To: max(h.Window.To, e.To)} // in effect at all of them
	}
	return nil
}

// Hit takes what the tap reports, and writes it down like the hit of a replica. It is the tap's OnHit.
func (r *Reach) Hit(t tap.Hit) {
	armed, ok := r.armed.Load(t.Fault)
	if !ok {
		return
	}
	h := armed.(*Hit)
	e := h.struck(history.At(t.At), tap.Struck{Key: t.Key, Epoch: t.Epoch}, t.N)
	for _, v := range victimsOf(h.Rec.Shot) {
		if history.ReplicaOf(v) == t.Name {
			e.Fault.Victim = v
		}
	}
	_ = r.Write(e) // a failed recorder ends the run by itself
}

// struck is the event of the n-th operation that was struck on the way.
func (h *Hit) struck(at history.Span, s tap.Struck, n int64) history.Event {
	f := h.fault()
	e := history.Event{Kind: history.FaultHit, Span: at, Source: "runner", Op: h.Rec.Shot.Op, Epoch: s.Epoch}
	e.Lock, e.Key = h.Bare(s.Key)
	e.Fault = &history.Fault{ID: f.ID, Shot: f.Shot, Kind: f.Kind, Form: f.Form, Via: f.Via, Want: f.Want, Declared: f.Declared, Hits: n}
	return e
}

// onWay is the burst as a tap makes it.
func (h *Hit) onWay(id string) tap.Fault {
	b := h.Spec.(*fault.Failures)
	return tap.Fault{ID: id, Op: operation(h.Rec.Shot), Mode: string(b.Mode), Count: int(h.fault().Want), Share: b.Share, Delay: b.Delay, For: h.lasts()}
}

// armTap arms the ways of the victims' names: a victim that is replaced meanwhile is struck as well, as a network would.
func armTap(_ context.Context, h *Hit) error {
	f := h.onWay(h.Rec.Shot.Op)
	f.Key = h.Glob(h.aimed())
	for _, v := range victimsOf(h.Rec.Shot) {
		if name := history.ReplicaOf(v); !slices.Contains(f.Names, name) {
			f.Names = append(f.Names, name)
		}
	}
	if h.Spec.Target().All {
		f.Names = nil
	}
	h.armed.Store(f.ID, h)
	_, err := h.Tap.Inject(f)
	return err
}

// countedByTap: the tap counts, and says when it is over: also the connections that hang.
func countedByTap(ctx context.Context, h *Hit) error {
	id := h.Rec.Shot.Op
	over := h.Tap.Over(id)
	if over == nil {
		return fmt.Errorf("the proxy has no fault %s", id)
	}
	var late error
	select {
	case <-over:
	case <-ctx.Done():
		late = ctx.Err()
	}
	var s tap.Status
	for _, f := range h.Tap.Faults() {
		if f.ID == id {
			s = f
		}
	}
	if h.Saw.Hits = s.Hits; s.Hits > 0 {
		h.Window = history.Span{From: s.First, To: s.Last}
	}
	if late != nil {
		return late
	}
	return h.outcome(burst.Tally{Hits: s.Hits, Want: h.fault().Want}, h.passed(s))
}

// passed says where the operations may have gone that were not hit.
func (h *Hit) passed(s tap.Status) string {
	var all int64
	for _, n := range h.Tap.Stats().Names {
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
func endTap(_ context.Context, h *Hit) error {
	if h.Tap == nil {
		return nil
	}
	if s, ok := h.Tap.End(h.Rec.Shot.Op, "reverted"); ok {
		h.Ended = history.At(s.To)
	}
	h.armed.Delete(h.Rec.Shot.Op)
	return nil
}

// proxyEvery is how often a lockdrill proxy is asked what it has struck: a hit is known to lie between two answers.
const proxyEvery = 20 * time.Millisecond

// atProxy names the fault at a lockdrill proxy that stands by itself.
func (h *Hit) atProxy(api string) {
	h.Rec.Tap = &undo.Tap{API: api, ID: h.Run + "-" + strings.ReplaceAll(h.Rec.Shot.Op, "#", ".")}
}

func proxyFault(_ context.Context, h *Hit) error { h.atProxy(h.API); return nil }

func armProxy(ctx context.Context, h *Hit) error {
	f, holds := h.onWay(h.Rec.Tap.ID), ""
	if lock, key := h.aimed(); key != "" {
		holds = key
	} else {
		f.Key = h.Glob(lock, "")
	}
	if err := tap.NewClient(h.Rec.Tap.API).Inject(ctx, f, holds); err != nil {
		return void(history.FaultFailed, "%v", err)
	}
	return nil
}

// unknownAtProxy voids what a proxy that was started anew has forgotten.
var unknownAtProxy = void(history.Unconfirmed, "the proxy was started anew, and knows no fault any more")

// countedByProxy asks until the burst is over, and records each operation that it struck.
func countedByProxy(ctx context.Context, h *Hit) error {
	c, shot := tap.NewClient(h.Rec.Tap.API), h.Rec.Shot
	before, told := h.now(), 0
	for range poll.Every(ctx, proxyEvery) {
		asked := h.now()
		now, err := c.Fault(ctx, h.Rec.Tap.ID)
		between := history.Span{From: before, To: h.now()}
		switch {
		case errors.Is(err, tap.ErrNoFault):
			h.Saw.Hits = 0
			return unknownAtProxy
		case err != nil: // asked again
			continue
		}
		for i, s := range now.Struck[min(told, len(now.Struck)):] {
			if shot.Epoch != "" && s.Epoch != "" && s.Epoch != shot.Epoch {
				h.Saw.Hits = now.Hits
				return void(history.Moved, "the key was another holder's when the proxy was told")
			}
			n := told + i + 1
			if h.Window.To = between.To; n == 1 {
				h.Window.From = between.From
			}
			if err := h.Write(h.struck(between, s, int64(n))); err != nil {
				h.Saw.Hits = 0
				return err
			}
		}
		before, told, h.Saw.Hits = asked, len(now.Struck), now.Hits
		if now.Over {
			why := ""
			if now.Hits == 0 {
				why = ": do the clients go round the proxy?"
			}
			return h.outcome(burst.Tally{Hits: now.Hits, Want: shot.Fault.Want}, why)
		}
	}
	return ctx.Err()
}

// endAtProxy ends a fault at a proxy by its record. A proxy that has ended, or does not know it, has nothing left of it.
func endAtProxy(ctx context.Context, h *Hit) error {
	if h.Rec.Tap == nil {
		return nil
	}
	err := tap.NewClient(h.Rec.Tap.API).End(ctx, h.Rec.Tap.ID)
	if err == nil || errors.Is(err, tap.ErrNoFault) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("end the fault %s: %w", h.Rec.Tap.ID, err)
}
