package facts

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// busy is refusals of a lock whose holder was dead or done: acquires that failed, and the stretch over which they did.
type busy struct {
	Count    Tally
	Time     Dur
	Waited   []Value // how long each of them waited for its answer
	Asked    int     // acquires in all
	Evidence []int64
}

// refusal is one acquire that was refused or timed out: a single try, or a bounded wait that gave up.
type refusal struct {
	span   history.Span // it took so long at most
	sure   history.Span // and at least so long
	holder string
	who    string // whose it is
	n      int64
}

func (ix *Facts) BusyOf(lock string) busy {
	var b busy
	for _, k := range ix.KeysOf(lock) {
		type stretch struct {
			sure, maybe history.Span
			lo, hi      int
		}
		by := map[*Epoch]*stretch{}
		var order []*stretch
		refusals, asked := ix.refusals(k)
		b.Asked += asked
		for _, r := range refusals {
			e := k.Find(r.holder)
			if e == nil {
				e = k.owner(r.span)
			}
			if e == nil {
				continue
			}
			done, ok := ix.doneAt(e)
			if !ok || done.From >= r.span.To {
				continue
			}
			s := by[e]
			if s == nil {
				s = &stretch{maybe: r.span}
				by[e] = s
				order = append(order, s)
			}
			s.hi++
			s.maybe.To = max(s.maybe.To, r.span.To)
			if done.To <= r.span.From {
				if s.lo == 0 {
					s.sure = r.sure
				}
				s.lo++
				s.sure.To = max(s.sure.To, r.sure.To)
			}
			b.Evidence = append(b.Evidence, r.n)
			b.Waited = append(b.Waited, ix.Valued(Dur{r.sure.Width(), r.span.Width()}, ix.lateness(r.sure.From, r.sure.To, ix.wayOf(k.Loop, r.who)...)))
		}
		for _, s := range order {
			b.Count.Lo, b.Count.Hi = b.Count.Lo+s.lo, b.Count.Hi+s.hi
			b.Time = b.Time.Add(Dur{s.sure.Width(), s.maybe.Width()})
		}
	}
	return b
}

// refusals lists the acquires of k that failed, and counts all.
func (ix *Facts) refusals(k *Key) (rs []refusal, asked int) {
	if ix.policy(k.Lock).Acquire.Mode == lockcore.AcquireWait {
		for _, w := range k.waits {
			if w.outcome == history.Fail && w.end.To != Open {
				rs = append(rs, refusal{history.Span{From: w.begin.From, To: w.end.To}, within(w.begin, w.end), w.holder, w.source, w.n})
			}
		}
		return rs, len(k.Attempts)
	}
	for _, c := range k.Attempts {
		if c.Returned && (c.Result == history.ResultHeld || c.Outcome == history.Unknown) {
			rs = append(rs, refusal{c.Span, within(c.Sent, c.answered), c.holder, c.Source, c.n})
		}
	}
	return rs, len(k.Attempts)
}

// within is the time that surely lies between two instants: none, where they may be one.
func within(a, b history.Span) history.Span {
	return history.Span{From: a.To, To: max(a.To, b.From)}
}

// doneAt is when e's holder was dead, or had stopped relying on the lock without giving it back in time. A planned hold that
// runs to its TTL is not done, nor is a release within the op timeout.
func (ix *Facts) doneAt(e *Epoch) (history.Span, bool) {
	d, dead := ix.Deaths[e.Replica]
	if e.Belief == nil {
		at := history.Span{From: Open, To: Open}
		for _, c := range e.Acquires { // an orphan: nobody knows that it was granted
			if c.Returned {
				at = first(at, c.answered)
			}
		}
		if dead {
			at = first(at, d.Span)
		}
		return at, at.From != Open
	}
	planned := e.whySkipped == "ttl_hold" || e.fenced != nil && e.fenced.Abandon.Reason == "expired"
	gave := e.Lease.gave
	latency := gave != nil && gave.Outcome == history.OK && gave.Span.Width() <= int64(ix.policy(e.Lock).OpTimeout)
	if !planned && !latency {
		return e.Belief.End, e.Belief.End.From != Open && e.Belief.End.To != Open
	}
	return d.Span, dead
}

// Blocked is how long after its work the worker of e was still giving the key back; ok is false where it did not.
func (ix *Facts) Blocked(e *Epoch) (d Value, ok bool) {
	if e.Belief == nil || len(e.Works) == 0 || len(e.Releases) == 0 {
		return Value{}, false
	}
	o, _ := ix.doneWith(e)
	if o.start.To == Open || ix.takenDown(o.start.From) {
		return Value{}, false
	}
	last := e.Releases[len(e.Releases)-1]
	end := history.Span{From: last.Sent.From, To: Open}
	if last.Returned {
		end = last.answered
	} else if dead, died := ix.Deaths[e.Replica]; died {
		end = dead.Span
	}
	late := ix.lateness(o.start.From, max(end.From, o.start.To), ix.wayOf(ix.Keys[e.Key].Loop, e.Replica)...)
	return ix.Valued(ix.lessStanding(e, between(o.start, end), o.start.From, end.To), late), true
}
