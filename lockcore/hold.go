package lockcore

import "time"

func (m *Machine) holdingInput(now Instant, in Input) {
	switch in.Kind {
	case Reply:
		m.renewed(in)
	case Stop:
		m.stop(now)
	case Leave:
		m.leave()
	case GiveUp:
		m.fence(ReasonContext)
	}
}

// renewed takes the answer to a renewal: ok, transient or definitive. Only a success resets the failures.
func (m *Machine) renewed(in Input) {
	notOwned := in.Result == Absent || in.Result == Other
	switch {
	case in.Result == OK:
		m.sent, m.failures, m.unowned = m.sentAt, 0, false
		return
	case notOwned && m.class.definitive:
		m.lost = true
		m.fence(ReasonNotOwned)
		return
	case notOwned && m.class.announce:
		m.lost, m.armed = true, false
		m.disown(ReasonNotOwned)
		return
	}
	m.failures++
	if m.class.count && m.p.MaxFailures > 0 && m.failures >= m.p.MaxFailures {
		m.fence(ReasonCount)
	}
}

// holdingTime fences where time is up, whatever is in flight, and else renews where that is due.
func (m *Machine) holdingTime(now Instant) {
	left := m.left(now)
	switch {
	case m.class.deadline && left <= m.p.StopBudget:
		m.fence(ReasonDeadline)
		return
	case m.class.announce && left <= 0:
		m.disown(ReasonDeadline)
	}
	if m.ready(now) {
		m.renew(now, left)
	}
}

// renew sends a renewal that ends before the validity that it extends: a call that hangs must not carry a belief over its end.
// Classes that have no such end have only the call's own timeout.
func (m *Machine) renew(now Instant, left time.Duration) {
	limit := m.p.OpTimeout
	if left > 0 && m.class.minds() {
		limit = min(limit, left)
	}
	next := m.due + m.interval() // a ticker's schedule: it does not drift with the round trips
	if next <= now.Mono {
		next = now.Mono + m.interval()
	}
	m.attempt = m.failures
	m.send(now, OpRenew, now.Mono+limit)
	m.arm(next)
}

func (m *Machine) interval() time.Duration {
	return time.Duration(float64(m.p.RenewEvery) * (1 + m.p.RenewJitter*(2*m.rand-1)))
}

// fence ends the belief. Work in progress must stop; its holder then says so.
func (m *Machine) fence(r Reason) {
	m.act(Action{Kind: ActFence, Reason: r, Failures: m.failures, Working: m.state == Holding})
	if m.state == Left {
		m.finish(Skipped)
		return
	}
	m.state = Fenced
}

// disown says, once, that work goes on without the lock.
func (m *Machine) disown(r Reason) {
	if !m.unowned {
		m.unowned = true
		m.act(Action{Kind: ActUnowned, Reason: r, Failures: m.failures})
	}
}

func (m *Machine) fencedInput(now Instant, in Input) {
	if in.Kind != Stop && in.Kind != Leave {
		return
	}
	if in.Kind == Leave || m.p.Release.AfterAbandon == AfterAbandonSkip || m.p.Release.Mode == ReleaseNone {
		m.skip()
		return
	}
	m.stop(now)
}

// stop gives the lock back as the policy says: the work has stopped, and no renewal follows.
func (m *Machine) stop(now Instant) {
	switch {
	case m.lost:
		m.skip()
	case m.p.Release.Mode == ReleaseNone:
		m.leave()
	default:
		m.state, m.attempt, m.pending = Releasing, 0, 0
		m.arm(now.Mono)
	}
}

func (m *Machine) skip() {
	m.act(Action{Kind: ActSkip, Reason: ReasonAfterAbandon})
	m.finish(Skipped)
}

// leave keeps the key until its TTL. A renewal in flight still counts.
func (m *Machine) leave() {
	m.act(Action{Kind: ActSkip, Reason: ReasonTTLHold})
	m.state, m.armed = Left, false
}

func (m *Machine) leftInput(_ Instant, in Input) {
	switch {
	case in.Kind == GiveUp:
		m.fence(ReasonContext)
	case in.Kind == Reply && in.Result == OK:
		m.sent = m.sentAt
	case in.Kind == Reply && (in.Result == Absent || in.Result == Other):
		m.fence(ReasonNotOwned)
	}
}

func (m *Machine) leftTime(now Instant) {
	if m.left(now) <= 0 {
		m.fence(ReasonExpired)
	}
}

// release sends the next try. The store compares the token, so a belief that is long wrong does no harm.
func (m *Machine) release(now Instant) {
	if m.ready(now) {
		m.send(now, OpRelease, now.Mono+m.p.Release.Timeout)
	}
}

// releaseReply ends the release. After a try whose reply was lost, "not yours" is the read-back of its success.
func (m *Machine) releaseReply(now Instant, in Input) {
	if in.Kind != Reply {
		return
	}
	switch in.Result {
	case OK:
		m.finish(OK)
	case Absent, Other:
		if m.unsure {
			in.Result = OK
		}
		m.finish(in.Result)
	default:
		m.unsure = m.unsure || in.Result == Unknown
		switch {
		case m.p.Release.Mode == ReleaseBoundedRetry && m.attempt < m.p.Release.Attempts:
			pause := m.p.Release.Timeout / retryShare
			if m.p.Release.Retry == RetryAtOnce {
				pause = 0
			}
			m.arm(now.Mono + pause)
		case m.unsure:
			m.finish(Unknown)
		default:
			m.finish(Failed)
		}
	}
}
