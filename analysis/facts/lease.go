package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// lease is how long the store owed an epoch its key, and when it really freed it.
type lease struct {
	Expires  history.Span // last applied renewal + TTL: the end, had nobody cut it short
	Freed    history.Span // the instant at which the key was freed
	gave     *Call        // the give-back that ended it, or may have
	lost     bool         // freed before it was due, and not by its holder
	loss     bool         // ... because the store lost its data
	taken    bool         // ... because a fault of ours took the key
	lastSeen int64        // the last instant at which the key surely carried the epoch, as far as anybody saw
}

// cut reports that it ended before its time, and not by its holder, as far as is known.
func (l *lease) cut() bool { return l.lost || l.loss || l.taken }

// leaseOf fixes e's lease end: due by the last extension, or cut short by a give-back, a loss of the store's data, or a
// grant to another. Key looks narrow it.
func (ix *Facts) leaseOf(k *Key, e, next *Epoch) {
	l := lease{Expires: ix.dueOf(e), lastSeen: e.Granted.From}
	l.Expires.To = ix.renewedUnseen(e, l.Expires.To)
	if next != nil && next.goesOn { // it was its own holder's to take up, and nothing was owed any more
		l.Expires = first(l.Expires, next.Granted)
	}
	hi := l.Expires.To
	for _, c := range e.Renewals {
		switch {
		case c.Outcome == history.OK:
			l.lastSeen = max(l.lastSeen, c.Span.From)
		case e.goneBy(c):
			hi = min(hi, c.Span.To)
		}
	}
	for _, c := range e.refusals {
		l.lastSeen = max(l.lastSeen, c.Span.From)
	}
	if s := e.shownLast(); s != nil {
		if ix.OutlivesLease(e.Lock) {
			l.lastSeen = max(l.lastSeen, min(s.last().From, l.Expires.From))
		} else {
			l.lastSeen = max(l.lastSeen, s.last().From)
		}
		hi = ix.vanished(e, s, hi)
	}
	if next != nil && next.surelyAfter(e) {
		hi = min(hi, next.Granted.To)
	}
	lo := l.Expires.From
	ix.gaveWhenAsked(e)
	lo, hi = ix.giveBack(e, &l, lo, hi)
	lo, l.loss = ix.storeLoss(e, l, lo)
	taken := ix.takenFrom(e)
	if taken != nil {
		l.taken, hi = true, min(hi, taken.To)
	}
	if hi < lo { // somebody else freed it
		l.lost = true
		lo = min(l.lastSeen, hi)
		if taken != nil {
			lo = max(lo, min(taken.From, hi))
		}
	}
	if !l.lost && l.lastSeen > hi && (l.gave == nil || l.gave.Outcome != history.OK) { // still there: an extension of unknown outcome was applied later than anybody waited for it
		hi = Open
		if next != nil && next.surelyAfter(e) {
			hi = max(l.lastSeen, next.Granted.To)
		}
	}
	if l.lastSeen <= hi {
		lo = max(lo, l.lastSeen)
	}
	l.Freed = history.Span{From: lo, To: hi}
	e.Lease = l
}

// pttlRounding is how much more than PTTL says a key may have left: it counts whole milliseconds.
const pttlRounding = int64(1e6)

// renewedUnseen is when a lease of which looks alone are known is over at the latest. Between the last look that showed it and the next
// one it may have been prolonged, as often as there was time for, and have been given back or have ended.
func (ix *Facts) renewedUnseen(e *Epoch, end int64) int64 {
	if !ix.Exp.Observed() || !ix.Exp.Leases() || ix.OutlivesLease(e.Lock) || end == Open {
		return end
	}
	gone := e.shownGone()
	if d, dead := ix.Deaths[e.Replica]; gone == nil || gone.direct || dead && d.To <= e.shownLast().last().From {
		return end
	}
	return max(end, gone.First.To)
}

// takenFrom is when a confirmed fault took the key from under e; nil where none did. The fault names the epoch whose token it found.
func (ix *Facts) takenFrom(e *Epoch) *history.Span {
	for _, s := range ix.Shots {
		if s.Does.AtKey && s.Applied != nil && s.confirmed != nil && s.Voided == nil && s.Key == e.Key && s.Epoch == e.ID && s.meant(ix.Keys[e.Key]) == e {
			return &s.Applied.Span
		}
	}
	return nil
}

// dueOf is when the lease runs out if nobody cuts it short. A key without expiry never does. A lock that has no lease is its holder's until
// the session ends: at the earliest with the holder, or with its connection, which a fault on the way to the store may end.
func (ix *Facts) dueOf(e *Epoch) history.Span {
	if !ix.Exp.Leases() {
		due := history.Span{From: Open, To: Open}
		if d, dead := ix.Deaths[e.Replica]; dead {
			due.From = max(d.From, e.Granted.From)
		}
		for _, s := range ix.Shots {
			if s.Does.OnTheWay && s.Applied != nil && s.strikes(e.Replica) && (s.reverted == nil || s.reverted.To >= e.Granted.From) {
				due.From = min(due.From, max(s.Applied.From, e.Granted.From))
			}
		}
		return due
	}
	p := ix.policy(e.Lock)
	due := history.Span{From: e.Granted.From, To: Open}
	if len(e.Acquires)+len(e.Renewals) > 0 {
		due = history.Span{}
	}
	unsure := false // a call may have come later than anybody waited for it
	extend := func(at history.Span, ttl int64, surely bool) {
		unsure = unsure || !surely
		ttl = cmp.Or(ttl, int64(p.TTL))
		if surely {
			due.From = max(due.From, Plus(at.From, ttl))
		}
		due.To = max(due.To, Plus(Plus(at.To, ttl), ix.Cal.Expiry))
	}
	for _, c := range e.Acquires {
		if c.Outcome != history.Fail {
			extend(e.Granted, c.ttl, e.sure)
		}
	}
	for _, c := range e.Renewals {
		if c.Outcome != history.Fail {
			extend(c.applied(ix.flight(p.OpTimeout)), c.ttl, c.Outcome == history.OK)
		}
	}
	var seen int64 // the latest end that a look allows
	for i, s := range e.Looks {
		switch {
		case s.pttl == -1 && i == len(e.Looks)-1:
			return history.Span{From: Open, To: Open}
		case s.pttl > 0:
			least := s.First.From + s.pttl - s.slack
			seen = s.First.To + s.pttl + pttlRounding + ix.Cal.Expiry
			if due.From = max(due.From, least); ix.Exp.Observed() && seen < due.From { // its holder renewed it for less than it had
				due.From = least
			}
		}
	}
	if seen > 0 && (due.From > due.To || due.To == Open || unsure && seen > due.To) { // nobody tells of the extension, but the looks do
		due.To = seen
	}
	due.To = max(due.To, due.From)
	return due
}

// flight is for how long a call may be on its way after its caller has given it up: its timeout, and what the experiment's faults
// hold back.
func (ix *Facts) flight(timeout time.Duration) int64 {
	var held time.Duration
	for i := range ix.Exp.Faults {
		held = max(held, ix.Exp.Faults[i].Traits().Holds)
	}
	return int64(timeout + held)
}

// vanished lowers hi to the first look that no longer showed the epoch.
func (ix *Facts) vanished(e *Epoch, s *keyState, hi int64) int64 {
	free := int64(Open)
	if s.next != nil {
		free = s.next.First.To
	}
	if s.last().From <= hi || ix.OutlivesLease(e.Lock) {
		return min(hi, free)
	}
	// A store keeps leases in whole milliseconds, and no calibration has seen the latest end of one.
	if s.last().From > hi+pttlRounding && !ix.cameBack(e) {
		ix.findAs(verdict.FindingMissedExpiry, "key "+e.Key+": the probe still saw epoch "+e.ID+" "+figures.Short(s.last().From-hi)+" after its lease had ended by the claims", e.N, s.n, s.after())
	}
	return free
}

// cameBack reports that the store may have forgotten that e's key was freed: another took its place that did not know of it yet.
func (ix *Facts) cameBack(e *Epoch) bool {
	return ix.FailsOver() && slices.ContainsFunc(ix.losses, func(l history.Span) bool { return l.To > e.Granted.From })
}

// giveBack takes the holder's own releases and undos into account.
func (ix *Facts) giveBack(e *Epoch, l *lease, lo, hi int64) (int64, int64) {
	releases := e.Releases
	if e.back != nil {
		releases = append(releases[:len(releases):len(releases)], e.back)
	}
	for _, c := range releases {
		switch {
		case c.Outcome == history.OK:
			if c.Span.From > hi && ix.OutlivesLease(e.Lock) { // its lease had run out, and its name still stood there
				continue
			}
			if c.Span.From > hi && ix.cameBack(e) {
				l.gave = c
				return c.Span.From, c.Span.To
			}
			if c.Span.From > hi {
				ix.find("key "+e.Key+": epoch "+e.ID+" was released with success after it had lost the key", e.N, c.n)
				continue
			}
			l.gave = c
			return c.Span.From, min(hi, c.Span.To)
		case e.goneBy(c):
			hi = min(hi, c.Span.To)
		case c.Outcome == history.Unknown:
			if l.gave == nil {
				l.gave = c
			}
			lo = min(lo, c.Span.From)
		}
	}
	return lo, hi
}

// storeLoss lowers lo to the instant at which the store may have forgotten the key. An extension that succeeded later
// proves that it did not.
func (ix *Facts) storeLoss(e *Epoch, l lease, lo int64) (int64, bool) {
	for _, loss := range ix.losses {
		at := max(loss.From, e.Granted.From)                                        // it may have come before the grant, which is then not lost
		if loss.To > e.Granted.From && at < l.Expires.To && l.lastSeen <= loss.To { // its holder may also have given it back before
			return min(at, lo), true
		}
		renewed := slices.ContainsFunc(e.Renewals, func(c *Call) bool { return c.Outcome == history.OK && c.Span.From > loss.To })
		if loss.To > e.Granted.From && l.lastSeen > loss.To && l.lastSeen < l.Expires.From && !renewed && ix.FailsOver() { // there, but with an older end
			return min(l.lastSeen, lo), true
		}
	}
	return lo, false
}

// goneBy reports that c shows e's key to be lost. An undo that was told "absent" before the acquire reached the store shows nothing.
func (e *Epoch) goneBy(c *Call) bool { return gone(c) && e.Granted.To <= c.Span.From }

// gone reports that the store said: not yours.
func gone(c *Call) bool {
	return c.Outcome == history.Fail && (c.Result == history.ResultAbsent || c.Result == history.ResultOther)
}

// endless finds locks whose keys a look shows without an expiry: if such a holder dies, nobody ever gets its key.
func (ix *Facts) endless() {
	if !ix.Exp.Leases() {
		return
	}
	seen := map[string][]*keyState{}
	var locks []string
	for _, k := range ix.KeyOrder {
		for _, s := range k.Looks {
			if e := k.of(s); s.pttl != -1 || e == nil || e.Stranger || ix.OutlivesLease(k.Lock) {
				continue
			}
			if seen[k.Lock] == nil {
				locks = append(locks, k.Lock)
			}
			seen[k.Lock] = append(seen[k.Lock], s)
		}
	}
	for _, lock := range locks {
		var evidence []int64
		for _, s := range seen[lock] {
			evidence = append(evidence, s.n)
		}
		s, is := seen[lock][0], ""
		if s.hash {
			is = " (the key is a hash)"
		}
		ix.findAs(verdict.FindingNoExpiry, fmt.Sprintf("lock %s: %s had no expiry%s, such as epoch %s at %s",
			lock, figures.Plural(len(evidence), "epoch"), is, s.epoch, figures.Clock(s.First.From)), evidence...)
	}
}

// NeverExpires reports that the key had no expiry when it was last seen with e, of a lock whose keys should have one.
func (ix *Facts) NeverExpires(e *Epoch) bool {
	last := e.shownLast()
	return last != nil && last.pttl == -1 && !ix.OutlivesLease(e.Lock)
}

// LongerLease is what e's key of an observed lock had left when it was last seen, where that is far more than its ttl; else 0.
func (ix *Facts) LongerLease(e *Epoch) (left, ttl int64) {
	last, ttl := e.shownLast(), int64(ix.policy(e.Lock).TTL)
	if !ix.Exp.Observed() || last == nil || last.pttl < ttl+ttl/2 || ix.OutlivesLease(e.Lock) {
		return 0, 0
	}
	return last.pttl, ttl
}

// lastSign brackets the end of an incarnation: its death, else from its last word on.
func (ix *Facts) lastSign(incarnation string) history.Span {
	if d, ok := ix.Deaths[incarnation]; ok {
		return d.Span
	}
	return history.Span{From: ix.LastWord[incarnation], To: Open}
}
