package work

import (
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Limits of a worker.
const (
	Tries       = 3                      // of one effect: a repetition under the same operation has no second effect
	RetryPause  = 50 * time.Millisecond  // between them
	NoticeLimit = 500 * time.Millisecond // for the lock to notice what the clock says already
)

// Machine is one piece of work. It is not safe for concurrent use.
type Machine struct {
	spec   Spec
	rand   func() float64
	state  state
	next   time.Duration // loops: the next poll
	holds  bool
	begun  bool // this epoch has written its begin
	again  bool // a poll is under way that gives a lost lock back first
	quit   bool
	why    Why
	busy   bool
	tries  int // of the effect
	polls  int // while it leads
	effect Effect
}

type state uint8

const (
	idle      state = iota
	resting         // loops: until the next poll, holding or not
	seeking         //
	writing         // an effect is on its way
	retrying        // before an effect is tried again
	looking         // what has become of an effect
	noticing        // the clock says that the lock is lost, the lock has not noticed yet
	labouring       // the work itself
	halting         // it has to stop
	releasing       //
	over            //
)

// New returns work that has not begun; rand gives numbers uniform in [0, 1), and is asked by loops only.
func New(s Spec, rand func() float64) Machine { return Machine{spec: s, rand: rand} }

// Loop reports whether it is a loop.
func (m *Machine) Loop() bool { return m.spec.Policy.Loop != nil }

// Step takes one input. One that does not concern the state is ignored.
func (m *Machine) Step(now time.Duration, in Input) Todo {
	switch {
	case in.Kind == Quit:
		return m.stop()
	case in.Kind == Lost:
		return m.lost()
	}
	switch m.state {
	case idle:
		if !m.Loop() {
			return m.seek()
		}
		m.next = now + time.Duration(m.rand()*float64(m.spec.Policy.Loop.Poll))
		return m.rest()
	case resting:
		if in.Kind == Timer {
			return m.poll(now, in)
		}
	case seeking:
		switch in.Kind {
		case Granted:
			m.holds, m.begun = true, false
			return m.enter(in)
		case Refusal:
			if m.busy = in.Busy; m.Loop() {
				return m.rest()
			}
			return m.end()
		}
	case writing:
		if in.Kind == Written {
			return m.written(in)
		}
	case retrying:
		if in.Kind == Timer {
			return m.attempt(in)
		}
	case looking:
		if in.Kind == Read {
			return m.looked(in)
		}
	case labouring:
		switch {
		case in.Kind != Timer:
		case !m.Loop():
			return m.write(Effect{StateDone, true}, in)
		case m.after():
			return m.write(Effect{State: history.StateTick}, in)
		default:
			return m.finish(Done, in.Over)
		}
	case noticing:
		if in.Kind == Timer {
			return m.finish(Fenced, true)
		}
	case halting:
		if in.Kind == Halted {
			return m.finish(m.why, in.Over)
		}
	case releasing:
		if in.Kind == Released {
			return m.released()
		}
	}
	return Todo{}
}

// poll is one turn of a loop: whoever gets the key, or has it, does a tick. None are made up for.
func (m *Machine) poll(now time.Duration, in Input) Todo {
	p := m.spec.Policy.Loop
	m.next += time.Duration(float64(p.Poll) * (1 + p.Jitter*(2*m.rand()-1)))
	m.next = max(m.next, now)
	switch {
	case m.holds && in.Over: // lost at this very moment
		m.again = true
		return m.release()
	case m.holds:
		if m.polls++; m.spec.Wrong.TickEvery > 0 && m.polls%m.spec.Wrong.TickEvery != 0 {
			return m.rest()
		}
		return m.enter(in)
	}
	return m.seek()
}

func (m *Machine) seek() Todo {
	m.state = seeking
	return Todo{Then: Seek}
}

func (m *Machine) rest() Todo {
	if m.quit {
		return m.end()
	}
	m.state = resting
	return Todo{Then: Rest, At: m.next}
}

// enter begins a stretch of work, with the effect that says so: begin comes before the look, so that the state which it returns is
// final for lower fences.
func (m *Machine) enter(in Input) (t Todo) {
	switch none := m.spec.Wrong.NoBegin; {
	case m.Loop() && (m.begun || none):
		t = m.tick(in)
	case none:
		t = m.labour(m.spec.Hold)
	default:
		t = m.write(Effect{State: history.StateBegin}, in)
	}
	t.Enter = true
	return t
}

// tick is a loop's work, with its effect before it or after it.
func (m *Machine) tick(in Input) Todo {
	if m.after() {
		return m.labour(m.spec.Policy.Loop.Tick)
	}
	return m.write(Effect{State: history.StateTick}, in)
}

// after reports a loop whose ticks write their effect when their work is done.
func (m *Machine) after() bool { return m.Loop() && m.spec.Policy.Loop.Effect == lockcore.EffectAfter }

// write asks for an effect.
func (m *Machine) write(e Effect, in Input) Todo {
	m.effect, m.tries = e, 0
	t := m.attempt(in)
	t.Effect = e
	return t
}

// attempt asks for it once, unless the lock is lost. The classes that promise safety also ask the clock (a resumed process may be here
// before its timers are), and then wait until the lock has noticed; the legacy ones look at nothing, as published.
func (m *Machine) attempt(in Input) Todo {
	class := m.spec.Policy.Class
	switch safe := class == lockcore.Standard || class == lockcore.Critical; {
	case in.Over:
		return m.halt(Fenced)
	case safe && !in.Held:
		m.state = noticing
		return Todo{Then: Pause, For: NoticeLimit}
	}
	m.state = writing
	m.tries++
	return Todo{Then: Write}
}

// written takes the ledger's answer. Where replies are lost it is asked again, and in the end what has become of the effect.
func (m *Machine) written(in Input) Todo {
	switch {
	case in.Unknown && in.Over:
		return m.halt(Fenced)
	case in.Unknown && m.tries < Tries:
		m.state = retrying
		return Todo{Then: Pause, For: RetryPause}
	case in.Unknown && m.effect.Terminal:
		m.state = looking
		return Todo{Then: Look}
	case in.Unknown:
		return m.finish(Error, in.Over)
	case !in.Receipt.Accepted:
		return m.finish(Refused, in.Over)
	case m.effect.State == history.StateBegin && m.Loop():
		m.begun = true
		return m.tick(in)
	case m.effect.State == history.StateBegin && in.Receipt.Before.Terminal && !m.spec.NoLook && !m.spec.Wrong.NoLook:
		return m.finish(Skipped, in.Over)
	case m.effect.State == history.StateBegin:
		return m.labour(m.spec.Hold)
	case m.effect.State == history.StateTick && !m.after():
		return m.labour(m.spec.Policy.Loop.Tick)
	}
	return m.finish(Done, in.Over)
}

func (m *Machine) looked(in Input) Todo {
	switch {
	case in.Applied:
		return m.finish(Done, in.Over)
	case in.Over:
		return m.finish(Fenced, true)
	}
	return m.finish(Error, false)
}

func (m *Machine) labour(d time.Duration) Todo {
	if m.quit {
		return m.halt(Stopped)
	}
	m.state = labouring
	return Todo{Then: Labour, For: d * time.Duration(max(1, m.spec.Wrong.Slow))}
}

// halt makes the work stop: the lock is given back only afterwards.
func (m *Machine) halt(why Why) Todo {
	m.state, m.why = halting, why
	return Todo{Then: Halt}
}

// lost is the end of the lock under the work, or under a loop that rests.
func (m *Machine) lost() Todo {
	switch m.state {
	case resting:
		if m.holds {
			return m.release()
		}
	case writing:
		t := m.halt(Fenced)
		t.Cancel = true
		return t
	case retrying, labouring, noticing, looking:
		return m.halt(Fenced)
	}
	return Todo{}
}

// stop is the replica's end.
func (m *Machine) stop() Todo {
	m.quit = true
	switch m.state {
	case resting:
		if m.holds {
			return m.release()
		}
		return m.end()
	case seeking:
		return Todo{Then: GiveUp}
	case labouring:
		return m.halt(Stopped)
	}
	return Todo{}
}

// finish ends the stretch of work, and does with the lock what is due then.
func (m *Machine) finish(why Why, lost bool) (t Todo) {
	m.why = why
	mode := lockcore.LoopMode("")
	if m.Loop() {
		mode = m.spec.Policy.Loop.Mode
	}
	switch {
	case !m.Loop(), why == Fenced, why == Refused, why == Stopped, mode == lockcore.LoopExplicit:
		t = m.release()
	case mode == lockcore.LoopTTLHold:
		m.holds = false
		t = m.rest()
		t.Leave = true
	case m.quit, lost:
		t = m.release()
	default: // kept
		t = m.rest()
	}
	t.Exit = why
	return t
}

func (m *Machine) release() Todo {
	m.state = releasing
	return Todo{Then: Release}
}

func (m *Machine) released() Todo {
	m.holds = false
	switch {
	case !m.Loop():
		return m.end()
	case m.again && !m.quit:
		m.again = false
		return m.seek()
	}
	m.again = false
	return m.rest()
}

// end answers the offer. A job whose end is not known, or that was given up, has no answer: it is offered again.
func (m *Machine) end() Todo {
	m.state = over
	t := Todo{Then: End}
	switch {
	case m.Loop():
	case m.why == Done:
		t.Answer = history.AckDone
	case m.why == Skipped:
		t.Answer = history.AckSkipped
	case m.why == "" && m.busy:
		t.Answer = history.AckBusy
	}
	return t
}
