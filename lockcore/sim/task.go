package sim

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// task drives one piece of work, as package worker does: it makes its effects, keeps its time, and has its lease sought and given back.
type task struct {
	r       *replica
	lock    *Lock
	key     string
	subject string
	job     Offer
	m       work.Machine
	lease   *lease    // sought or held; nil = none
	waits   work.Then // for the answer to this
	gen     uint32    // of what it waits for
	work    string    // operation of the stretch of work
	stretch int       // number of the truth's record of the work under way
	write   *write
}

// haltWithin is how long a goroutine takes to notice that its context has ended.
const haltWithin = 60 * time.Microsecond

// begin makes the task of a lock: a loop's, or a job's.
func (r *replica) begin(l *Lock, key, subject string, o Offer) {
	t := r.w.tasks.Get()
	*t = task{r: r, lock: l, key: key, subject: subject, job: o, m: work.New(work.Spec{
		Policy: &l.Policy, Hold: o.Hold, NoLook: l.NoLook, Wrong: l.Wrong}, r.w.draw)}
	r.tasks = append(r.tasks, t)
	t.step(work.Input{Kind: work.Start})
}

// step tells the work of something, and does what it asks for.
func (t *task) step(in work.Input) {
	w := t.r.w
	if l := t.lease; l != nil {
		in.Over, in.Held = l.over, l.held()
	}
	do := t.m.Step(time.Duration(w.now), in)
	if do.Cancel {
		t.write.cancel()
	}
	if do.Exit != "" {
		t.exit(string(do.Exit))
	}
	if do.Leave {
		l := t.lease
		t.lease, l.task = nil, nil
		l.stop(lockcore.Leave)
	}
	if do.Enter {
		t.enter()
	}
	if do.Answer != "" {
		t.acknowledge(do.Answer)
	}
	if do.Effect != (work.Effect{}) {
		t.effect(do.Effect)
	}
	if do.Then != work.Nothing {
		t.waits = do.Then
		t.gen++
	}
	switch do.Then {
	case work.Seek:
		t.seek()
	case work.GiveUp:
		t.lease.giveUp()
	case work.Write:
		t.send()
	case work.Rest:
		t.wait(max(0, int64(do.At)-w.now) + w.late())
	case work.Labour:
		t.wait(int64(do.For) + w.late())
	case work.Pause:
		t.wait(int64(do.For))
	case work.Halt:
		t.wait(w.rng.within(time.Microsecond, haltWithin))
	case work.Release:
		t.lease.stop(lockcore.Stop) // tells of it, now or later
	case work.End:
		t.end()
	}
}

func (t *task) wait(d int64) {
	t.r.w.plan(moment{at: t.r.w.now + d, kind: atTask, gen: t.gen, task: t})
}

// due is the coming of what the task has waited for.
func (t *task) due(gen uint32) {
	switch {
	case gen != t.gen:
	case t.waits == work.Halt:
		t.step(work.Input{Kind: work.Halted})
	default:
		t.step(work.Input{Kind: work.Timer})
	}
}

// told takes what a step of the lease means for the work.
func (t *task) told(h heard, why lockcore.Result) {
	l := t.lease
	switch {
	case h.granted:
		t.step(work.Input{Kind: work.Granted})
	case h.refused:
		t.lease, l.task = nil, nil
		t.step(work.Input{Kind: work.Refusal, Busy: why == lockcore.Held})
	case t.waits == work.Release && (h.done || l.m.State() == lockcore.Left):
		t.lease, l.task = nil, nil
		t.step(work.Input{Kind: work.Released})
	case h.fenced:
		t.step(work.Input{Kind: work.Lost})
	}
}

// enter says that a stretch of work begins.
func (t *task) enter() {
	w := t.r.w
	t.stretch = w.truth.entered(t)
	if w.recording() {
		t.work = t.r.op(t.r.Incarnation, "/work-")
		e := t.event(history.WorkEnter, t.work)
		e.Work = w.bodies.works.New(history.Work{Subject: t.subject})
		w.emit(e)
	}
}

// exit says that it has ended.
func (t *task) exit(why string) {
	w, l := t.r.w, t.lease
	w.truth.exited(t)
	if w.recording() {
		e := t.event(history.WorkExit, t.work)
		valid := l.sent + int64(l.lock.Policy.TTL-l.lock.Policy.Drift)
		e.Work = w.bodies.works.New(history.Work{Subject: t.subject, Why: why, Valid: valid - w.now, HasValid: true})
		w.emit(e)
	}
}

func (t *task) event(k history.Kind, op string) history.Event {
	h := t.lease.holder(t.lease.epoch, t.lease.fence)
	e := h.Event(k, history.At(t.r.w.now))
	e.Op = op
	return e
}

func (l *lease) giveUp() { l.step(lockcore.Input{Kind: lockcore.GiveUp}) }

func (t *task) end() {
	r := t.r
	for i := range r.tasks {
		if r.tasks[i] == t {
			r.tasks = append(r.tasks[:i], r.tasks[i+1:]...)
			break
		}
	}
	r.left()
}
