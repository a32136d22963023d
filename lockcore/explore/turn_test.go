package explore

import (
	"errors"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// turn is one step being taken: contender i acts, or something happens to it.
type turn struct {
	w      *World
	s      *state
	i      int
	own    *contender // where it was changed
	broken string
}

func (t *turn) breaks(promise string, broken bool) {
	if broken && t.broken == "" {
		t.broken = promise
	}
}

// change is the contender, to be changed.
func (t *turn) change() *contender {
	if t.own == nil {
		t.own = t.w.change(t.s, t.i)
	}
	return t.own
}

// begin starts an attempt. What is still on its way to the one before finds nobody.
func (t *turn) begin(lag int) {
	c := t.change()
	*c = contender{m: t.w.machine(), lives: c.lives + 1, lag: lag, base: c.used, used: c.used, asked: t.s.now - lag}
	t.tell(lockcore.Input{Kind: lockcore.Start})
}

// die ends an attempt. Its requests and effects stay on their way.
func (t *turn) die() {
	c := t.change()
	*c = contender{lives: c.lives, used: c.used}
}

// answer is the one reply that a driver gives to a call, in time or at its deadline.
func (t *turn) answer(in lockcore.Input) {
	c := t.change()
	c.open, c.doubt = false, c.doubt || c.call.Op == lockcore.OpAcquire && in.Result == lockcore.Unknown
	t.tell(in)
}

// tell gives an input to the machine and does what it asks for.
func (t *turn) tell(in lockcore.Input) {
	c := t.change()
	in.Rand = 0.5 // jitter and backoff are without chance: see the policy
	now := t.w.clock(t.s, c)
	if t.w.Variant.Attempt != nil {
		c.heard = append(slices.Clip(c.heard), heard{now, in})
	}
	for _, a := range c.m.Step(now, in, nil) {
		t.do(a)
	}
}

func (t *turn) do(a lockcore.Action) {
	c := t.change()
	switch a.Kind {
	case lockcore.ActDo:
		t.call(a.Call)
	case lockcore.ActGrant:
		c.fence, c.work, c.answered = a.Fence, entering, true
		if t.w.NoBegin {
			c.work = begun
			return
		}
		t.effect("begin")
	case lockcore.ActRefuse:
		c.answered = true
	case lockcore.ActSkip:
		c.told = true
	case lockcore.ActFence:
		if c.work != resting && !c.ended {
			c.ended, c.since = true, t.s.now-c.lag
		}
	case lockcore.ActDone:
		t.done(a.Result)
	}
}

// call sends a request to the store.
func (t *turn) call(call lockcore.Call) {
	c := t.change()
	switch call.Op {
	case lockcore.OpAcquire:
		c.used, c.doubt, c.undone = c.base+call.Epoch, false, false
	case lockcore.OpUndo:
		c.undone = true
	case lockcore.OpRenew:
		t.breaks(NoLateRenewal, c.work == resting)
	case lockcore.OpRelease:
		c.told = true
		t.breaks(WorkStopsFirst, c.work != resting)
	}
	c.call, c.open = call, true
	m := message{kind: request, op: call.Op, who: t.i, life: c.lives, call: call.ID, epoch: c.used}
	if t.w.Variant.Feigned(call.Op) {
		m.kind, m.result = reply, lockcore.OK
	}
	t.s.send(m)
}

// done ends an attempt. Where the store was heard to have freed the key, it must be free; but a copy of the acquire
// that came later has taken it again, and is nobody's fault.
func (t *turn) done(r lockcore.Result) {
	c := t.change()
	t.breaks(Undone, c.doubt && !c.undone)
	t.breaks(ReleasedIsFree, r == lockcore.OK && t.s.owns(t.i, c) && !t.w.Twice)
	t.breaks(ReleaseIsTried, c.fence != 0 && !c.told)
	c.m, c.heard, c.open, c.lag = nil, nil, false, 0
}

// stop ends the work and tells the machine, in this order.
func (t *turn) stop() {
	c := t.change()
	c.work = resting
	if c.m != nil {
		t.tell(lockcore.Input{Kind: lockcore.Stop})
	}
}

// write sends the terminal state, after a look that moves has taken.
func (t *turn) write() {
	t.change().work = writing
	t.effect("done")
}

func (t *turn) effect(state string) {
	c := t.change()
	t.s.send(message{kind: effect, state: state, who: t.i, life: c.lives, epoch: c.used, fence: c.fence, own: c.own})
}

func (t *turn) arrive(m message) {
	switch m.kind {
	case request:
		t.ask(m)
	case reply:
		t.reply(m)
	case effect:
		t.record(m)
	}
}

// reply reaches the machine that waits for it: see settle and stale for those that nobody waits for.
func (t *turn) reply(m message) {
	c := t.change()
	if m.op == lockcore.OpAcquire && m.result == lockcore.OK {
		c.own = m.fence
	}
	t.answer(lockcore.Input{Kind: lockcore.Reply, Call: m.call, Result: m.result, Fence: m.fence, PTTL: m.pttl})
	lost := m.op == lockcore.OpRenew && (m.result == lockcore.Absent || m.result == lockcore.Other)
	t.breaks(LossIsHeeded, lost && t.w.safe() && c.m != nil && c.work != resting && !c.ended)
}

// store does something to a store of its own.
func (t *turn) store(what func(*store)) {
	t.s.store = t.w.copyStore(t.s.store)
	t.s.store.do(what)
}

// ask lets the store answer a request.
func (t *turn) ask(m message) {
	s := t.s
	now, token := t.w.storeTime(s), t.w.token(m.who, m.epoch)
	back := m
	back.kind, back.again = reply, false
	var err error
	switch m.op {
	case lockcore.OpAcquire:
		var g lockcore.Grant
		t.store(func(st *store) { g, err = st.rules.Acquire(now, key, token, t.w.Policy.TTL) })
		if err == nil {
			back.fence = g.Fence
			t.granted(m, g.Fence)
		}
	case lockcore.OpRenew:
		t.store(func(st *store) { err = st.rules.Renew(now, key, token, t.w.Policy.TTL) })
		if err == nil {
			t.breaks(NoForeignRenewal, s.holder != m.who || s.epoch != m.epoch)
			s.holder, s.epoch = m.who, m.epoch
		}
	default:
		t.store(func(st *store) { err = st.rules.Release(now, key, token) })
		if err == nil {
			t.breaks(NoForeignRelease, s.holder >= 0 && (s.holder != m.who || s.epoch != m.epoch))
			s.holder = -1
		}
	}
	t.lease(now)
	back.result = lockcore.ResultOf(err)
	var held *lockcore.HeldError
	if errors.As(err, &held) {
		back.pttl = held.PTTL
	}
	if s.who[m.who].awaits(m) {
		s.send(back)
	}
	if t.w.Variant.Rules == nil {
		t.strangers(m)
	}
}

// granted follows a grant: a new epoch, or the same answer again.
func (t *turn) granted(m message, fence int64) {
	s := t.s
	if s.holder == m.who && s.epoch == m.epoch && fence == s.top {
		return
	}
	t.breaks(FencesGrow, fence <= s.top)
	s.holder, s.epoch, s.top = m.who, m.epoch, max(s.top, fence)
}

// lease looks at what the key carries now. Without wrong rules that is what was concluded from the answers.
func (t *turn) lease(now time.Time) {
	s := t.s
	_, ends, held := s.store.table.Holder(now, key)
	if !held {
		s.holder = -1
		return
	}
	left := ends.Sub(now)
	t.breaks(LeaseEnds, left > t.w.Policy.TTL)
	s.ends = s.now + int((left+t.w.step()-1)/t.w.step())
}

// record lets the ledger take an effect, and the work go on with its answer.
func (t *turn) record(m message) {
	s := t.s
	ledger := s.changeLedger()
	if t.w.Variant.LateFence {
		m.fence = s.top
	}
	entries := len(ledger.Entries(0))
	r, err := ledger.Write(lockcore.Effect{
		Key: key, Subject: subject, State: m.state, Terminal: m.state == "done", Epoch: "e", Fence: m.fence,
		Op: m.state + t.w.token(m.who, m.epoch), Writer: "w", Unfenced: t.w.Variant.Unfenced,
	})
	if err != nil {
		panic(err) // no effect of ours is without its parts
	}
	if r.Accepted && len(ledger.Entries(0)) > entries {
		t.breaks(NoStaleEffect, m.own < s.accepted)
		t.breaks(OwnFence, m.fence != m.own)
		s.accepted = max(s.accepted, m.own)
		if m.state == "done" {
			s.terminals++
			t.breaks(OneTerminal, s.terminals > 1)
		}
	}
	if c := s.who[m.who]; c.lives == m.life && c.used == m.epoch {
		t.receipt(m, r)
	}
}

// receipt is the ledger's answer: a refusal, or a job that somebody has finished, leaves nothing to write.
func (t *turn) receipt(m message, r lockcore.Receipt) {
	c := t.change()
	switch {
	case m.state == "begin" && c.work == entering && r.Accepted && !r.Before.Terminal:
		c.work = begun
	case m.state == "begin" && c.work == entering, m.state == "done" && c.work == writing:
		c.work = over
	}
}

// pass lets a step of time pass. What would have had to happen before, has.
func (t *turn) pass(lags []int) {
	s := t.s
	if t.w.promisesOwnedWork() {
		for i, c := range s.who {
			t.breaks(WorkIsOwned, c.work != resting && !s.owns(i, c))
		}
	}
	if !t.w.Pauses && t.w.waits() {
		for _, c := range s.who {
			t.breaks(ToldInTime, c.m != nil && !c.answered && t.w.patience(s, c) <= 0)
		}
	}
	s.now++
	for i, lag := range lags {
		if s.who[i].lag != lag {
			t.w.change(s, i).lag = lag
		}
	}
	if s.holder >= 0 && s.ends <= s.now {
		s.holder = -1
	}
}
