package client

import (
	"context"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Instruments is told what a Client does, at the moment it does it and not by way of its events: the two can then be held
// against one another. Its methods are called with a handle's lock held, from several goroutines: they must neither block nor
// call back.
type Instruments interface {
	// Sought: Acquire has its answer, after s.Took.
	Sought(s Seeking)
	// Called: the store has answered a call, or its time was up.
	Called(op lockcore.Op, r lockcore.Result, took time.Duration)
	// Holding: so many more handles may be relied on, or were granted and are not given up.
	Holding(delta int)
	// Unowned: so many more holders work on without the lock. A holder that got it back, or has stopped, had worked so long.
	Unowned(delta int, worked time.Duration)
	// Abandoned: work in progress was given up.
	Abandoned(r lockcore.Reason)
	// Overran: the policy let work go on where others would have given it up.
	Overran()
	// Stopped: the holder has stopped its work.
	Stopped(s Stopping)
	// Released: how the giving back ended (Skipped: nothing was sent).
	Released(r lockcore.Result)
	// Indebted: a key that nobody used stayed locked, or will, for so long.
	Indebted(d Debt, owed time.Duration)
}

// Seeking is one call of Acquire.
type Seeking struct {
	Key    string
	Class  string               // of the work, by WithClass
	Mode   lockcore.AcquireMode // of the policy: only who waits minds being refused
	Result lockcore.Result
	Fence  int64 // OK only
	Took   time.Duration
}

// Stopping is the end of a holder's work.
type Stopping struct {
	Class  string
	Held   time.Duration // since the grant
	Margin time.Duration // validity end - stop; negative: too late
}

// Debt is why a key stays locked that nobody uses.
type Debt string

const (
	DebtReleaseFailed  Debt = "release_failed"                // the first try did not do it
	DebtReleaseSkipped Debt = "release_skipped_after_abandon" // the policy leaves a lock that was given up to its TTL
	DebtOrphan         Debt = "orphan_acquire"                // an acquire took effect, and its caller never got it
)

type classKey struct{}

// WithClass names the class of the work that a lock is acquired for: instruments tell waiting and holding apart by it.
func WithClass(ctx context.Context, class string) context.Context {
	return context.WithValue(ctx, classKey{}, class)
}

// meter turns the steps of one handle's machine into what Instruments is told. The handle's lock guards it; a nil meter does
// nothing.
type meter struct {
	to     Instruments
	policy lockcore.Policy
	class  string

	began    time.Duration // Mono
	granted  time.Duration //
	stopped  time.Duration //
	replied  time.Duration // to the last acquire
	sent     time.Duration // the last acquire
	lease    time.Duration // Mono: until when the store may owe the key; 0 = it surely does not
	call     lockcore.Call // the last one
	failures int           // renewals in a row
	holds    bool          // Holding was told of it
	unowned  bool          // Unowned was
	since    time.Duration // unowned: Mono
	ended    bool          // the holder has stopped
}

func newMeter(ctx context.Context, c *Client) *meter {
	if c.metrics == nil {
		return nil
	}
	class, _ := ctx.Value(classKey{}).(string)
	return &meter{to: c.metrics, policy: c.policy, class: class, began: c.clock.Now().Mono}
}

// called tells of one call; it needs no lock.
func (m *meter) called(op lockcore.Op, r lockcore.Result, took time.Duration) {
	if m != nil {
		m.to.Called(op, r, took)
	}
}

// input is told of what the machine is about to learn, with the validity that is left before it does.
func (m *meter) input(now lockcore.Instant, in lockcore.Input, left time.Duration) {
	if m == nil || in.Kind != lockcore.Reply || in.Call != m.call.ID {
		return
	}
	switch m.call.Op {
	case lockcore.OpAcquire:
		m.replied = now.Mono
		m.owe(in.Result, m.sent)
	case lockcore.OpRenew:
		m.renewed(now, in.Result, left)
	case lockcore.OpUndo:
		m.undone(now, in.Result)
	}
}

// owe notes until when the store owes the key after a call sent at then.
func (m *meter) owe(r lockcore.Result, then time.Duration) {
	switch r {
	case lockcore.OK, lockcore.Unknown:
		m.lease = then + m.policy.TTL
	case lockcore.Absent, lockcore.Other:
		m.lease = 0
	}
}

func (m *meter) renewed(now lockcore.Instant, r lockcore.Result, left time.Duration) {
	m.owe(r, m.sent)
	if m.ended {
		return
	}
	lost := r == lockcore.Absent || r == lockcore.Other
	if left < 0 || lost {
		m.disown(now.Mono + min(0, left))
	}
	if r == lockcore.OK {
		m.failures = 0
		m.own(now)
		return
	}
	m.failures++
	if m.policy.Class == lockcore.LegacyWarn && m.failures == m.budget() {
		m.to.Overran()
	}
}

// budget is how many failures in a row would have been an abandonment: as many as the policy names, else as the TTL has room for.
func (m *meter) budget() int {
	if m.policy.MaxFailures > 0 {
		return m.policy.MaxFailures
	}
	return max(1, int(m.policy.TTL/m.policy.RenewEvery))
}

// undone tells of an orphan that was given back.
func (m *meter) undone(now lockcore.Instant, r lockcore.Result) {
	switch r {
	case lockcore.OK:
		m.to.Indebted(DebtOrphan, now.Mono-m.replied)
		m.lease = 0
	case lockcore.Absent, lockcore.Other:
		m.lease = 0
	}
}

// acted is told of each action of the machine, after the handle has done it; left is the validity that is left.
func (m *meter) acted(now lockcore.Instant, a lockcore.Action, h *Handle, left time.Duration) {
	if m == nil {
		return
	}
	switch a.Kind {
	case lockcore.ActDo:
		if a.Call.Op == lockcore.OpAcquire {
			m.strand() // the next try begins, and the last one was not given back
		}
		m.call = a.Call
		if a.Call.Op == lockcore.OpAcquire || a.Call.Op == lockcore.OpRenew {
			m.sent = now.Mono
		}
	case lockcore.ActGrant:
		m.granted, m.holds, m.call = now.Mono, true, lockcore.Call{}
		m.to.Sought(Seeking{Key: h.key, Class: m.class, Mode: m.policy.Acquire.Mode, Result: lockcore.OK, Fence: h.fence, Took: now.Mono - m.began})
		m.to.Holding(1)
	case lockcore.ActRefuse:
		m.to.Sought(Seeking{Key: h.key, Class: m.class, Mode: m.policy.Acquire.Mode, Result: a.Result, Took: now.Mono - m.began})
	case lockcore.ActFence:
		m.letGo()
		if a.Working {
			m.to.Abandoned(a.Reason)
		}
	case lockcore.ActUnowned:
		m.to.Overran()
		m.disown(now.Mono + min(0, left))
	case lockcore.ActSkip:
		m.to.Released(lockcore.Skipped)
		if owed := m.lease - m.stopped; a.Reason == lockcore.ReasonAfterAbandon && owed > 0 {
			m.to.Indebted(DebtReleaseSkipped, owed)
		}
	case lockcore.ActDone:
		m.done(now, a.Result)
	}
}

// stop is told that the holder has stopped.
func (m *meter) stop(now lockcore.Instant, left time.Duration) {
	if m == nil {
		return
	}
	m.stopped, m.ended = now.Mono, true
	if left < 0 { // also where nobody noticed in time
		m.disown(now.Mono + left)
	}
	m.own(now)
	m.letGo()
	m.to.Stopped(Stopping{Class: m.class, Held: now.Mono - m.granted, Margin: left})
}

// done tells how a release ended, or of an orphan that could not be given back.
func (m *meter) done(now lockcore.Instant, r lockcore.Result) {
	m.strand()
	if !m.ended || r == lockcore.Skipped {
		return
	}
	m.to.Released(r)
	switch {
	case r == lockcore.OK && m.call.Attempt > 1:
		m.to.Indebted(DebtReleaseFailed, now.Mono-m.stopped)
	case (r == lockcore.Failed || r == lockcore.Unknown) && m.lease > m.stopped:
		m.to.Indebted(DebtReleaseFailed, m.lease-m.stopped)
	}
}

// strand tells of an acquire whose undo did not get through, or that has none: its key stays locked until the TTL.
func (m *meter) strand() {
	if (m.call.Op == lockcore.OpUndo || m.call.Op == lockcore.OpAcquire) && m.lease > 0 {
		m.to.Indebted(DebtOrphan, max(0, m.lease-m.replied))
		m.lease = 0
	}
}

// disown begins a stretch without the lock, once.
func (m *meter) disown(since time.Duration) {
	if !m.unowned {
		m.unowned, m.since = true, since
		m.to.Unowned(1, 0)
	}
}

// own ends it.
func (m *meter) own(now lockcore.Instant) {
	if m.unowned {
		m.unowned = false
		m.to.Unowned(-1, now.Mono-m.since)
	}
}

func (m *meter) letGo() {
	if m.holds {
		m.holds = false
		m.to.Holding(-1)
	}
}
