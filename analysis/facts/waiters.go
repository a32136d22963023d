package facts

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// waiter is one party that wants a key: from its first refusal to its success, or to its giving up. For a loop and for a bounded
// wait that is the replica. A job whose lock is tried once waits itself, whichever replica tries for it next.
type waiter struct {
	sure, maybe []stretchOf // when it surely waited, and when it may have: in order, without overlaps
	whole       []stretchOf // of maybe, those that are waits by themselves: a lock that is tried once is given up at once
	who         string      // the replica; "" = any
	atOnce      int         // grants that it got without waiting
}

// waitersOf lists who waited for the key, in the order of their first attempts.
func (ix *Facts) waitersOf(k *Key) []waiter {
	bounded := ix.policy(k.Lock).Acquire.Mode == lockcore.AcquireWait
	if bounded {
		return ix.boundedWaits(k)
	}
	var order []string
	by := map[string][]*Call{}
	for _, c := range k.Attempts {
		who := ""
		if k.Loop {
			who = c.Source
		}
		if by[who] == nil {
			order = append(order, who)
		}
		by[who] = append(by[who], c)
	}
	var ws []waiter
	for _, who := range order {
		ws = append(ws, waiterOf(by[who]))
	}
	return ws
}

// boundedWaits takes the waits as their replicas tell them; a dead one waits no longer.
func (ix *Facts) boundedWaits(k *Key) []waiter {
	granted := 0
	for _, c := range k.Attempts {
		if c.Outcome == history.OK {
			granted++
		}
	}
	var ws []waiter
	for _, wt := range k.waits {
		end := wt.end
		if end.To == Open {
			end = ix.lastSign(wt.source)
		}
		if wt.outcome == history.OK {
			granted--
		}
		maybe := merged([]stretchOf{{wt.begin.From, end.To, 0}})
		ws = append(ws, waiter{who: wt.source, sure: merged([]stretchOf{{wt.begin.To, end.From, 0}}), maybe: maybe, whole: maybe})
	}
	return append(ws, waiter{atOnce: max(0, granted)})
}

// waiterOf turns the attempts of one waiter into stretches. A refusal, or a timeout, waits until the next grant; where none
// follows, until the last of them: then it gave up. Which of two calls that overlap came first is not known, so the sure
// stretch ends at the first grant that may have come after the refusal, the possible one at the first that surely did.
func waiterOf(tries []*Call) waiter {
	var grants, refused []*Call
	for _, c := range tries {
		switch {
		case c.Outcome == history.OK:
			grants = append(grants, c)
		case c.Returned && (c.Result == history.ResultHeld || c.Outcome == history.Unknown):
			refused = append(refused, c)
		}
	}
	var last history.Span
	for _, c := range refused {
		last = later(last, c.Span)
	}
	var w waiter
	for _, c := range refused {
		sure, maybe := int64(Open), int64(Open)
		late := last.To
		for _, g := range grants {
			switch {
			case g.Span.From >= c.Span.To:
				maybe = min(maybe, g.Span.To)
				sure = min(sure, g.Span.From)
			case g.Span.To > c.Span.From:
				late = max(late, g.Span.To)
				sure = min(sure, g.Span.From)
			}
		}
		if maybe == Open {
			sure, maybe = min(sure, last.From), late
		}
		w.sure = append(w.sure, stretchOf{c.Span.To, sure, 0})
		w.maybe = append(w.maybe, stretchOf{c.Span.From, maybe, 0})
	}
	w.sure, w.maybe = merged(w.sure), merged(w.maybe)
	for _, g := range grants {
		i := slices.IndexFunc(w.maybe, func(s stretchOf) bool { return s.to == g.Span.To })
		if i < 0 {
			w.atOnce++
			continue
		}
		w.whole = append(w.whole, w.maybe[i])
	}
	return w
}

// waits are the durations of w's waits, those of none included.
func (ix *Facts) waits(w waiter) []Value {
	vs := make([]Value, w.atOnce, w.atOnce+len(w.whole))
	for _, m := range w.whole {
		d := Dur{Lo: covered(cutTo(w.sure, history.Span{From: m.from, To: m.to})), Hi: Open}
		if m.to != Open {
			d.Hi = m.to - m.from
		}
		vs = append(vs, ix.Valued(d, ix.lateness(m.from, min(m.to, ix.Last), ix.wayOf(false, w.who)...)))
	}
	return vs
}
