package analysis

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// lease is how long the store owed an epoch its key, and when it really freed it.
type lease struct {
	due   history.Span // last applied renewal + TTL: the end, had nobody cut it short
	end   history.Span // the instant at which the key was freed
	gave  *call        // the give-back that ended it, or may have
	lost  bool         // freed before it was due, and not by its holder
	loss  bool         // ... because the store lost its data
	alive int64        // the last instant at which the key surely carried the epoch, as far as anybody saw
}

// leaseOf fixes e's lease end: due by the last extension, or cut short by a give-back, a loss of the store's data, or a
// grant to another. Key looks narrow it.
func (ix *Facts) leaseOf(k *keyIndex, e, next *epoch) {
	l := lease{due: ix.dueOf(e), alive: e.granted.From}
	hi := l.due.To
	for _, c := range e.renewals {
		switch {
		case c.outcome == history.OK:
			l.alive = max(l.alive, c.span.From)
		case e.goneBy(c):
			hi = min(hi, c.span.To)
		}
	}
	for _, c := range e.refusals {
		l.alive = max(l.alive, c.span.From)
	}
	if len(e.looks) > 0 {
		s := e.looks[len(e.looks)-1]
		if ix.outlivesLease(e.lock) {
			l.alive = max(l.alive, min(s.last().From, l.due.From))
		} else {
			l.alive = max(l.alive, s.last().From)
		}
		hi = ix.vanished(e, s, hi)
	}
	if next != nil && next.surelyAfter(e) {
		hi = min(hi, next.granted.To)
	}
	lo := l.due.From
	ix.gaveWhenAsked(e)
	lo, hi = ix.giveBack(e, &l, lo, hi)
	lo, l.loss = ix.storeLoss(e, l, lo)
	taken := ix.takenFrom(e)
	if taken != nil {
		hi = min(hi, taken.To)
	}
	if hi < lo { // somebody else freed it
		l.lost = true
		lo = min(l.alive, hi)
		if taken != nil {
			lo = max(lo, min(taken.From, hi))
		}
	}
	if !l.lost && l.alive > hi && (l.gave == nil || l.gave.outcome != history.OK) { // still there: an extension of unknown outcome was applied later than anybody waited for it
		hi = open
		if next != nil && next.surelyAfter(e) {
			hi = max(l.alive, next.granted.To)
		}
	}
	if l.alive <= hi {
		lo = max(lo, l.alive)
	}
	l.end = history.Span{From: lo, To: hi}
	e.life = l
}

// pttlRounding is how much more than PTTL says a key may have left: it counts whole milliseconds.
const pttlRounding = int64(1e6)

// takenFrom is when a confirmed fault took the key from under e; nil where none did. The fault names the epoch whose token it found.
func (ix *Facts) takenFrom(e *epoch) *history.Span {
	for _, s := range ix.shots {
		if s.does.AtKey && s.applied != nil && s.confirmed != nil && s.void == nil && s.key == e.key && s.epoch == e.id {
			return &s.applied.Span
		}
	}
	return nil
}

// dueOf is when the lease runs out if nobody cuts it short. A key without expiry never does. A lock that has no lease is its holder's until
// the session ends: at the earliest with the holder, or with its connection, which a fault on the way to the store may end.
func (ix *Facts) dueOf(e *epoch) history.Span {
	if !ix.exp.Leases() {
		due := history.Span{From: open, To: open}
		if d, dead := ix.deaths[e.replica]; dead {
			due.From = max(d.From, e.granted.From)
		}
		for _, s := range ix.shots {
			if s.does.OnTheWay && s.applied != nil && s.strikes(e.replica) && (s.reverted == nil || s.reverted.To >= e.granted.From) {
				due.From = min(due.From, max(s.applied.From, e.granted.From))
			}
		}
		return due
	}
	p := ix.policy(e.lock)
	due := history.Span{From: e.granted.From, To: open}
	if len(e.acquires)+len(e.renewals) > 0 {
		due = history.Span{}
	}
	unsure := false // a call may have come later than anybody waited for it
	extend := func(at history.Span, ttl int64, surely bool) {
		unsure = unsure || !surely
		if ttl == 0 {
			ttl = int64(p.TTL)
		}
		if surely {
			due.From = max(due.From, plus(at.From, ttl))
		}
		due.To = max(due.To, plus(plus(at.To, ttl), ix.cal.Expiry))
	}
	for _, c := range e.acquires {
		if c.outcome != history.Fail {
			extend(e.granted, c.ttl, e.sure)
		}
	}
	for _, c := range e.renewals {
		if c.outcome != history.Fail {
			extend(c.applied(ix.flight(p.OpTimeout)), c.ttl, c.outcome == history.OK)
		}
	}
	var seen int64 // the latest end that a look allows
	for i, s := range e.looks {
		switch {
		case s.pttl == -1 && i == len(e.looks)-1:
			return history.Span{From: open, To: open}
		case s.pttl > 0:
			due.From = max(due.From, s.first.From+s.pttl-s.slack)
			seen = s.first.To + s.pttl + pttlRounding + ix.cal.Expiry
		}
	}
	if seen > 0 && (due.From > due.To || due.To == open || unsure && seen > due.To) { // nobody tells of the extension, but the looks do
		due.To = seen
	}
	due.To = max(due.To, due.From)
	return due
}

// flight is for how long a call may be on its way after its caller has given it up: its timeout, and what the experiment's faults
// hold back.
func (ix *Facts) flight(timeout time.Duration) int64 {
	var held time.Duration
	for i := range ix.exp.Faults {
		held = max(held, ix.exp.Faults[i].Traits().Holds)
	}
	return int64(timeout + held)
}

// vanished lowers hi to the first look that no longer showed the epoch.
func (ix *Facts) vanished(e *epoch, s *stretch, hi int64) int64 {
	free := int64(open)
	if s.next != nil {
		free = s.next.first.To
	}
	if s.last().From <= hi || ix.outlivesLease(e.lock) {
		return min(hi, free)
	}
	if !ix.cameBack(e) {
		ix.findAs(verdict.FindingMissedExpiry, "key "+e.key+": the probe still saw epoch "+e.id+" "+figures.Short(s.last().From-hi)+" after its lease had ended by the claims", e.n, s.n, s.after())
	}
	return free
}

// cameBack reports that the store may have forgotten that e's key was freed: another took its place that did not know of it yet.
func (ix *Facts) cameBack(e *epoch) bool {
	return ix.failsOver() && slices.ContainsFunc(ix.losses, func(l history.Span) bool { return l.To > e.granted.From })
}

// giveBack takes the holder's own releases and undos into account.
func (ix *Facts) giveBack(e *epoch, l *lease, lo, hi int64) (int64, int64) {
	releases := e.releases
	if e.back != nil {
		releases = append(releases[:len(releases):len(releases)], e.back)
	}
	for _, c := range releases {
		switch {
		case c.outcome == history.OK:
			if c.span.From > hi && ix.outlivesLease(e.lock) { // its lease had run out, and its name still stood there
				continue
			}
			if c.span.From > hi && ix.cameBack(e) {
				l.gave = c
				return c.span.From, c.span.To
			}
			if c.span.From > hi {
				ix.find("key "+e.key+": epoch "+e.id+" was released with success after it had lost the key", e.n, c.n)
				continue
			}
			l.gave = c
			return c.span.From, min(hi, c.span.To)
		case e.goneBy(c):
			hi = min(hi, c.span.To)
		case c.outcome == history.Unknown:
			if l.gave == nil {
				l.gave = c
			}
			lo = min(lo, c.span.From)
		}
	}
	return lo, hi
}

// storeLoss lowers lo to the instant at which the store may have forgotten the key. An extension that succeeded later
// proves that it did not.
func (ix *Facts) storeLoss(e *epoch, l lease, lo int64) (int64, bool) {
	for _, loss := range ix.losses {
		at := max(loss.From, e.granted.From)                                 // it may have come before the grant, which is then not lost
		if loss.To > e.granted.From && at < l.due.To && l.alive <= loss.To { // its holder may also have given it back before
			return min(at, lo), true
		}
		renewed := slices.ContainsFunc(e.renewals, func(c *call) bool { return c.outcome == history.OK && c.span.From > loss.To })
		if loss.To > e.granted.From && l.alive > loss.To && l.alive < l.due.From && !renewed && ix.failsOver() { // there, but with an older end
			return min(l.alive, lo), true
		}
	}
	return lo, false
}

// goneBy reports that c shows e's key to be lost. An undo that was told "absent" before the acquire reached the store shows nothing.
func (e *epoch) goneBy(c *call) bool { return gone(c) && e.granted.To <= c.span.From }

// gone reports that the store said: not yours.
func gone(c *call) bool {
	return c.outcome == history.Fail && (c.result == history.ResultAbsent || c.result == history.ResultOther)
}

// endless finds locks whose keys a look shows without an expiry: if such a holder dies, nobody ever gets its key.
func (ix *Facts) endless() {
	if !ix.exp.Leases() {
		return
	}
	seen := map[string][]*stretch{}
	var locks []string
	for _, k := range ix.keyOrder {
		for _, s := range k.looks {
			if e := k.find(s.epoch); s.epoch == "" || s.pttl != -1 || e == nil || e.stranger || ix.outlivesLease(k.lock) {
				continue
			}
			if seen[k.lock] == nil {
				locks = append(locks, k.lock)
			}
			seen[k.lock] = append(seen[k.lock], s)
		}
	}
	for _, lock := range locks {
		var evidence []int64
		for _, s := range seen[lock] {
			evidence = append(evidence, s.n)
		}
		s := seen[lock][0]
		ix.findAs(verdict.FindingNoExpiry, fmt.Sprintf("lock %s: %s had no expiry, such as epoch %s at %s",
			lock, figures.Plural(len(evidence), "epoch"), s.epoch, figures.Clock(s.first.From)), evidence...)
	}
}
