package lockcore

import "time"

// Machine is one attempt to hold one key under one policy, from the first acquire to the end of the release, without I/O:
// Step takes what happened and says what to do, Next says when time alone changes something. At most one of its calls
// matters at a time; replies to older ones are ignored. It is not safe for concurrent use, and ends with ActDone.
//
//	idle -> seeking <-> waiting        -> held -> left
//	           |  ^                        | \      (until the TTL)
//	         undoing                       |  fenced
//	                                       |   |
//	                                     releasing -> done
type Machine struct {
	p     Policy
	class classRules
	state State
	last  Instant  // of the last Step
	rand  float64  // of this Step
	out   []Action // of this Step

	calls   int           // sent so far
	pending int           // the call whose reply matters; 0 = none
	sentAt  Instant       // when it was sent
	attempt int           // tries of the operation under way
	due     time.Duration // Mono of the next try or renewal
	armed   bool          // due is set

	epoch  int           // acquires so far
	budget time.Duration // Mono: end of a bounded wait
	pause  time.Duration // the last backoff
	waited bool          // a bounded wait has begun
	told   bool          // the caller knows that the lock is not to be had

	sent     Instant // send time of the last ok acquire or renewal: validity counts from here
	failures int     // consecutive failed renewals
	unowned  bool    // past the validity end in a class that works on
	lost     bool    // the store said that the key is not ours
	unsure   bool    // a release may have taken effect unseen
}

// State of a Machine.
type State int

const (
	Idle      State = iota
	Seeking         // an acquire is in flight
	Waiting         // between two acquires
	Undoing         // an acquire that nobody will use is being given back
	Holding         // the lock may be relied on while Held says so
	Left            // a planned hold runs out by itself
	Fenced          // given up: the work must stop
	Releasing       //
	Done            //
)

// classRules is what a renewal class comes down to.
type classRules struct {
	deadline   bool // fences at validity end - stop budget
	definitive bool // "not owned" fences at once
	count      bool // MaxFailures consecutive failures fence
	announce   bool // never fences, but says when the lock is not owned any more
}

// minds reports whether the class cares where its validity ends at all.
func (r classRules) minds() bool { return r.deadline || r.announce }

func rulesOf(c Class) classRules {
	switch c {
	case Critical:
		return classRules{deadline: true, definitive: true, count: true}
	case Standard:
		return classRules{deadline: true, definitive: true}
	case Continuity:
		return classRules{announce: true}
	case LegacyCount:
		return classRules{count: true}
	}
	return classRules{} // legacy_warn
}

// transitions is what each state does with an input, and with time. A missing entry ignores it.
var transitions = [...]struct {
	input func(*Machine, Instant, Input)
	time  func(*Machine, Instant)
}{
	Idle:      {input: (*Machine).begin},
	Seeking:   {input: (*Machine).acquireReply},
	Waiting:   {input: (*Machine).waitingInput, time: (*Machine).acquire},
	Undoing:   {input: (*Machine).undoReply, time: (*Machine).undo},
	Holding:   {input: (*Machine).holdingInput, time: (*Machine).holdingTime},
	Left:      {input: (*Machine).leftInput, time: (*Machine).leftTime},
	Fenced:    {input: (*Machine).fencedInput},
	Releasing: {input: (*Machine).releaseReply, time: (*Machine).release},
	Done:      {},
}

// NewMachine returns a machine that has not begun. The policy must be valid.
func NewMachine(p Policy) *Machine { return &Machine{p: p, class: rulesOf(p.Class)} }

// Step takes one input and appends what must be done to out. A now that is older than the last one counts as that: one reading of the
// clocks may serve many machines.
func (m *Machine) Step(now Instant, in Input, out []Action) []Action {
	m.out, m.rand = out, in.Rand
	if m.state == Idle {
		m.last = now
	}
	if now.Mono < m.last.Mono {
		now = m.last
	}
	if m.state == Holding && m.jumped(now) {
		m.due = now.Mono // the wall clock alone proves nothing, and time was lost: ask the store now
	}
	m.last = now
	stale := in.Kind == Reply && in.Call != m.pending
	if in.Kind == Reply && !stale {
		m.pending = 0
	}
	if t := transitions[m.state]; t.input != nil && in.Kind != Tick && !stale {
		t.input(m, now, in)
	}
	if t := transitions[m.state]; t.time != nil {
		t.time(m, now)
	}
	out, m.out = m.out, nil
	return out
}

// Next is the Mono at which a Tick is due; ok is false while only a reply or the caller can change anything.
func (m *Machine) Next() (at time.Duration, ok bool) {
	switch m.state {
	case Waiting, Releasing:
		return m.due, m.armed
	case Undoing:
		at, ok = m.due, m.armed
		if !m.told { // the caller waits no longer than its budget
			at, ok = earlier(at, ok, m.budget)
		}
	case Left:
		return m.end(), true
	case Holding:
		at, ok = m.due, m.armed && m.pending == 0
		if m.class.deadline { // whatever a pending call does
			at, ok = earlier(at, ok, m.end()-m.p.StopBudget)
		}
		if m.class.announce && !m.unowned {
			at, ok = earlier(at, ok, m.end())
		}
	}
	return at, ok
}

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Remaining is the time until the validity end: negative once it has passed, 0 where nothing was granted. It counts on after a
// fence, so that the work's stop can be held against it; Held says whether the lock may be relied on.
func (m *Machine) Remaining(now Instant) time.Duration {
	if m.state < Holding || m.told {
		return 0
	}
	return m.left(now)
}

// Held reports whether the lock may be relied on. The wall clock has a say here, because a stopped virtual machine may show in
// nothing else.
func (m *Machine) Held(now Instant) bool {
	holds := (m.state == Holding || m.state == Left) && !m.lost
	return holds && min(m.left(now), m.validity()-(now.Wall-m.sent.Wall)) > 0
}

// validity is how long a success may be relied on, counted from its sending.
func (m *Machine) validity() time.Duration { return m.p.TTL - m.p.Drift }

// left is the time until the validity end by the clocks that nobody sets.
func (m *Machine) left(now Instant) time.Duration { return m.validity() - since(now, m.sent) }

// end is the validity end as a Mono, as far as the last Step can know.
func (m *Machine) end() time.Duration { return m.last.Mono + m.left(m.last) }

// jumped reports whether another clock ran ahead of Mono since the last Step by more than a correction.
func (m *Machine) jumped(now Instant) bool {
	ahead := max(now.Wall-m.last.Wall, now.Boot-m.last.Boot) - (now.Mono - m.last.Mono)
	return m.armed && m.class.minds() && ahead > m.p.TTL/10
}

// since is the time passed, counting a suspension.
func since(now, then Instant) time.Duration { return max(now.Mono-then.Mono, now.Boot-then.Boot) }

func earlier(a time.Duration, ok bool, b time.Duration) (time.Duration, bool) {
	if !ok {
		return b, true
	}
	return min(a, b), true
}

// send asks for a call with the given limit.
func (m *Machine) send(now Instant, op Op, deadline time.Duration) {
	m.armed = false
	m.calls++
	m.attempt++
	m.pending, m.sentAt = m.calls, now
	c := Call{ID: m.calls, Op: op, Epoch: m.epoch, Attempt: m.attempt, Deadline: deadline}
	if op == OpAcquire || op == OpRenew {
		c.TTL = m.p.TTL
	}
	m.act(Action{Kind: ActDo, Call: c})
}

func (m *Machine) arm(at time.Duration) { m.due, m.armed = at, true }

// ready reports whether the next try is due, and nothing is in flight.
func (m *Machine) ready(now Instant) bool { return m.armed && m.pending == 0 && m.due <= now.Mono }

func (m *Machine) act(a Action) { m.out = append(m.out, a) }

func (m *Machine) finish(r Result) {
	m.state, m.armed, m.pending = Done, false, 0
	m.act(Action{Kind: ActDone, Result: r})
}
