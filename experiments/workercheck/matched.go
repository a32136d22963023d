package workercheck

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// op is one announced call: the line of its .invoke, and until when a call of it may come.
type op struct {
	line
	until int64
}

// touched is a key that was changed past the gate.
type touched struct {
	key string
	history.Span
}

// matched is what calls and lines are held against each other by, when all has been seen.
type matched struct {
	ops   []op
	shift map[string]int64 // of each life: by how much its clock is behind at most. It is the shortest time from a stamp to its arrival
	lax   int64            // how far a call may lie beside the stamps of its lines
}

// settle works out, when all has been seen, what single calls do not show. Those that hung until an instant did nothing that their
// caller could know of.
func (w *witness) settle(hung int64, ttl time.Duration) {
	w.lax, w.shift = int64(ttl/20), map[string]int64{}
	type name struct {
		life, op string
		kind     history.Kind
	}
	at := map[name]int{}
	for _, l := range w.lines {
		if way, known := w.shift[l.Source]; !known || l.Arrived-l.To < way {
			w.shift[l.Source] = l.Arrived - l.To
		}
		if invoke, ends := returns[l.Kind]; ends {
			if i, known := at[name{l.Source, l.Op, invoke}]; known && l.Outcome != history.Unknown { // what was given up may still arrive
				w.ops[i].until = l.To
			}
		} else if slices.Contains(invokes, l.Kind) {
			at[name{l.Source, l.Op, l.Kind}] = len(w.ops)
			w.ops = append(w.ops, op{l, math.MaxInt64})
		}
	}
	over := func(c *call) int64 { // when nothing of it is under way any more
		switch {
		case c.Replied != 0:
			return max(c.Replied, c.After.To)
		case c.At <= hung:
			return max(c.From(), hung) + int64(ttl/2)
		}
		return c.From() + int64(ttl/2)
	}
	for i, c := range w.calls {
		c.Crowded = c.Crowded || c.At <= hung && hung <= c.Replied
		for _, t := range w.touched {
			c.Crowded = c.Crowded || t.key == c.Key && t.From <= c.After.To && c.Before.From <= t.To
		}
		for _, other := range w.calls[:i] {
			if c.Key == other.Key && c.Before.From <= over(other) && other.Before.From <= over(c) {
				c.Crowded, other.Crowded = true, true
			}
		}
	}
}

// invokes announce the calls to the locks' store.
var invokes = []history.Kind{history.AcquireInvoke, history.RenewInvoke, history.ReleaseInvoke, history.UndoInvoke}

// invokesOf are the kinds that may announce what a call did to its key.
func invokesOf(c *call) []history.Kind {
	switch {
	case c.set():
		return invokes[:1]
	case c.extended():
		return invokes[1:2]
	case c.deleted():
		return invokes[2:]
	}
	return invokes
}

// epoch is whose token a call has set, extended or deleted; "" = that is not known.
func (c *call) epoch() string {
	switch {
	case c.set() || c.extended():
		return lockcore.Fingerprint(c.After.Token)
	case c.deleted():
		return lockcore.Fingerprint(c.Before.Token)
	}
	return ""
}

// beside is how far a call lies outside of the stamps of an operation: 0 within them, as it is where the stamps are right.
func (o op) beside(c *call) int64 { return max(0, o.From-c.At, c.At-o.until) }

// served lists the operations that a call can have been made for, the likeliest first. A machine that is busy makes them more, and never
// takes the right one away: a call passes the gate after its from and before its to, whatever each of them has to wait for.
func (w *witness) served(c *call) (found []op) {
	for _, o := range w.ops {
		if o.Source == c.Life && o.Key == c.Key && slices.Contains(invokesOf(c), o.Kind) &&
			o.From-w.lax <= c.At && (o.until == math.MaxInt64 || c.At <= o.until+w.shift[c.Life]+w.lax) {
			found = append(found, o)
		}
	}
	other := func(o op) int {
		if e := c.epoch(); e != "" && e != o.Epoch {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(x, y op) int {
		return cmp.Or(cmp.Compare(other(x), other(y)), cmp.Compare(x.beside(c), y.beside(c)), cmp.Compare(y.From, x.From))
	})
	return found
}

// made lists the calls that can have been made for an operation; alone: those that can have been made for no other.
func (w *witness) made(l line, alone bool) (found []*call) {
	for _, c := range w.calls {
		all := w.served(c)
		if slices.ContainsFunc(all, func(o op) bool { return o.Source == l.Source && o.Op == l.Op }) && (!alone || len(all) == 1) {
			found = append(found, c)
		}
	}
	return found
}

// could reports whether a call may have had the effect on an operation's key that is said: it has, or nobody can tell.
func could(calls []*call, did func(*call) bool) bool {
	return slices.ContainsFunc(calls, func(c *call) bool { return !c.whole() || did(c) })
}

// stalled is how long the machine stood still at most within a stretch.
func (w *witness) stalled(from, to int64) (worst time.Duration) {
	for _, s := range w.stalls {
		if s.From <= to && from <= s.To {
			worst = max(worst, time.Duration(s.To-s.From))
		}
	}
	return worst
}
