package mutants

import (
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// attempts are mistakes in the protocol itself: machines of their own, around the core's.
func attempts() []Mutant {
	by := func(f func(lockcore.Policy) lockcore.Attempt) lockcore.Variant { return lockcore.Variant{Attempt: f} }
	ahead := &offset{}
	return []Mutant{
		{Name: "early-validity", Does: "moves its validity when it sends a renewal, before that has succeeded",
			Shows:   []Show{{Class: "standard", Scene: "black hole", Red: "overlap.belief", Also: "abandonment.late abandonment.missed fence_lag overlap.work unowned_work"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &early{Machine: lockcore.NewMachine(p)} })},
		{Name: "reply-validity", Does: "counts its validity from the reply, not from the sending",
			Shows: []Show{{Class: "standard", Scene: "slow replies, then none", Red: "fence_lag abandonment.late", Also: "not_owned.release"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt {
				return &byReply{behind: behind{Machine: lockcore.NewMachine(p)}}
			})},
		{Name: "late-timers", Does: "does not see that time passed while it stood still: its timers begin again",
			Shows: []Show{{Scene: "pause > ttl", Red: "fence_lag", Also: "abandonment.missed overlap.work unowned_work"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt {
				return &lateTimers{behind: behind{Machine: lockcore.NewMachine(p)}, late: p.TTL / 10}
			})},
		{Name: "counts-not-owned", Does: "takes the answer \"not yours\" for one more failure",
			Shows:   []Show{{Scene: "key deleted", Red: "loss_to_fence"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &counting{lockcore.NewMachine(p)} })},
		{Name: "forgetful-count", Does: "begins to count its failures anew with every tick",
			Shows: []Show{{Scene: "renewals fail > ttl", Red: "abandonment.missed not_owned.renew", Also: "fence_lag not_owned.release overlap.belief overlap.work unowned_work"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt {
				n := max(p.MaxFailures, 1)
				p.Class = lockcore.LegacyWarn
				return &forgetful{Machine: lockcore.NewMachine(p), max: n}
			})},
		{Name: "orphans", Told: "orphan_acquires", Does: "does not undo an acquire whose answer was lost",
			Shows: []Show{{Scene: "replies of grants lost", Red: "orphan_acquires", Also: "lock_debt.max"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt {
				return &dropping{lockcore.NewMachine(p), lockcore.OpUndo, lockcore.OK}
			})},
		{Name: "hoards-at-the-end", Does: "keeps its key when it is told to end",
			Shows: []Show{{Scene: "rolling restart", Red: "rolling.without_leader rolling.longest"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt {
				return &dropping{lockcore.NewMachine(p), lockcore.OpRelease, lockcore.OK}
			})},
		{Name: "cancelled-clean-up", Does: "releases with the context that has just been cancelled: no release is ever sent",
			Shows:   []Show{{Scene: "renewals fail > ttl", Red: "lock_debt.max"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &cancelled{Machine: lockcore.NewMachine(p)} })},
		{Name: "release-first", Does: "releases a lock that it gives up before its work has stopped",
			Shows:   []Show{{Scene: "renewals fail, release hangs", Red: "overlap.work", Also: "abandonment.late unowned_work"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &releaseFirst{Machine: lockcore.NewMachine(p)} })},
		{Name: "watchdog", Told: "renewed_after_release", Does: "goes on renewing after its work has ended",
			Shows:   []Show{{Scene: "releases fail", Red: "finding:renewed_after_work"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &watchdog{Machine: lockcore.NewMachine(p), p: p} })},
		{Name: "wall-clock-expiry", Does: "sets a lease's end by its own wall clock",
			Shows:   []Show{{Scene: "clock ahead, then kill", Red: "takeover.max"}},
			Variant: by(func(p lockcore.Policy) lockcore.Attempt { return &byWallClock{lockcore.NewMachine(p), ahead} })},
	}
}

// early tells its machine that a renewal has succeeded as soon as it is sent, until one has failed.
type early struct {
	*lockcore.Machine
	failed bool
}

func (m *early) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	from := len(out)
	if in.Kind == lockcore.Reply && in.Result != lockcore.OK && m.State() == lockcore.Holding {
		m.failed = true
	}
	out = m.Machine.Step(now, in, out)
	for i := from; i < len(out); i++ {
		if a := out[i]; a.Kind == lockcore.ActDo && a.Call.Op == lockcore.OpRenew && !m.failed {
			out = m.Machine.Step(now, lockcore.Input{Kind: lockcore.Reply, Call: a.Call.ID, Result: lockcore.OK}, out)
		}
	}
	return out
}

// behind is a machine whose clocks are behind.
type behind struct {
	*lockcore.Machine
	by time.Duration
}

func (m *behind) then(now lockcore.Instant) lockcore.Instant {
	return lockcore.Instant{Mono: now.Mono - m.by, Wall: now.Wall - m.by, Boot: now.Boot - m.by}
}

func (m *behind) Next() (time.Duration, bool) {
	at, ok := m.Machine.Next()
	return at + m.by, ok
}

func (m *behind) Held(now lockcore.Instant) bool { return m.Machine.Held(m.then(now)) }

func (m *behind) Remaining(now lockcore.Instant) time.Duration {
	return m.Machine.Remaining(m.then(now))
}

// step is the machine's, with the deadlines of its calls on the true clock.
func (m *behind) step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	from := len(out)
	out = m.Machine.Step(m.then(now), in, out)
	for i := from; i < len(out); i++ {
		out[i].Call.Deadline += m.by
	}
	return out
}

// byReply turns its clocks back by each round trip that has succeeded.
type byReply struct {
	behind
	id   int
	sent time.Duration // Mono of the call in flight
}

func (m *byReply) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if in.Kind == lockcore.Reply && in.Result == lockcore.OK && in.Call == m.id {
		m.by += now.Mono - m.sent
	}
	from := len(out)
	out = m.step(now, in, out)
	for _, a := range out[from:] {
		if a.Kind == lockcore.ActDo && (a.Call.Op == lockcore.OpAcquire || a.Call.Op == lockcore.OpRenew) {
			m.id, m.sent = a.Call.ID, now.Mono
		}
	}
	return out
}

// lateTimers turns its clocks back to its last step whenever it comes too late for a timer.
type lateTimers struct {
	behind
	late time.Duration
	last time.Duration // Mono of the last step, on its own clock
}

func (m *lateTimers) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if due, ok := m.Next(); ok && now.Mono > due+m.late {
		m.by = now.Mono - m.last
	}
	m.last = now.Mono - m.by
	return m.step(now, in, out)
}

// Held by its own clocks, which have not noticed anything before its next step.
func (m *lateTimers) Held(now lockcore.Instant) bool {
	if due, ok := m.Next(); ok && now.Mono > due+m.late {
		return m.Machine.Held(lockcore.Instant{Mono: m.last, Wall: m.last, Boot: m.last})
	}
	return m.behind.Held(now)
}

// counting takes "not yours" for a failure like any other.
type counting struct{ *lockcore.Machine }

func (m *counting) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if m.State() == lockcore.Holding && (in.Result == lockcore.Absent || in.Result == lockcore.Other) {
		in.Result = lockcore.Failed
	}
	return m.Machine.Step(now, in, out)
}

// forgetful counts failures itself, around a machine that never gives up, and forgets them with each renewal that it sends.
type forgetful struct {
	*lockcore.Machine
	failures, max int
}

func (m *forgetful) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if in.Kind == lockcore.Reply && m.State() == lockcore.Holding && in.Result != lockcore.OK {
		if m.failures++; m.failures >= m.max {
			in = lockcore.Input{Kind: lockcore.GiveUp}
		}
	}
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for _, a := range out[from:] {
		if a.Kind == lockcore.ActDo && a.Call.Op == lockcore.OpRenew {
			m.failures = 0
		}
	}
	return out
}

// dropping never sends calls of one kind: its machine is given their answer at once.
type dropping struct {
	*lockcore.Machine
	op     lockcore.Op
	answer lockcore.Result
}

func (m *dropping) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	return answered(m.Machine, m.op, m.answer, now, m.Machine.Step(now, in, out))
}

// answered takes the calls of op out of what is to be done, and has them answered.
func answered(m *lockcore.Machine, op lockcore.Op, r lockcore.Result, now lockcore.Instant, out []lockcore.Action) []lockcore.Action {
	for i := 0; i < len(out); i++ {
		if a := out[i]; a.Kind == lockcore.ActDo && a.Call.Op == op {
			out = append(out[:i], out[i+1:]...)
			out = m.Step(now, lockcore.Input{Kind: lockcore.Reply, Call: a.Call.ID, Result: r}, out)
			i--
		}
	}
	return out
}

// cancelled cannot release once its work's context has ended.
type cancelled struct {
	*lockcore.Machine
	over bool
}

func (m *cancelled) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for _, a := range out[from:] {
		m.over = m.over || a.Kind == lockcore.ActFence && a.Working
	}
	if m.over {
		out = answered(m.Machine, lockcore.OpRelease, lockcore.Failed, now, out)
	}
	return out
}

// releaseFirst keeps the end of its belief to itself until its release has come to an end.
type releaseFirst struct {
	*lockcore.Machine
	fence, done *lockcore.Action
	stopped     bool
}

func (m *releaseFirst) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if in.Kind == lockcore.Stop && m.fence != nil {
		m.stopped = true
		if m.done != nil {
			return append(out, *m.done)
		}
		return out
	}
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for i := from; i < len(out); i++ {
		switch a := out[i]; {
		case a.Kind == lockcore.ActFence && a.Working && a.Reason != lockcore.ReasonNotOwned && m.fence == nil:
			m.fence = &a
			out = append(out[:i], out[i+1:]...)
			out = m.Machine.Step(now, lockcore.Input{Kind: lockcore.Stop}, out)
			i--
		case a.Kind == lockcore.ActDone && m.fence != nil:
			out[i] = *m.fence
			if m.done = &a; m.stopped {
				out = append(out, a)
			}
		}
	}
	return out
}

// watchdog renews on after the work, beside a release that goes its way.
type watchdog struct {
	*lockcore.Machine
	p     lockcore.Policy
	calls int
	due   time.Duration // Mono of its next renewal
	until time.Duration // Mono at which it ends; 0 = the work goes on
	done  *lockcore.Action
}

// Numbers of a watchdog's own calls begin where no machine's reach.
const ownCalls = 1 << 20

func (m *watchdog) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	if m.until == 0 && in.Kind == lockcore.Stop && m.p.RenewEvery > 0 {
		m.due, m.until = now.Mono+m.p.RenewEvery/2, now.Mono+3*m.p.TTL
	}
	from := len(out)
	if in.Kind == lockcore.Reply && in.Call > ownCalls {
		if in.Result == lockcore.Absent || in.Result == lockcore.Other {
			m.due = m.until
		}
		in = lockcore.Input{Kind: lockcore.Tick}
	}
	out = m.Machine.Step(now, in, out)
	if m.until == 0 {
		return out
	}
	busy := false
	for i := from; i < len(out); i++ {
		a := out[i]
		busy = busy || a.Kind == lockcore.ActDo
		if a.Kind == lockcore.ActDone && m.due < m.until {
			m.done = &a
			out = append(out[:i], out[i+1:]...)
			i--
		}
	}
	switch {
	case m.done != nil && m.due >= m.until:
		out, m.done = append(out, *m.done), nil
	case m.due < m.until && m.due <= now.Mono && !busy:
		m.calls++
		m.due += m.p.RenewEvery
		out = append(out, lockcore.Action{Kind: lockcore.ActDo, Call: lockcore.Call{
			ID: ownCalls + m.calls, Op: lockcore.OpRenew, Attempt: m.calls, TTL: m.p.TTL, Deadline: now.Mono + m.p.OpTimeout}})
	}
	return out
}

func (m *watchdog) Next() (time.Duration, bool) {
	at, ok := m.Machine.Next()
	if m.until == 0 || m.due >= m.until && m.done == nil {
		return at, ok
	}
	if !ok || m.due < at {
		return m.due, true
	}
	return at, true
}

// offset is how far a process's wall clock was ahead of its other one when it was first read: by then nobody had set it wrong.
type offset struct {
	mu    sync.Mutex
	known bool
	by    time.Duration
}

func (o *offset) since(now lockcore.Instant) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.known {
		o.known, o.by = true, now.Wall-now.Mono
	}
	return now.Wall - now.Mono - o.by
}

// byWallClock asks for a lease that ends when its own wall clock says so.
type byWallClock struct {
	*lockcore.Machine
	ahead *offset
}

func (m *byWallClock) Step(now lockcore.Instant, in lockcore.Input, out []lockcore.Action) []lockcore.Action {
	from := len(out)
	out = m.Machine.Step(now, in, out)
	for i := from; i < len(out); i++ {
		if c := &out[i].Call; out[i].Kind == lockcore.ActDo && c.TTL > 0 {
			c.TTL = max(time.Millisecond, c.TTL+m.ahead.since(now))
		}
	}
	return out
}
