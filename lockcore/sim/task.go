package sim

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// task is what one goroutine of a worker does: one job, or the running of one loop. It follows package worker step by step.
type task struct {
	r       *replica
	lock    *Lock
	key     string
	subject string
	loop    bool
	job     Offer
	lease   *lease // sought or held; nil = none
	state   phase
	gen     uint32 // of what it waits for
	next    int64  // loops: the next poll
	begun   bool   // loops: this epoch has written its begin
	again   bool   // loops: a poll is under way, and resigned first
	stopped bool   // the replica is told to stop
	work    string // operation of the stretch of work
	busy    bool   // the acquire was refused because another holds
	stretch int    // number of the truth's record of the work under way
	write   *write
	why     string // the work ended
}

// phase of a task.
type phase uint8

const (
	resting   phase = iota // loops: until the next poll, holding or not
	seeking                //
	writing                // an effect is on its way
	retrying               // before an effect is tried again
	labouring              // the work itself
	halting                // it has to stop, and does
	noticing               // the clock says that the lock is lost, the lock has not noticed yet
	releasing              //
	over                   //
)

// Limits of a worker, as in package worker.
const (
	noticeLimit = 500 * time.Millisecond
	haltWithin  = 60 * time.Microsecond // for a goroutine to notice that its context has ended
)

// Why work ended: Work.Why.
const (
	exitDone    = "done"
	exitSkipped = "skipped"
	exitFenced  = "fenced"
	exitRefused = "refused"
	exitError   = "error"
	exitStopped = "stopped"
)

// wait plans what the task waits for.
func (t *task) wait(p phase, d int64) {
	t.state = p
	t.gen++
	t.r.w.plan(moment{at: t.r.w.now + d, kind: atTask, gen: t.gen, task: t})
}

// due is the coming of what the task has waited for.
func (t *task) due(gen uint32) {
	if gen != t.gen {
		return
	}
	switch t.state {
	case resting:
		t.poll()
	case retrying:
		t.attempt()
	case labouring:
		t.laboured()
	case halting:
		t.finish(t.why)
	case noticing:
		t.finish(exitFenced)
	}
}

// rest waits for the next poll of a loop.
func (t *task) rest() {
	if t.stopped {
		t.end()
		return
	}
	t.wait(resting, max(0, t.next-t.r.w.now)+t.r.w.late())
}

// poll is one turn of a loop: whoever gets the key, or has it, does a tick.
func (t *task) poll() {
	p, w := t.lock.Policy.Loop, t.r.w
	t.next += int64(float64(p.Poll) * (1 + p.Jitter*(2*w.rng.share()-1)))
	t.next = max(t.next, w.now)
	switch {
	case t.lease != nil && t.lease.over:
		t.again = true
		t.release()
	case t.lease == nil:
		t.state = seeking
		t.seek()
	default:
		t.enter()
	}
}

// told takes what a step of the lease means for the task.
func (t *task) told(h heard, why lockcore.Result) {
	switch {
	case h.granted && t.state == seeking:
		t.begun = false
		t.enter()
	case h.refused && t.state == seeking:
		t.busy = why == lockcore.Held
		t.lease.task, t.lease = nil, nil
		if t.loop {
			t.rest()
			return
		}
		t.end()
	case t.state == releasing && (h.done || t.lease.m.State() == lockcore.Left):
		t.released()
	case h.fenced:
		t.fenced()
	}
}

// fenced is the end of the lock under the work, or under a loop that rests.
func (t *task) fenced() {
	switch t.state {
	case resting:
		t.gen++
		t.release()
	case writing:
		t.write.cancel()
		t.halt(exitFenced)
	case retrying, labouring, noticing:
		t.halt(exitFenced)
	}
}

func (t *task) halt(why string) {
	t.why = why
	t.wait(halting, t.r.w.rng.within(time.Microsecond, haltWithin))
}

// enter begins a stretch of work, with the effect that says so.
func (t *task) enter() {
	w := t.r.w
	t.stretch = w.truth.entered(t)
	if w.recording() {
		t.work = t.r.op(t.r.Incarnation, "/work-")
		e := t.event(history.WorkEnter, t.work)
		e.Work = w.bodies.works.New(history.Work{Subject: t.subject})
		w.emit(e)
	}
	switch none := t.lock.Variant.NoBegin; {
	case t.begun || none && t.loop:
		t.effect(history.StateTick)
	case none:
		t.labour(t.job.Hold)
	default:
		t.effect(history.StateBegin)
	}
}

func (t *task) event(k history.Kind, op string) history.Event {
	e := t.lease.event(k, t.lease.fence)
	e.Op = op
	return e
}

// labour is the work itself.
func (t *task) labour(d time.Duration) {
	if t.stopped {
		t.halt(exitStopped)
		return
	}
	t.wait(labouring, int64(d)+t.r.w.late())
}

func (t *task) laboured() {
	if t.loop {
		t.finish(exitDone)
		return
	}
	t.effect(stateDone)
}

// stateDone is the terminal state of a job.
const stateDone = "done"

// finish ends the stretch of work, and does with the lock what is due then.
func (t *task) finish(why string) {
	w, l := t.r.w, t.lease
	t.why = why
	w.truth.exited(t)
	if w.recording() {
		e := t.event(history.WorkExit, t.work)
		valid := l.sent + int64(l.lock.Policy.TTL-l.lock.Policy.Drift)
		e.Work = w.bodies.works.New(history.Work{Subject: t.subject, Why: why, Valid: valid - w.now, HasValid: true})
		w.emit(e)
	}
	mode := lockcore.LoopMode("")
	if t.loop {
		mode = t.lock.Policy.Loop.Mode
	}
	switch {
	case !t.loop, why == exitFenced, why == exitRefused, why == exitStopped, mode == lockcore.LoopExplicit:
		t.release()
	case mode == lockcore.LoopTTLHold:
		t.lease, l.task = nil, nil
		l.stop(lockcore.Leave)
		t.rest()
	case t.stopped:
		t.release()
	default: // kept; it may have been lost at this very moment
		if l.over {
			t.release()
			return
		}
		t.rest()
	}
}

// release gives the lock back as its policy says.
func (t *task) release() {
	t.state = releasing
	t.gen++
	t.lease.stop(lockcore.Stop) // tells released, now or later
}

func (t *task) released() {
	l := t.lease
	t.lease, l.task = nil, nil
	switch {
	case !t.loop:
		t.end()
	case t.again && !t.stopped:
		t.again = false
		t.state = seeking
		t.seek()
	default:
		t.rest()
	}
}

// cancel tells the task that the replica stops.
func (t *task) cancel() {
	t.stopped = true
	switch t.state {
	case resting:
		t.gen++
		if t.lease != nil {
			t.release()
			return
		}
		t.end()
	case seeking:
		t.lease.giveUp()
	case labouring:
		t.halt(exitStopped)
	}
}

func (l *lease) giveUp() { l.step(lockcore.Input{Kind: lockcore.GiveUp}) }

// end is the end of the task: a job is answered.
func (t *task) end() {
	if t.state == over {
		return
	}
	t.state = over
	t.gen++
	r := t.r
	for i := range r.tasks {
		if r.tasks[i] == t {
			r.tasks = append(r.tasks[:i], r.tasks[i+1:]...)
			break
		}
	}
	if !t.loop {
		t.acknowledge()
	}
	r.left()
}
