package facts

import (
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
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

// Who wanted a key when a fault struck its holder is known at the shot, or not at all: what is seen only afterwards makes no trial void,
// since followers that never ask again would else be taken for followers that nobody needs.

// finished reports that the job surely had its terminal state when s struck e. What a killed victim wrote, it wrote before it died;
// anybody else's write must surely have come before.
func (j *job) finished(s *Shot, e *Epoch) bool {
	return slices.ContainsFunc(j.Terminals, func(f *effect) bool {
		own := f.Epoch == e || f.Epoch.Replica != "" && f.Epoch.Replica == e.Replica
		return s.Does.Kills && own || f.Span.To <= s.Applied.To
	})
}

// idleAt reports a shot that found nobody to hold its lock, since all jobs of the lock had ended.
func (ix *Facts) idleAt(s *Shot) bool {
	if s.Voided == nil || s.Voided.Fault.Why != history.NoTarget {
		return false
	}
	end, over := ix.JobsEnd(ix.aimOf(s.ID))
	return over && end <= s.Voided.From
}

// aimOf is the lock at whose holder the file aims the fault; "" = none.
func (ix *Facts) aimOf(fault string) string {
	if f := ix.declaredFault(fault); f != nil {
		return f.Lock()
	}
	return ""
}

// declaredFault is the fault of the file with this id; nil where there is none.
func (ix *Facts) declaredFault(id string) *experiments.Fault {
	for i := range ix.Exp.Faults {
		if f := &ix.Exp.Faults[i]; f.ID == id {
			return f
		}
	}
	return nil
}

// JobsEnd is when the last job of the lock had ended; over is false where one did not, or there were none.
func (ix *Facts) JobsEnd(lock string) (end int64, over bool) {
	for _, j := range ix.jobOrder {
		if j.lock != lock {
			continue
		}
		if len(j.Terminals) == 0 {
			return 0, false
		}
		end, over = max(end, j.Terminals[0].Span.To), true
	}
	return end, over
}

// nothingOwed reports that every job under e's key was finished when the fault struck.
func (ix *Facts) nothingOwed(s *Shot, e *Epoch) bool {
	k := ix.Keys[e.Key]
	return !k.Loop && len(k.Jobs) > 0 && !slices.ContainsFunc(k.Jobs, func(j *job) bool { return !j.finished(s, e) })
}

// took reports that the shot was meant for the incarnation, or for several of which it is one, that ask for nothing any more.
func (s *Shot) took(incarnation string) bool {
	return incarnation == s.Victim || s.Does.Kills && slices.Contains(s.victims, incarnation)
}

// demand is the first attempt of another incarnation that the fault could have kept waiting.
func (ix *Facts) demand(k *Key, s *Shot, e *Epoch) (history.Span, bool) {
	for _, c := range k.Attempts {
		if !s.took(c.Source) && c.Source != e.Replica && c.Span.To >= s.Applied.From {
			return c.Sent, true
		}
	}
	return history.Span{}, false
}

// standing reports demand that needs no attempt to be seen: a live candidate of the loop, or a job under the key that surely was not
// finished yet.
func (ix *Facts) standing(k *Key, s *Shot, e *Epoch) bool {
	if !k.Loop {
		return slices.ContainsFunc(k.Jobs, func(j *job) bool {
			early := func(f *effect) bool { return f.Span.From <= s.Applied.To }
			return j.owed().From <= s.Applied.To && !j.finished(s, e) && !slices.ContainsFunc(j.Terminals, early)
		})
	}
	for who, ready := range ix.Ready {
		struck := who == e.Replica || s.Does.Kills && s.strikes(who)
		if d, dead := ix.Deaths[who]; !struck && ready <= s.Applied.From && !(dead && d.From <= s.Applied.To) {
			return true
		}
	}
	return false
}

// due is from when on a job under the key is owed that s kept from its end; zero where one is owed from the beginning.
func (k *Key) due(s *Shot, e *Epoch) history.Span {
	until := history.Span{From: Open, To: Open}
	for _, j := range k.Jobs {
		if !j.finished(s, e) {
			until = first(until, j.due)
		}
	}
	if until.From == Open {
		return history.Span{}
	}
	return until
}

// owedUntil is from when on nobody had a reason to take the key any more, since all its jobs were finished, by whomever; open while
// one was not, and for loops.
func (k *Key) owedUntil() int64 {
	if k.Loop || len(k.Jobs) == 0 {
		return Open
	}
	until := int64(never)
	for _, j := range k.Jobs {
		if len(j.Terminals) == 0 {
			return Open
		}
		until = max(until, j.Terminals[0].Span.From)
	}
	return until
}

// InUse reports that during g a key of the lock may have been held, worked under, or asked for.
func (ix *Facts) InUse(lock string, g history.Span) bool {
	if !ix.claimed[lock] {
		return true
	}
	touches := func(from, to int64) bool { return from <= g.To && to >= g.From }
	flight := int64(max(ix.policy(lock).OpTimeout, ix.policy(lock).Acquire.Timeout))
	for _, k := range ix.KeysOf(lock) {
		for _, e := range k.Epochs {
			if touches(e.Granted.From, max(e.Lease.Freed.To, e.stop().To)) {
				return true
			}
		}
		for _, c := range k.Attempts {
			if touches(c.Sent.From, c.applied(flight).To) {
				return true
			}
		}
	}
	return false
}

// wanted reports that another incarnation asked for the key after the fault, while e still owned it, or its holder still relied on it.
func (ix *Facts) wanted(s *Shot, e *Epoch) bool {
	until := e.Lease.Freed.To
	if e.Belief != nil {
		until = max(until, e.Belief.End.To)
	}
	return slices.ContainsFunc(ix.Keys[e.Key].Attempts, func(c *Call) bool {
		return c.Source != e.Replica && !s.took(c.Source) && c.Span.To >= max(s.Applied.From, e.Granted.From) && c.Sent.From <= until
	})
}
