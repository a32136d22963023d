package explore

import (
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// kind is what a step is.
type kind uint8

const (
	starts   kind = iota // an attempt begins
	arrives              // a message reaches whom it is for
	refused              // a request is surely not sent
	timesOut             // a call is past its deadline
	ticks                // a machine's timer
	stops                // the work stops, and the machine is told
	writes               // the work looks at its lock, and sends its terminal state
	gaveUp               // the caller's context ends
	dies
	flushes // the store loses everything; it takes a step of time
	deletes // somebody deletes the key
	passes  // a step of time passes
)

// move is one step of the world.
type move struct {
	kind    kind
	who     int
	message int
	copies  bool  // arrives: and will arrive again
	lags    []int // passes: how far each clock is behind afterwards
}

// moves are the steps that a state allows, always in the same order.
func (w *World) moves(s *state) []move {
	var out []move
	for i, m := range s.messages {
		out = append(out, move{kind: arrives, who: m.who, message: i})
		if w.Twice && !m.again && m.kind != reply { // a second reply is stale: see check
			out = append(out, move{kind: arrives, who: m.who, message: i, copies: true})
		}
		if w.Refused && m.kind == request && !m.again && s.who[m.who].awaits(m) {
			out = append(out, move{kind: refused, who: m.who, message: i})
		}
	}
	due := false
	for i, c := range s.who {
		out = w.own(s, i, c, out)
		due = due || w.due(s, c)
	}
	if s.holder >= 0 && w.Delete && !s.deleted {
		out = append(out, move{kind: deletes})
	}
	if due && !w.Pauses {
		return out
	}
	if w.Flush && !s.flushed {
		out = append(out, move{kind: flushes, lags: s.lags()})
	}
	return w.passing(s, out)
}

// own are the steps that a contender may take by itself.
func (w *World) own(s *state, i int, c *contender, out []move) []move {
	now := w.clock(s, c)
	if c.m == nil {
		if c.work == resting && (w.Attempts == 0 || c.lives < w.Attempts) {
			for lag := range w.mostLag() + 1 {
				out = append(out, move{kind: starts, who: i, lags: []int{lag}})
			}
		}
	} else {
		if c.open && c.call.Deadline <= now.Mono {
			out = append(out, move{kind: timesOut, who: i})
		}
		if at, ok := c.m.Next(); ok && at <= now.Mono {
			out = append(out, move{kind: ticks, who: i})
		}
		if w.GiveUps && !c.ended {
			out = append(out, move{kind: gaveUp, who: i})
		}
	}
	if c.work != resting {
		out = append(out, move{kind: stops, who: i})
	}
	if c.work == begun && w.mayWrite(c, now) {
		out = append(out, move{kind: writes, who: i})
	}
	if w.Deaths && (c.m != nil || c.work != resting) {
		out = append(out, move{kind: dies, who: i})
	}
	return out
}

// mayWrite is the look before an effect. Classes that promise safety ask the clock too.
func (w *World) mayWrite(c *contender, now lockcore.Instant) bool {
	if c.ended {
		return false
	}
	return !w.safe() || c.m != nil && c.m.Held(now)
}

// due reports whether a contender that is never late must act before time goes on. A retry that is due between two steps of time
// waits for the next.
func (w *World) due(s *state, c *contender) bool { return w.dueWithin(s, c, 0) }

// dueWithin is due so many steps of time later.
func (w *World) dueWithin(s *state, c *contender, steps int) bool {
	now := w.clock(s, c).Mono + time.Duration(steps)*w.step()
	if c.m != nil {
		if c.open && c.call.Deadline <= now {
			return true
		}
		if at, ok := c.m.Next(); ok && at <= now {
			return true
		}
	}
	stopping := c.work != resting && c.ended
	return stopping && s.now-c.lag-c.since+steps >= int(w.Policy.StopBudget/w.step())
}

// passing are the ways in which a step of time may pass on each clock. Nobody reads the clock of who is away: an attempt chooses where it
// starts. A clock does not catch up over an instant at which something is due, which would then be late: that is a pause.
func (w *World) passing(s *state, out []move) []move {
	lags := s.lags()
	out = append(out, move{kind: passes, lags: lags})
	most := w.mostLag()
	if most == 0 {
		return out
	}
	for n := 1; n < 1<<len(lags); n++ { // whose clocks fall behind, or catch up
		changed, real := slices.Clone(lags), true
		for i := range changed {
			if n&(1<<i) != 0 {
				changed[i] = most - changed[i]
				real = real && s.who[i].m != nil && (changed[i] > 0 || w.Pauses || !w.dueWithin(s, s.who[i], most))
			}
		}
		if real {
			out = append(out, move{kind: passes, lags: changed})
		}
	}
	return out
}

// mostLag is how many steps of time a clock may be behind.
func (w *World) mostLag() int {
	if !w.Drift {
		return 0
	}
	return int(w.Policy.Drift / w.step())
}

func (s *state) lags() []int {
	lags := make([]int, len(s.who))
	for i, c := range s.who {
		lags[i] = c.lag
	}
	return lags
}

// take is what a step makes of a state, and the promise that it breaks.
func (w *World) take(from *state, m move) (*state, string) {
	s := from.copied()
	t := &turn{w: w, s: s, i: m.who}
	switch m.kind {
	case starts:
		t.begin(m.lags[0])
	case arrives:
		t.arrive(s.deliver(m.message, m.copies))
	case refused:
		msg := s.deliver(m.message, false)
		t.answer(lockcore.Input{Kind: lockcore.Reply, Call: msg.call, Result: lockcore.Failed})
	case timesOut:
		t.answer(lockcore.Input{Kind: lockcore.Reply, Call: s.who[m.who].call.ID, Result: lockcore.Unknown})
	case ticks:
		t.tell(lockcore.Input{Kind: lockcore.Tick})
	case stops:
		t.stop()
	case writes:
		t.write()
	case gaveUp:
		t.tell(lockcore.Input{Kind: lockcore.GiveUp})
	case dies:
		t.die()
	case flushes:
		t.store(func(st *store) { st.table.Flush() })
		s.holder, s.flushed = -1, true
		t.pass(m.lags)
	case deletes:
		now := w.storeTime(s)
		t.store(func(st *store) { st.table.Take(now, key, "", 0) })
		s.holder, s.deleted = -1, true
	case passes:
		t.pass(m.lags)
	}
	w.settle(s)
	return s, t.broken
}

// next is Search.Next of the world.
func (w *World) next(s *state, yield func(*state, string)) {
	for _, m := range w.moves(s) {
		yield(w.take(s, m))
	}
}

// Search visits the world up to a depth.
func (w World) Search(depth int) Search[*state] {
	w.calm = map[string]bool{}
	return Search[*state]{Start: w.start(), Depth: depth, Next: w.next, Check: w.check, Key: w.key, Label: w.label}
}
