package injectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// What befalls a process: it stands still, in turns or for good, or it ends.

var (
	pause   = Row{Needs: processes, Find: process, Do: send("pause", syscall.SIGSTOP), See: still, End: goOn}
	starve  = Row{Needs: processes, Find: process, Do: send("pause", syscall.SIGSTOP), See: dutyCycle, End: goOn}
	killed  = Row{Needs: processes, Do: send("kill", syscall.SIGKILL), See: died}
	askedTo = Row{Needs: processes, Do: witnessed(send("ask to end", syscall.SIGTERM)), See: leaves, Takes: func(h *Hit) time.Duration { return h.grace() + graceSlack }}
)

func processes(h *Hit) bool { return h.Signal != nil && h.Pods == nil }

// process writes down the victim, by more than its number: it must be the one that was started as this incarnation.
func process(_ context.Context, h *Hit) error {
	who := h.fault().Victim
	if h.Victim == nil {
		return void(history.NoTarget, "%s was never started", who)
	}
	p := undo.Find(h.Victim.PID)
	p.Started, p.Alone = h.Victim.Started, h.Alone
	if alive, err := p.Lives(); err != nil {
		return void(history.NoTarget, "%s cannot be paused: %v", who, err)
	} else if !alive {
		return void(history.Moved, "%s is gone already", who)
	}
	if _, any, err := standing(p); h.Alone && err == nil && any {
		return void(history.NoTarget, "%s stands still already: somebody else has stopped it", who)
	}
	h.Rec.Process = &p
	return nil
}

// send signals the victim by its fleet, which knows whether it lives; the bracket is that of kill(2), from when a step before it began.
func send(what string, sig syscall.Signal) step {
	return func(_ context.Context, h *Hit) error {
		span, err := h.Signal(h.fault().Victim, sig)
		if err == nil {
			h.Applied = span
			return nil
		}
		word := history.Moved // gone, unless the error says otherwise
		if v := interface{ Void() history.VoidReason }(nil); errors.As(err, &v) {
			word = v.Void()
		}
		return void(word, "%s %s: %v", what, h.fault().Victim, err)
	}
}

// inTurn does one thing after the other.
func inTurn(steps ...step) step {
	return func(ctx context.Context, h *Hit) error {
		for _, do := range steps {
			if err := do(ctx, h); err != nil {
				return err
			}
		}
		return nil
	}
}

// witnessed has the locks looked at first, within the bracket of the call: what is given back after it was surely held when that began, however
// quick the victim is. Unheard, less is known of when that was.
func witnessed(call step) step {
	return func(ctx context.Context, h *Hit) error {
		from := h.Applied.From
		if h.Sample != nil {
			ctx, cancel := context.WithTimeout(ctx, sampleWithin)
			_ = h.Sample(ctx)
			cancel()
		}
		err := call(ctx, h)
		h.Applied.From = min(from, h.Applied.From)
		return err
	}
}

// still watches the process for as long as the fault lasts: all its threads stand still, the whole time. The window is that in which they were
// seen to; it is cut short where the run ends first.
func still(ctx context.Context, h *Hit) error {
	p, lasts := *h.Rec.Process, h.lasts()
	end, limit := h.Applied.To+int64(lasts), h.Applied.To+int64(stopWithin)
	h.Saw.Expected, h.Window = int64(lasts), history.Span{}
	never := void(history.Unconfirmed, "process %d was never seen to stand still", p.PID)
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		looked := h.now()
		all, _, err := standing(p)
		now := h.now()
		switch stood := h.Window.From != 0; {
		case errors.Is(err, errGone), err == nil && stood && !all && dying(ctx, p):
			return h.somebodyEnded(now)
		case err != nil:
			return err
		case all && !stood:
			h.Window = history.At(now)
			tick.Reset(watchEvery)
		case all:
			h.Window.To = looked
		case stood:
			return void(history.Unconfirmed, "process %d went on after %s of %s: somebody else has continued it", p.PID, time.Duration(h.Window.Width()), lasts)
		case now > min(limit, end):
			return never
		}
		if h.Window.From != 0 {
			h.Saw.Hits, h.Saw.Observed = 1, h.Window.Width()
			if now >= end {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if h.Window.From == 0 {
				return never
			}
			return nil
		}
	}
}

// somebodyEnded is the end of a shot whose victim did not live through it: its own supervisor may have taken it for dead.
func (h *Hit) somebodyEnded(now int64) error {
	return void(history.Ended, "process %d was ended %s into the fault, by somebody else", h.Rec.Process.PID, figures.Short(max(0, now-h.Applied.To)))
}

// enoughStood is the part of the declared standstill that must have been seen, in tenths: what a look takes is not counted.
const enoughStood = 8

// dutyCycle stops and continues the victim until its time is up, so that nobody stops it once the shot is over, and adds up for how long all
// its threads were seen to stand: from the end of the look that found them standing to the beginning of the last one before SIGCONT that
// still did. That it goes on in between is seen as well: what somebody else holds is paused, not starved.
func dutyCycle(ctx context.Context, h *Hit) error {
	f, p := h.Spec.(*fault.Starve), *h.Rec.Process
	h.Window = history.At(h.Applied.To)
	for now, end := h.now(), h.Applied.To+h.fault().Declared; now < end && ctx.Err() == nil; now = h.now() {
		stood, err := turn(ctx, h, f)
		if errors.Is(err, errGone) {
			return h.somebodyEnded(h.now())
		} else if err != nil {
			return err
		}
		if stood > 0 {
			h.Saw.Hits++
		}
		h.Window.To = h.now()
		h.Saw.Observed += stood
		h.Saw.Expected = int64(f.Share * float64(h.Window.Width()))
	}
	if h.Saw.Hits == 0 || h.Saw.Observed*10 < h.Saw.Expected*enoughStood {
		return void(history.Unconfirmed, "process %d was seen to stand still for %s of %s, wanted %s",
			p.PID, time.Duration(h.Saw.Observed), time.Duration(h.Window.Width()), time.Duration(h.Saw.Expected))
	}
	return nil
}

// turn is one period; stood is for how long the victim was seen to stand in it.
func turn(ctx context.Context, h *Hit, f *fault.Starve) (stood int64, err error) {
	p, began, from := *h.Rec.Process, h.now(), int64(0)
	if err := signal(p, syscall.SIGSTOP); err != nil {
		return 0, err
	}
	for limit := time.Now().Add(stopWithin); from == 0; rest(ctx, stateEvery) {
		all, _, err := standing(p)
		switch {
		case err != nil || ctx.Err() != nil:
			return 0, err
		case all:
			from = h.now()
		case time.Now().After(limit):
			return 0, void(history.Unconfirmed, "process %d was never seen to stand still", p.PID)
		}
		if all {
			break
		}
	}
	rest(ctx, f.Stood())
	looked := h.now()
	all, _, err := standing(p)
	if err := errors.Join(err, resume(context.WithoutCancel(ctx), p)); err != nil { // resumed: read back
		return 0, err
	}
	rest(ctx, max((f.Period-f.Stood())/4, f.Period-time.Duration(h.now()-began))) // looking has taken its time, too
	if !all {
		return 0, nil // somebody has continued it
	}
	return looked - from, nil
}

// rest lets time go by, or the run end.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// goOn continues what the record names, and reads back that it goes.
func goOn(ctx context.Context, h *Hit) error {
	if h.Rec.Process == nil {
		return nil
	}
	if p := *h.Rec.Process; !h.Again || !p.Alone {
		return resume(ctx, p)
	} else if alive, err := p.Lives(); err != nil || !alive {
		return err
	} else if _, any, err := standing(p); err != nil || !any {
		return err
	}
	return fmt.Errorf("%w: the process stands still; continue it, unless somebody else has stopped it", undo.ErrStill)
}

const (
	killWithin = 5 * time.Second  // from SIGKILL until its end was seen
	graceSlack = 10 * time.Second // beyond the grace that a victim has
)

// died waits until the victim's death by SIGKILL was seen, which also means that the last claims of a child have arrived: none of them may
// have given the lock up before.
func died(ctx context.Context, h *Hit) error {
	exit, err := h.exit(ctx)
	if err != nil {
		return err
	}
	if want := "signal: " + syscall.SIGKILL.String(); exit.Replica.Exit != want {
		return void(history.Unconfirmed, "%s ended by itself (%s) before the kill", h.fault().Victim, exit.Replica.Exit)
	}
	if err := h.heldUntil(h.Applied.To, true, ": this machine is busy"); err != nil {
		return err
	}
	h.Saw.Hits, h.Window.To = 1, exit.To
	return nil
}

// grace is from SIGTERM to SIGKILL: as the fault says, else as a supervisor grants it.
func (h *Hit) grace() time.Duration { return cmp.Or(fault.Of(h.Spec).Traits().Grace, h.Grace) }

// leaves waits for the end that was asked for, and kills when the grace is over, as a supervisor does. As of a pod, the call and the end of the
// process are two instants; what the victim gives back between them is the end that was asked for.
func leaves(ctx context.Context, h *Hit) error {
	d := &history.Death{Call: h.Applied, Means: history.MeansSignal}
	h.Saw.Death = d
	within, cancel := context.WithTimeout(ctx, h.grace())
	exit, err := h.exit(within)
	cancel()
	if err != nil {
		if ctx.Err() == nil { // one that has just ended is not there to be signalled, and its end is on the way
			_, _ = h.Signal(h.fault().Victim, syscall.SIGKILL)
		}
		within, cancel := context.WithTimeout(ctx, killWithin)
		defer cancel()
		if exit, err = h.exit(within); err != nil {
			return err
		}
	}
	d.By, d.Sign = exit.Replica.By, min(max(exit.From, lastSign(h.Past(), h.fault().Victim)), exit.To)
	d.End = &history.Span{From: d.Sign, To: exit.To}
	if exit.To < h.Applied.From {
		return void(history.Unconfirmed, "%s ended by itself (%s) before it was asked to", h.fault().Victim, exit.Replica.Exit)
	}
	if err := h.heldUntil(h.Applied.From-1, false, ""); err != nil {
		return err
	}
	h.Saw.Hits, h.Window.To = 1, exit.To
	return nil
}

// exit waits for the end of the victim.
func (h *Hit) exit(ctx context.Context) (history.Event, error) {
	e, err := h.Await(ctx, int(h.Rec.Shot.N), func(e history.Event) bool {
		return e.Kind == history.ReplicaExit && e.Replica.Incarnation == h.fault().Victim
	})
	if err != nil {
		err = void(history.Unconfirmed, "the death of %s was not seen: %v", h.fault().Victim, err)
	}
	return e, err
}

// heldUntil voids a shot whose victim had given the lock up by then, or renewed it where the shot was to come first. begun: a release that had
// only begun counts as well; else what may be either is for the judgement.
func (h *Hit) heldUntil(at int64, begun bool, late string) error {
	shot := h.Rec.Shot
	for _, e := range h.Past() {
		if e.Epoch != shot.Epoch || shot.Epoch == "" {
			continue
		}
		when := e.To
		if begun {
			when = e.From
		}
		if (e.Kind == history.ReleaseInvoke || e.Kind == history.FenceObserved) && when <= at {
			return void(history.Moved, "%s gave the lock up before the kill (%s)", shot.Fault.Victim, e.Kind)
		}
		if a := shot.Fault.Anchor; a > 0 && e.Kind == history.RenewInvoke && e.From > a && e.From <= h.Applied.To {
			return void(history.Moved, "the kill was meant to come before %s renewed, and came too late%s", shot.Fault.Victim, late)
		}
	}
	return nil
}

// startOf is what is known of the shot's victim since it was seen to start; nil = nobody saw it.
func startOf(past []history.Event, victim string) *history.Replica {
	for _, e := range past {
		if e.Kind == history.ReplicaStart && e.Replica.Incarnation == victim {
			return e.Replica
		}
	}
	return nil
}

// Await returns the first recorded event, from the given index of the history on, that matches.
type Await func(ctx context.Context, from int, match func(history.Event) bool) (history.Event, error)
