package sim

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Offer is a job for a replica.
type Offer struct {
	Lock, Job, Key, Class string
	Hold                  time.Duration
}

// Offer gives a job to an incarnation, which takes it a moment later, unless it is dead or has it already.
func (w *World) Offer(incarnation string, o Offer) {
	r := w.replicas[incarnation]
	if r == nil {
		return
	}
	w.plan(moment{at: w.now + w.flight(), kind: atOffer, offer: w.offers.New(offer{r: r, Offer: o})})
}

// offer is a job on its way to a replica.
type offer struct {
	Offer
	r *replica
}

func (r *replica) take(o *Offer) {
	if r.stopping || slices.ContainsFunc(r.tasks, func(t *task) bool { return !t.loop && t.subject == o.Job }) {
		return
	}
	t := r.w.tasks.Get()
	*t = task{r: r, lock: r.w.locks[o.Lock], key: o.Key, subject: o.Job, job: *o, state: seeking}
	r.tasks = append(r.tasks, t)
	t.seek()
}

// acknowledge answers the offer. A job whose end is not known, or that was given up, has no answer.
func (t *task) acknowledge() {
	answer := ""
	switch {
	case t.why == exitDone:
		answer = history.AckDone
	case t.why == exitSkipped:
		answer = history.AckSkipped
	case t.why == "" && t.busy:
		answer = history.AckBusy
	}
	w := t.r.w
	if answer == "" || !w.recording() {
		return
	}
	e := t.r.event(history.JobAck)
	e.Lock, e.Key = t.lock.Name, t.key
	e.Job = w.bodies.jobs.New(history.Job{ID: t.subject, Hold: int64(t.job.Hold), Ack: answer})
	w.emit(e)
}

// write is one effect on its way to the ledger.
type write struct {
	lockcore.Effect
	t       *task
	token   int
	sent    int64
	over    bool // its caller has gone
	receipt lockcore.Receipt
}

// effect makes one effect, until it is answered.
func (t *task) effect(state string) {
	fence := t.lease.fence
	if t.lock.Variant.LateFence {
		fence = max(fence, t.r.w.table.Fence(t.key))
	}
	t.write = t.r.w.writes.Get()
	*t.write = write{t: t, token: t.lease.token, Effect: lockcore.Effect{
		Key: t.key, Subject: t.subject, Loop: t.loop, State: state, Terminal: state == stateDone,
		Epoch: t.r.w.epochOf(t.lease.token), Fence: fence, Op: t.r.effectOp(), Writer: t.r.Incarnation,
		Unfenced: t.lock.Unfenced || t.lock.Variant.Unfenced, Strict: t.lock.Strict,
	}}
	t.attempt()
}

// attempt sends the effect, unless the lock is lost. The classes that promise safety also ask the clock.
func (t *task) attempt() {
	w, e := t.r.w, t.write
	class := t.lock.Policy.Class
	switch safe := class == lockcore.Standard || class == lockcore.Critical; {
	case t.lease.over:
		t.halt(exitFenced)
		return
	case safe && !t.lease.held():
		t.wait(noticing, int64(noticeLimit))
		return
	}
	e.sent, e.over = w.now, false
	if w.recording() {
		i := t.event(history.WriteInvoke, e.Op)
		i.Write = w.bodies.writes.New(history.Write{Subject: e.Subject, State: e.State, Terminal: e.Terminal})
		w.emit(i)
	}
	t.state = writing
	t.gen++
	w.plan(moment{at: w.now + w.flight(), kind: atLedger, write: e})
}

// effect is the write at the ledger.
func (w *World) effect(e *write) {
	r, err := w.ledger.Write(e.Effect)
	if err != nil {
		panic("sim: " + err.Error())
	}
	e.receipt = r
	if r.Reason != history.ReasonReplay {
		w.truth.wrote(w, e)
		w.entered()
	}
	w.plan(moment{at: w.now + w.flight(), kind: atWriter, write: e, task: e.t})
}

// cancel ends the waiting for the ledger's answer: the effect is not known.
func (e *write) cancel() {
	e.over = true
	e.report(history.Unknown, "cancelled")
}

func (e *write) report(o history.Outcome, text string) {
	w := e.t.r.w
	if !w.recording() {
		return
	}
	ev := e.t.event(history.WriteReturn, e.Op)
	ev.From, ev.Outcome = e.sent, o
	ev.Write = w.bodies.writes.New(history.Write{Subject: e.Subject, State: e.State, Terminal: e.Terminal, Err: text})
	if o == history.OK {
		ev.Write.Accepted, ev.Write.Reason, ev.Write.Current = e.receipt.Accepted, e.receipt.Reason, e.receipt.Before.State
	}
	w.emit(ev)
}

// written is the ledger's answer at the writer.
func (t *task) written(e *write) {
	if e.over || t.write != e || t.state != writing {
		return
	}
	e.report(history.OK, "")
	switch {
	case !e.receipt.Accepted:
		t.finish(exitRefused)
	case e.State == history.StateBegin && t.loop:
		t.begun = true
		t.effect(history.StateTick)
	case e.State == history.StateBegin && e.receipt.Before.Terminal && !t.lock.NoLook:
		t.finish(exitSkipped)
	case e.State == history.StateBegin:
		t.labour(t.job.Hold)
	case e.State == history.StateTick:
		t.labour(t.lock.Policy.Loop.Tick)
	default:
		t.finish(exitDone)
	}
}
