package lockcore

import "time"

// undoAttempts bounds the giving back of an acquire whose outcome is unknown; after that the key is left to its TTL.
const undoAttempts = 3

// retryShare of a call's timeout passes before it is tried again: a refused connection deserves another moment.
const retryShare = 10

func (m *Machine) begin(now Instant, in Input) {
	if in.Kind != Start {
		return
	}
	m.budget = now.Mono + m.p.Acquire.Budget
	m.pause = m.p.Acquire.Backoff.Every
	m.arm(now.Mono)
	m.state = Waiting
}

// acquire sends the next try, with a token of its own.
func (m *Machine) acquire(now Instant) {
	if !m.ready(now) {
		return
	}
	deadline := now.Mono + m.p.Acquire.Timeout
	if m.p.Acquire.Mode == AcquireWait && m.p.Acquire.LastTry != LastTryWhole {
		deadline = min(deadline, m.budget)
	}
	if deadline <= now.Mono { // a late timer: a paused process woke up past its budget
		m.refuse(Held)
		m.finish(Held)
		return
	}
	m.attempt = m.epoch
	m.epoch++
	m.send(now, OpAcquire, deadline)
	m.state = Seeking
}

func (m *Machine) acquireReply(now Instant, in Input) {
	if in.Kind != Reply {
		m.stopSeeking(now, in)
		return
	}
	switch {
	case in.Result == OK:
		m.granted(now, in)
	case in.Result == Unknown && m.p.Acquire.Undo != UndoNone:
		if m.failsOn(in.Result) {
			m.refuse(Unknown)
		}
		m.giveBack(now, Unknown)
	case m.told && in.Result == Unknown: // what it may have taken stays
		m.finish(Unknown)
	case m.told:
		m.finish(Cancelled)
	case m.failsOn(in.Result):
		m.refuse(in.Result)
		m.finish(in.Result)
	default:
		m.again(now, in)
	}
}

// failsOn reports that a bounded wait takes a try's result for its answer, and does not go on.
func (m *Machine) failsOn(r Result) bool {
	return (r == Unknown || r == Failed) && m.p.Acquire.Mode == AcquireWait && m.p.Acquire.OnError == OnErrorFail
}

// granted takes the lock, unless the caller has gone or the reply came too late to begin anything.
func (m *Machine) granted(now Instant, in Input) {
	m.sent = m.sentAt
	reason := ReasonExpired
	switch {
	case m.told:
		reason = ReasonContext
	case m.left(now) > m.p.StopBudget:
		m.endWait(OK)
		m.state, m.attempt = Holding, 0
		m.act(Action{Kind: ActGrant, Fence: in.Fence})
		if m.p.RenewEvery > 0 {
			m.arm(now.Mono + m.interval())
		}
		return
	}
	m.act(Action{Kind: ActFence, Reason: reason})
	m.giveBack(now, Failed)
}

// giveBack undoes an acquire that took effect, or may have, with its own token.
func (m *Machine) giveBack(now Instant, r Result) {
	if m.p.Acquire.Mode == AcquireTry {
		m.refuse(r)
	}
	m.state, m.attempt = Undoing, 0
	m.arm(now.Mono)
}

// undo sends the next try. A caller whose budget is spent does not wait for it.
func (m *Machine) undo(now Instant) {
	if now.Mono >= m.budget {
		m.refuse(Held)
	}
	if !m.ready(now) {
		return
	}
	deadline := now.Mono + m.p.Acquire.Timeout
	if !m.told { // a driver makes this call while its caller waits
		deadline = min(deadline, m.budget)
	}
	m.send(now, OpUndo, deadline)
}

func (m *Machine) undoReply(now Instant, in Input) {
	if in.Kind != Reply {
		m.stopSeeking(now, in)
		return
	}
	again := (in.Result == Failed || in.Result == Unknown) && m.attempt < undoAttempts
	switch {
	case again:
		m.arm(now.Mono + m.p.Acquire.Timeout/retryShare)
	case m.told:
		m.finish(in.Result)
	default:
		m.again(now, in)
	}
}

// again plans the next try of a bounded wait, or refuses.
func (m *Machine) again(now Instant, in Input) {
	if in.Result == Held && m.p.Acquire.Mode == AcquireWait && !m.waited {
		m.waited = true
		m.act(Action{Kind: ActWait})
	}
	pause := m.backoff()
	if in.InLine && m.p.Acquire.Backoff.Mode == BackoffWake {
		pause = m.p.Acquire.Backoff.Cap // only in case that the wake gets lost
	}
	if in.Result == Held && in.PTTL >= 0 {
		pause = min(pause, max(in.PTTL, time.Millisecond)) // not later than the key may be free
	}
	switch {
	case m.p.Acquire.Mode == AcquireTry:
		m.refuse(in.Result)
		m.finish(in.Result)
	case now.Mono >= m.budget, now.Mono+pause >= m.budget && m.p.Acquire.LastTry != LastTryWhole:
		m.refuse(Held)
		m.finish(Held)
	default:
		m.state = Waiting
		m.arm(now.Mono + pause)
	}
}

// waitingInput ends a pause early.
func (m *Machine) waitingInput(now Instant, in Input) {
	if in.Kind == Wake {
		m.arm(now.Mono)
		return
	}
	m.stopSeeking(now, in)
}

// stopSeeking ends an attempt that the caller has given up. What is in flight is waited for, to be undone.
func (m *Machine) stopSeeking(_ Instant, in Input) {
	if in.Kind != GiveUp {
		return
	}
	m.refuse(Cancelled)
	if m.state == Waiting {
		m.finish(Cancelled)
	}
}

// refuse tells the caller, once, that the lock is not to be had.
func (m *Machine) refuse(r Result) {
	if m.told {
		return
	}
	m.told = true
	m.endWait(Failed)
	m.act(Action{Kind: ActRefuse, Result: r})
}

func (m *Machine) endWait(r Result) {
	if m.waited {
		m.waited = false
		m.act(Action{Kind: ActWaited, Result: r})
	}
}

func (m *Machine) backoff() time.Duration {
	b := m.p.Acquire.Backoff
	if b.Mode != BackoffFixed {
		m.pause = min(b.Cap, b.Every+time.Duration(m.rand*float64(3*m.pause-b.Every)))
	}
	return m.pause
}
