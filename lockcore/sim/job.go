package sim

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
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
	if !r.stopping && !slices.ContainsFunc(r.tasks, func(t *task) bool { return !t.m.Loop() && t.subject == o.Job }) {
		r.begin(r.w.locks[o.Lock], o.Key, o.Job, *o)
	}
}

func (t *task) acknowledge(answer string) {
	w := t.r.w
	if !w.recording() {
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

// effect makes an effect that is not sent yet.
func (t *task) effect(of work.Effect) {
	fence := t.lease.fence
	if t.lock.Variant.LateFence {
		fence = max(fence, t.r.w.table.Fence(t.key))
	}
	t.write = t.r.w.writes.Get()
	*t.write = write{t: t, token: t.lease.token, Effect: lockcore.Effect{
		Key: t.key, Subject: t.subject, Loop: t.m.Loop(), State: of.State, Terminal: of.Terminal,
		Epoch: t.r.w.epochOf(t.lease.token), Fence: fence, Op: t.r.effectOp(), Writer: t.r.Incarnation,
		Unfenced: t.lock.Unfenced || t.lock.Variant.Unfenced, Strict: t.lock.Strict,
	}}
}

func (t *task) send() {
	w, e := t.r.w, t.write
	e.sent, e.over = w.now, false
	if w.recording() {
		i := t.event(history.WriteInvoke, e.Op)
		i.Write = w.bodies.writes.New(history.Write{Subject: e.Subject, State: e.State, Terminal: e.Terminal})
		w.emit(i)
	}
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
	if e.over || t.write != e {
		return
	}
	e.report(history.OK, "")
	t.step(work.Input{Kind: work.Written, Receipt: e.receipt})
}
