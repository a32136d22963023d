package rehearsal

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

// strike is what the runner recorded of one shot. The world knows to the nanosecond when a process died or stood still; when another
// fault took effect is known as a bracket.
type strike struct {
	kind, form string
	victims    []string
	applied    history.Span
	confirmed  bool
	hits       map[string]history.Span // by epoch: the first renewal that it hit
	reverted   int64                   // from here on it may have ended
	over       int64                   // it was seen to have ended; Never = it was not
}

// strikes reads the shots, and the renewals that were answered ok, from the history as it is.
func (c *comparison) strikes(h *history.History) {
	c.shots, c.renewals, c.ready, c.looks = map[string]*strike{}, map[string][]history.Span{}, map[string]int64{}, map[string][]history.Span{}
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Look != nil {
			c.looks[ev.Key] = append(c.looks[ev.Key], ev.Span)
		}
		if ev.Entry != nil {
			c.read = append(c.read, ev.Span)
		}
		if ev.Kind == history.ReplicaReady {
			c.ready[ev.Source] = ev.To
		}
		if ev.Kind == history.RenewReturn && ev.Outcome == history.OK {
			c.renewals[ev.Epoch] = append(c.renewals[ev.Epoch], ev.Span)
		}
		if ev.Fault == nil {
			continue
		}
		s := c.shots[ev.Op]
		if s == nil {
			s = &strike{kind: ev.Fault.Kind, form: ev.Fault.Form, hits: map[string]history.Span{}, over: sim.Never}
			c.shots[ev.Op] = s
		}
		switch ev.Kind {
		case history.FaultApplied:
			s.applied, s.victims = ev.Span, append(ev.Fault.Victims, ev.Fault.Victim)
		case history.FaultConfirmed:
			s.confirmed = true
		case history.FaultReverted:
			s.reverted = ev.From
		case history.FaultHit:
			if _, known := s.hits[ev.Epoch]; !known {
				s.hits[ev.Epoch] = ev.Span
			}
		case history.FaultVerified:
			s.over = ev.To
		}
	}
}

// began is the bracket in which the fault struck the victim, as narrow as the world knows it.
func (c *comparison) began(s *strike, victim string) history.Span {
	if s.kind == "kill" {
		return history.At(c.t.Deaths[victim])
	}
	for _, p := range c.t.Stops {
		if s.kind == "pause" && p.Replica == victim && p.From >= s.applied.From && p.From <= s.applied.To {
			return history.At(p.From)
		}
	}
	return s.applied
}

// takeovers compares every trial that is listed: from the fault, or from the victim's last renewal under it, to the first accepted
// effect that shows a later epoch at work.
func (c *comparison) takeovers() {
	for i := range c.j.Takeovers {
		k := &c.j.Takeovers[i]
		if s := c.shots[k.Fault]; s != nil {
			c.takeover(k, s)
			c.tickless(k, s)
			continue
		}
		if c.seen != nil && c.seen.names {
			continue // a next life under the same name gave the key back
		}
		c.wrong = append(c.wrong, fmt.Sprintf("theft of %s from %s: nobody here steals but by a fault", k.Key, k.Victim))
	}
}

// tickless compares how long a loop was without a tick from the last one before the fault on: each gap that ended before another fault, or
// the final looks, counts, and none that is shorter than what is said.
func (c *comparison) tickless(k *verdict.Takeover, s *strike) {
	if k.TickGap == nil || c.seen != nil && c.seen.unread > 0 {
		return
	}
	until, fault := c.final, s.applied
	for _, o := range c.shots {
		if o != s && o.applied.From >= s.applied.From {
			until = min(until, o.applied.From)
		}
	}
	if s.kind == "kill" {
		fault = c.began(s, k.Victim)
	}
	ended := min(c.longestTickless(k.Key, fault.From, until), c.longestTickless(k.Key, fault.To, until))
	longest := max(c.longestTickless(k.Key, fault.From, sim.Never), c.longestTickless(k.Key, fault.To, sim.Never))
	hi := math.Inf(1)
	if k.TickGap.Hi != nil {
		hi = *k.TickGap.Hi
	}
	c.tried.count("tick gaps", 1)
	if seconds(ended) > hi+rounding || seconds(longest) < k.TickGap.Lo-rounding {
		c.wrong = append(c.wrong, fmt.Sprintf("tick gap of %s after %s: from %.9f to %.9f, measured from %.9f to %.9f", k.Key, k.Fault, seconds(ended), seconds(longest), k.TickGap.Lo, hi))
	}
}

// longestTickless is the longest stretch between two ticks under the key, from the last one before at on, that ended before until; where that is
// Never, the one that the final looks found counts too.
func (c *comparison) longestTickless(key string, at, until int64) (longest int64) {
	last := sim.Never
	for i := range c.t.Writes {
		switch w := &c.t.Writes[i]; {
		case w.Key != key || !w.Accepted || w.State != history.StateTick:
		case w.At <= at || last == sim.Never:
			last = w.At
		case w.At <= until:
			longest, last = max(longest, w.At-last), w.At
		}
	}
	if until == sim.Never && last != sim.Never {
		longest = max(longest, c.final-last)
	}
	return longest
}

func (c *comparison) takeover(k *verdict.Takeover, s *strike) {
	what := fmt.Sprintf("takeover (%s, %s) of %s after %s", k.Class, k.End, k.Key, k.Fault)
	began := c.began(s, k.Victim)
	held := c.heldAt(k.Key, k.Victim, s.applied, began)
	if loop := c.policy(k.Lock).Loop != nil; held == nil && c.seen != nil && (c.seen.names || s.kind == "store" && loop) {
		return // it gave the key back and was struck before a look could show that, which a name never does
	}
	if held == nil {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %s did not own it when it was struck", what, k.Victim))
		return
	}
	if k.By == verdict.ByHolder || k.End == "effect" && c.seen != nil && !c.seen.token && !c.seen.writer {
		return // effects are taken for those of whoever holds: the report says so
	}
	if c.seen != nil && c.seen.names && c.sameAgain(held) {
		return // the next grant is its own again, and a name tells it from a renewal only where a look fell between
	}
	x, start := c.successor(held, k.End), began
	after := c.renewedAfter(s, held)
	if len(after) > 0 && s.kind != "kill" {
		start = after[len(after)-1]
	}
	if k.Class != verdict.ClassRecovery && k.Class != verdict.ClassHandOver {
		c.noteTook(k, x.To, start)
	}
	if c.seen == nil && k.Class != verdict.ClassRecovery && k.End != endRenewal && x.To != sim.Never { // from outside, a pickup may be wrong in 1 world of 300
		c.parts(k, held, start, x.To, what)
	}
	switch {
	case c.seen == nil && k.Successor != k.Victim && !c.wanted(held, began) && !c.standing(held, began):
		c.wrong = append(c.wrong, what+": nobody else wanted the key")
	case k.Censored && k.Hi != nil:
		c.wrong = append(c.wrong, what+": it is censored and has an upper end")
	case k.Censored && x.To == sim.Never:
	case k.Censored:
		c.tried.count(countCensored, 1)
		c.within(countCensored, x, start, k.Lo, nil, what)
	case k.End == endRenewal && len(after) == 0 && c.seen == nil:
		c.wrong = append(c.wrong, what+": the victim renewed nothing")
	case k.End == endRenewal && c.seen != nil: // any of those that may have gone through is it
		if !slices.ContainsFunc(append(after, c.regrants[held.ID]...), func(r history.Span) bool { return c.mayBe(r, began, k) }) {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: none of its renewals came from %.9f to %.9f: %v", what, k.Lo, *k.Hi, after))
		}
	case k.End == endRenewal:
		c.tried.count(countRecoveries, 1)
		c.within(countRecoveries, after[0], began, k.Lo, k.Hi, what)
	case k.Class == verdict.ClassRecovery && k.Successor == k.Victim && c.finishedWithin(held, began, k):
		c.tried.count(countRecoveries, 1) // it brought the job to its end under the epoch that was struck
		c.within(countRecoveries, history.At(c.finished(held)), began, k.Lo, k.Hi, what)
	case x.From == sim.Never:
		c.wrong = append(c.wrong, what+": nobody came")
	case s.kind == "kill":
		c.tried.count(countKills, 1)
		c.within(countKills, x, start, k.Lo, k.Hi, what)
	default:
		c.tried.count(countOthers, 1)
		c.within(countOthers, x, start, k.Lo, k.Hi, what)
	}
}

// parts compares what the takeover is made of: none of them begins before it does, or ends after it. A grant that nobody learnt of, and that was
// undone before anybody looked, may be left out. Where a standby brought an epoch back, the key was free more than once, and no cut is the one.
func (c *comparison) parts(k *verdict.Takeover, held *sim.Epoch, start history.Span, x int64, what string) {
	granted := history.Span{From: x, To: x}
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if e.Key == held.Key && e.Back {
			return
		}
		if e.Granted == sim.Never || e.Key != held.Key || !later(e, held) || e.Stranger {
			continue
		}
		granted.From = min(granted.From, e.Granted)
		if e.Freed-e.Granted >= c.blink || e.Believed[0] != sim.Never {
			granted.To = min(granted.To, e.Granted)
		}
	}
	freed := history.Span{From: min(granted.From, held.Freed), To: min(granted.To, held.Freed)}
	cuts := [4]history.Span{start, notBefore(start, freed), notBefore(start, granted), history.At(x)}
	for i, part := range k.Parts() {
		if part.Long != nil {
			c.tried.count(part.Name, 1)
			c.within(part.Name, cuts[i+1], cuts[i], part.Long.Lo, part.Long.Hi, what+": "+part.Name)
		}
	}
}

// notBefore is s, and no earlier than start.
func notBefore(start, s history.Span) history.Span {
	return history.Span{From: max(start.From, s.From), To: max(start.To, s.To)}
}

// endRenewal is what verdict.json calls the end of a trial whose victim went on.
const endRenewal = "renewal"

// mayBe reports that what took effect within r may be what ended k.
func (c *comparison) mayBe(r, began history.Span, k *verdict.Takeover) bool {
	return seconds(max(0, r.To-began.From)) >= k.Lo-rounding && seconds(r.From-began.To) <= *k.Hi+rounding
}

// heldAt is the epoch under which the victim surely owned the key when it was struck; nil where it did not. A fault that takes the key
// itself away ends it.
func (c *comparison) heldAt(key, victim string, applied, began history.Span) *sim.Epoch {
	for i := range c.t.Epochs {
		e := &c.t.Epochs[i]
		if e.Key == key && e.Replica == victim && e.Granted <= applied.From && e.Freed >= began.From {
			return e
		}
	}
	return nil
}

// finishedWithin reports that the victim ended the job under the epoch that was struck when the measurement says that it went on. Where it
// also got the key again soon, either may have come first by what was seen.
func (c *comparison) finishedWithin(held *sim.Epoch, began history.Span, k *verdict.Takeover) bool {
	at := c.finished(held)
	return at != sim.Never && seconds(max(0, at-began.From)) >= k.Lo-rounding && seconds(at-began.To) <= *k.Hi+rounding
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// successor is when a later epoch of the key first showed itself at work; where the ledger has nothing of the lock, when it was granted. An
// outsider need not have seen a grant that nobody learnt of, and that was undone soon.
func (c *comparison) successor(held *sim.Epoch, end string) history.Span {
	x := history.At(sim.Never)
	if end == "grant" {
		for i := range c.t.Epochs {
			if e := &c.t.Epochs[i]; e.Granted != sim.Never && e.Key == held.Key && later(e, held) && !e.Stranger {
				x.From = min(x.From, e.Granted)
				if c.seen == nil || e.Freed-e.Granted >= c.blink || e.Believed[0] != sim.Never {
					x.To = min(x.To, e.Granted)
				}
			}
		}
		return x
	}
	for i := range c.t.Writes {
		if w := &c.t.Writes[i]; w.Key == held.Key && w.Accepted && (w.State == history.StateBegin || w.State == history.StateTick) && later(&c.t.Epochs[w.Epoch], held) {
			x = history.At(min(x.To, w.At))
		}
	}
	return x
}

// sameAgain reports that the next who learnt of a grant of the key was the same replica.
func (c *comparison) sameAgain(held *sim.Epoch) bool {
	var next *sim.Epoch
	for i := range c.t.Epochs {
		if e := &c.t.Epochs[i]; e.Believed[0] != sim.Never && e.Key == held.Key && later(e, held) && (next == nil || later(next, e)) {
			next = e
		}
	}
	return next != nil && next.Replica == held.Replica
}

// finished is when the epoch itself brought the job of its key to an end.
func (c *comparison) finished(held *sim.Epoch) int64 {
	for i := range c.t.Writes {
		if w := &c.t.Writes[i]; w.Accepted && w.Terminal && &c.t.Epochs[w.Epoch] == held {
			return w.At
		}
	}
	return sim.Never
}

// renewedAfter are the renewals of the epoch that were sent once the fault kept it from them, and went through all the same.
func (c *comparison) renewedAfter(s *strike, held *sim.Epoch) []history.Span {
	since := s.applied.To
	if hit, some := s.hits[held.ID]; some && s.kind == "renew_failures" {
		since = hit.To
	}
	return slices.DeleteFunc(slices.Clone(c.renewals[held.ID]), func(r history.Span) bool { return r.From < since })
}

// wanted reports that another asked for the key since the fault, or not long before.
func (c *comparison) wanted(held *sim.Epoch, began history.Span) bool {
	p := c.policy(held.Lock)
	return slices.ContainsFunc(c.t.Epochs, func(e sim.Epoch) bool {
		return e.Key == held.Key && e.Replica != held.Replica && !e.Stranger && e.Asked >= began.From-int64(2*p.Acquire.Timeout)-1e9
	})
}

// standing reports that the key was wanted when the fault struck, whether anybody asked or not: another lived who was to run the loop, or
// its job was not finished.
func (c *comparison) standing(held *sim.Epoch, began history.Span) bool {
	if c.policy(held.Lock).Loop == nil {
		return !slices.ContainsFunc(c.t.Writes, func(w sim.Write) bool { return w.Key == held.Key && w.Accepted && w.Terminal && w.At < began.From })
	}
	for who, ready := range c.ready {
		if died, dead := c.t.Deaths[who]; who != held.Replica && ready <= began.To && (!dead || died >= began.From) {
			return true
		}
	}
	return false
}

// within holds a true duration, of which both ends are known as brackets, against a measured one: they must have something in common.
func (c *comparison) within(measure string, end, start history.Span, lo float64, hi *float64, what string) {
	c.in(max(0, end.To-start.From), lo, nil, "%s, at least", what)
	if hi != nil {
		c.in(max(0, end.From-start.To), 0, hi, "%s, at most", what)
	}
	c.tried.width(measure, lo, hi)
}
