package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/client"
)

const (
	ledgerLimit  = 2 * time.Second        // of one call
	ledgerTries  = 3                      // of one effect: a repetition under the same operation id has no second effect
	ledgerPause  = 50 * time.Millisecond  // between them
	releaseLimit = 30 * time.Second       // above what any policy's tries take
	noticeLimit  = 500 * time.Millisecond // for the lock's context to end after its validity has
)

// Why work ended: Work.Why.
const (
	exitDone    = "done"
	exitSkipped = "skipped" // somebody had finished the job
	exitFenced  = "fenced"  // the lock may not be relied on any more
	exitRefused = "refused" // the ledger has seen a higher fence
	exitError   = "error"   // the ledger did not answer
	exitStopped = "stopped" // the replica was told to stop
)

// workItem is one stretch of work under one epoch: a job, or one tick of a loop.
type workItem struct {
	w            *worker
	lock         *lock
	h            *client.Handle
	key, subject string
	op           string
}

// enter begins work.
func (w *worker) enter(l *lock, h *client.Handle, key, subject string) *workItem {
	s := &workItem{w: w, lock: l, h: h, key: key, subject: subject, op: w.nextOp("work")}
	e := s.event(history.WorkEnter, s.op)
	e.Work = &history.Work{Subject: subject}
	w.emit(e)
	return s
}

// exit says that work has stopped, and how long the lock would still have been valid.
func (s *workItem) exit(why string) {
	e := s.event(history.WorkExit, s.op)
	e.Work = &history.Work{Subject: s.subject, Why: why}
	if end, ok := s.lock.validity.end(s.h.Epoch()); ok {
		e.Work.Valid, e.Work.HasValid = end-e.From, true
	}
	s.w.emit(e)
}

// release gives the lock back as its policy says. The replica may be stopping: that must not cut the release short.
func (s *workItem) release(ctx context.Context) {
	s.w.release(ctx, s.lock, s.h)
}

func (w *worker) release(ctx context.Context, l *lock, h *client.Handle) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	_ = h.Release(ctx) // the client's events say how it went; nothing here depends on it
	l.validity.forget(h.Epoch())
}

// effect is one write of a work item.
type effect struct {
	state    string
	terminal bool
	loop     bool
}

// write makes one effect at the ledger and returns the subject's state before it; why is empty where it was accepted, else why
// the work must end. Where replies are lost it asks again under the same operation id, and then reads what has become of it.
func (s *workItem) write(e effect) (before lockcore.SubjectState, why string) {
	full := lockcore.Effect{
		Key: s.key, Subject: s.subject, Loop: e.loop, State: e.state, Terminal: e.terminal,
		Epoch: s.h.Epoch(), Fence: s.h.Fence(), Op: s.w.nextOp("write"), Writer: s.w.who.Incarnation,
		Unfenced: s.lock.Unfenced, Strict: s.lock.Strict,
	}
	for try := range ledgerTries {
		if try > 0 {
			s.pause(ledgerPause)
		}
		if s.lost() {
			return before, exitFenced
		}
		r, err := s.attempt(full)
		if err == nil && superseded(full, r) {
			s.lock.counts.StaleWrite(!r.Accepted)
		}
		switch {
		case err != nil:
		case r.Accepted:
			return r.Before, ""
		default:
			return r.Before, exitRefused
		}
	}
	switch {
	case e.terminal && s.applied():
		return before, ""
	case s.h.Context().Err() != nil:
		return before, exitFenced
	}
	return before, exitError
}

// superseded reports whether the ledger knew of a higher fence. A ledger that does not compare fences shows it only where a later
// epoch has written a state of the same subject.
func superseded(e lockcore.Effect, r lockcore.Receipt) bool {
	return r.Reason == history.ReasonFenced || r.Accepted && r.Reason == "" && r.Before.Fence > e.Fence
}

// attempt is one call. It ends with the lock: work must not go on behind a ledger that hangs.
func (s *workItem) attempt(full lockcore.Effect) (lockcore.Receipt, error) {
	invoke := s.event(history.WriteInvoke, full.Op)
	invoke.Write = &history.Write{Subject: full.Subject, State: full.State, Terminal: full.Terminal}
	s.w.emit(invoke)
	ctx, cancel := context.WithTimeout(s.h.Context(), ledgerLimit)
	defer cancel()
	r, err := s.w.ledger.Write(ctx, full)
	ret := s.event(history.WriteReturn, full.Op)
	ret.From = invoke.From
	body := *invoke.Write
	ret.Write, ret.Outcome = &body, history.OK
	switch {
	case err == nil:
		body.Accepted, body.Reason, body.Current = r.Accepted, r.Reason, r.Before.State
	case errors.Is(err, lockcore.ErrNotSent):
		ret.Outcome, body.Err = history.Fail, brief(err)
	default:
		ret.Outcome, body.Err = history.Unknown, brief(err)
	}
	s.w.emit(ret)
	return r, err
}

// applied reads whether this epoch's terminal write has taken effect.
func (s *workItem) applied() bool {
	ctx, cancel := context.WithTimeout(s.h.Context(), ledgerLimit)
	defer cancel()
	state, err := s.w.ledger.Read(ctx, s.subject)
	return err == nil && state.Terminal && state.Fence == s.h.Fence()
}

// lost reports whether the lock was given up. The classes that promise safety also ask the clock (a resumed process may be here
// before its timers are), and then wait until the lock itself has noticed; the legacy ones look at nothing, as published.
func (s *workItem) lost() bool {
	if s.h.Context().Err() != nil {
		return true
	}
	class := s.lock.Policy.Class
	if class != lockcore.Standard && class != lockcore.Critical || s.h.Check() == nil {
		return false
	}
	s.pause(noticeLimit)
	return true
}

// pause waits for d, or until the lock is given up.
func (s *workItem) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.h.Context().Done():
	case <-t.C:
	}
}

func (s *workItem) event(k history.Kind, op string) history.Event {
	return history.Event{
		Kind: k, Span: history.At(monotime.Now()), Lock: s.lock.Name, Key: s.key, Epoch: s.h.Epoch(), Fence: s.h.Fence(), Op: op,
	}
}

// nextOp names an operation, uniquely over all replicas and lives.
func (w *worker) nextOp(what string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops++
	return fmt.Sprintf("%s/%s-%d", w.who.Incarnation, what, w.ops)
}

// brief is the kind of an error without its address.
func brief(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if errors.Is(err, context.Canceled) {
		return "cancelled"
	}
	return "ledger: no answer"
}

// validity keeps the validity end of each epoch: the sending of its last ok acquire or renewal, plus TTL - drift. The handle
// forgets it when the lock is given up, and that is when it is asked for: how late did the work stop?
type validity struct {
	length int64

	mu   sync.Mutex
	ends map[string]int64 // by epoch, CLOCK_MONOTONIC ns
}

func newValidity(length time.Duration) *validity {
	return &validity{length: int64(length), ends: map[string]int64{}}
}

// note learns from the client's own events: a .return begins when its call was sent.
func (v *validity) note(e history.Event) {
	if e.Outcome != history.OK || e.Kind != history.AcquireReturn && e.Kind != history.RenewReturn {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.ends[e.Epoch]; known || e.Kind == history.AcquireReturn {
		v.ends[e.Epoch] = e.From + v.length
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
