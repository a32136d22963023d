package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

const (
	ledgerLimit  = 2 * time.Second  // of one call
	releaseLimit = 30 * time.Second // above what any policy's tries take
)

// task drives one piece of work in a goroutine of its own: it makes its calls, keeps its time, and says what it does.
type task struct {
	w            *worker
	lock         *lock
	key, subject string
	class        string
	m            work.Machine
	h            Held   // nil = none
	epoch        string // the last one
	op           string // of the stretch of work
	effect       lockcore.Effect
	quit, lost   bool // was told
}

// take begins a job, unless it is under way here already: then the offer is a repetition, and one answer will do.
func (w *worker) take(ctx context.Context, o protocol.Offer) error {
	l := w.locks[o.Lock]
	if l == nil {
		return fmt.Errorf("offer of job %q: lock %q is not configured", o.Job, o.Lock)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[o.Job] || len(w.jobs) >= maxJobs {
		return nil
	}
	w.jobs[o.Job] = true
	w.work.Go(func() {
		t := &task{w: w, lock: l, key: o.Key, subject: o.Job, class: o.Class, m: work.New(work.Spec{Policy: &l.Policy, Hold: o.Hold, NoLook: l.NoLook, Wrong: w.wrong}, nil)}
		answer := t.run(ctx)
		w.mu.Lock()
		delete(w.jobs, o.Job) // before the answer, which may bring the next offer at once
		w.mu.Unlock()
		if answer != "" {
			w.Say(history.Event{
				Kind: history.JobAck, Span: history.At(monotime.Now()), Lock: o.Lock, Key: o.Key, Epoch: t.epoch,
				Job: &history.Job{ID: o.Job, Hold: int64(o.Hold), Ack: answer},
			})
		}
	})
	return nil
}

// runLoop leads a loop, or waits to, until ctx ends.
func (w *worker) runLoop(ctx context.Context, l *lock) {
	rng := rand.New(rand.NewPCG(uint64(Seed(w.who, l.Name)), 1))
	t := &task{w: w, lock: l, key: l.Key, subject: l.Name, m: work.New(work.Spec{Policy: &l.Policy, Wrong: w.wrong}, rng.Float64)}
	t.run(ctx)
}

// run does what the work asks for until it ends, and gives the answer to its offer.
func (t *task) run(ctx context.Context) (answer string) {
	begun := time.Now()
	in := work.Input{Kind: work.Start}
	for {
		if t.h != nil {
			in.Over, in.Held = t.h.Context().Err() != nil, t.h.Check() == nil
		}
		do := t.m.Step(time.Since(begun), in)
		if do.Exit != "" {
			t.exit(string(do.Exit))
		}
		if do.Leave {
			t.h.Leave()
			t.lock.validity.forget(t.epoch)
			t.h = nil
		}
		if do.Enter {
			t.enter()
		}
		if do.Effect != (work.Effect{}) {
			t.effect = lockcore.Effect{
				Key: t.key, Subject: t.subject, Loop: t.m.Loop(), State: do.Effect.State, Terminal: do.Effect.Terminal,
				Epoch: t.h.Epoch(), Fence: t.h.Fence(), Op: t.w.Op("write"), Writer: t.w.who.Incarnation,
				Unfenced: t.lock.Unfenced || t.h.Fence() == 0, Strict: t.lock.Strict,
			}
		}
		switch in = (work.Input{}); do.Then {
		case work.Seek: // it ends with ctx by itself
			in = t.seek(ctx)
		case work.Write:
			in = t.write()
		case work.Look:
			in = work.Input{Kind: work.Read, Applied: t.applied()}
		case work.Rest:
			in = t.wait(ctx, time.Until(begun.Add(do.At)), true)
		case work.Labour:
			in = t.wait(ctx, do.For, true)
		case work.Pause:
			in = t.wait(ctx, do.For, false)
		case work.Halt: // nothing of it runs in another goroutine
			in.Kind = work.Halted
		case work.Release:
			t.release(ctx)
			in.Kind = work.Released
		case work.End:
			return do.Answer
		}
	}
}

func (t *task) seek(ctx context.Context) work.Input {
	h, err := t.w.locker.Acquire(ctx, Want{Lock: t.lock.Lock, Key: t.key, Class: t.class})
	if err != nil {
		return work.Input{Kind: work.Refusal, Busy: busy(err)}
	}
	t.h, t.epoch, t.lost = h, h.Epoch(), false
	return work.Input{Kind: work.Granted}
}

// busy reports that another has the key.
func busy(err error) bool {
	_, held := errors.AsType[*lockcore.HeldError](err)
	return held || errors.Is(err, ErrBusy)
}

// wait waits for d, until the lock is lost, or until the replica is told to stop.
func (t *task) wait(ctx context.Context, d time.Duration, mind bool) work.Input {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var lost, stop <-chan struct{}
	if t.h != nil && !t.lost {
		lost = t.h.Context().Done()
	}
	if mind && !t.quit {
		stop = ctx.Done()
	}
	select {
	case <-timer.C:
		return work.Input{Kind: work.Timer}
	case <-lost:
		t.lost = true
		return work.Input{Kind: work.Lost}
	case <-stop:
		t.quit = true
		return work.Input{Kind: work.Quit}
	}
}

func (t *task) enter() {
	t.op = t.w.Op("work")
	e := t.event(history.WorkEnter, t.op)
	e.Work = &history.Work{Subject: t.subject}
	t.w.Say(e)
}

// exit says that work has stopped, and how long the lock would still have been valid.
func (t *task) exit(why string) {
	e := t.event(history.WorkExit, t.op)
	e.Work = &history.Work{Subject: t.subject, Why: why}
	if end, ok := t.lock.validity.end(t.epoch); ok {
		e.Work.Valid, e.Work.HasValid = end-e.From, true
	}
	t.w.Say(e)
}

// release gives the lock back as its policy says. The replica may be stopping: that must not cut the release short.
func (t *task) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	_ = t.h.Release(ctx) // the lock's events say how it went; nothing here depends on it
	t.lock.validity.forget(t.epoch)
	t.h = nil
}

// write is one call to the ledger. It ends with the lock: work must not go on behind a ledger that hangs.
func (t *task) write() work.Input {
	invoke := t.event(history.WriteInvoke, t.effect.Op)
	invoke.Write = &history.Write{Subject: t.effect.Subject, State: t.effect.State, Terminal: t.effect.Terminal}
	t.w.Say(invoke)
	ctx, cancel := context.WithTimeout(t.h.Context(), ledgerLimit)
	defer cancel()
	r, err := t.w.ledger.Write(ctx, t.effect)
	ret := t.event(history.WriteReturn, t.effect.Op)
	ret.From = invoke.From
	body := *invoke.Write
	ret.Write, ret.Outcome = &body, history.OK
	switch {
	case err == nil:
		body.Accepted, body.Reason, body.Current = r.Accepted, r.Reason, r.Before.State
	case errors.Is(err, lockcore.ErrNotSent):
		ret.Outcome, body.Err = history.Fail, brief("ledger", err)
	default:
		ret.Outcome, body.Err = history.Unknown, brief("ledger", err)
	}
	t.w.Say(ret)
	if c, counts := t.w.locker.(StaleCounter); counts && err == nil && superseded(t.effect, r) {
		c.StaleWrite(t.lock.Name, !r.Accepted)
	}
	return work.Input{Kind: work.Written, Unknown: err != nil, Receipt: r}
}

// superseded reports whether the ledger knew of a higher fence. A ledger that does not compare fences shows it only where a later
// epoch has written a state of the same subject.
func superseded(e lockcore.Effect, r lockcore.Receipt) bool {
	return r.Reason == history.ReasonFenced || r.Accepted && r.Reason == "" && r.Before.Fence > e.Fence
}

// applied reads whether this epoch's terminal write has taken effect.
func (t *task) applied() bool {
	ctx, cancel := context.WithTimeout(t.h.Context(), ledgerLimit)
	defer cancel()
	state, err := t.w.ledger.Read(ctx, t.subject)
	return err == nil && state.Terminal && state.Fence == t.h.Fence()
}

func (t *task) event(k history.Kind, op string) history.Event {
	return history.Event{
		Kind: k, Span: history.At(monotime.Now()), Lock: t.lock.Name, Key: t.key, Epoch: t.h.Epoch(), Fence: t.h.Fence(), Op: op,
	}
}
