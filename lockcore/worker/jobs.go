package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore/client"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// stateDone is the terminal state of a job.
const stateDone = "done"

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
		epoch, answer := w.runJob(ctx, l, o)
		w.mu.Lock()
		delete(w.jobs, o.Job) // before the answer, which may bring the next offer at once
		w.mu.Unlock()
		if answer != "" {
			w.acknowledge(o, epoch, answer)
		}
	})
	return nil
}

// runJob does a job under its lock and returns how to answer the offer. A job whose end is not known, or that was given up, has no
// answer: it is offered again.
func (w *worker) runJob(ctx context.Context, l *lock, o protocol.Offer) (epoch, answer string) {
	h, err := l.client.Acquire(client.WithClass(ctx, o.Class), o.Key)
	switch {
	case errors.Is(err, client.ErrBusy), errors.Is(err, client.ErrReentrant):
		return "", history.AckBusy
	case err != nil:
		return "", ""
	}
	s := w.enter(l, h, o.Key, o.Job)
	why := s.job(ctx, o)
	s.exit(why)
	s.release(ctx)
	switch why {
	case exitDone:
		answer = history.AckDone
	case exitSkipped:
		answer = history.AckSkipped
	}
	return h.Epoch(), answer
}

// job is what is done under the lock; it returns why the work ended. begin comes before the look: once it has raised the fence,
// the state that it returns is final for lower fences.
func (s *workItem) job(ctx context.Context, o protocol.Offer) string {
	before, why := s.write(effect{state: history.StateBegin})
	switch {
	case why != "":
		return why
	case before.Terminal && !s.lock.NoLook:
		return exitSkipped
	}
	if why := s.labour(ctx, o.Hold); why != "" {
		return why
	}
	if _, why := s.write(effect{state: stateDone, terminal: true}); why != "" {
		return why
	}
	return exitDone
}

func (w *worker) acknowledge(o protocol.Offer, epoch, answer string) {
	w.emit(history.Event{
		Kind: history.JobAck, Span: history.At(monotime.Now()), Lock: o.Lock, Key: o.Key, Epoch: epoch,
		Job: &history.Job{ID: o.Job, Hold: int64(o.Hold), Ack: answer},
	})
}

// labour is the work itself: it takes d, unless the lock is lost or the replica is stopped, and returns why in those cases.
func (s *workItem) labour(ctx context.Context, d time.Duration) string {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ""
	case <-s.h.Context().Done():
		return exitFenced
	case <-ctx.Done():
		return exitStopped
	}
}
