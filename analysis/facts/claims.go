package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Claims against evidence: what replicas say of a key is held against what looks showed of it. Where they disagree, the evidence is used,
// a finding says so, and nothing that leans on claims about that key can pass.

// Doubt notes why nothing that leans on claims about the key can pass; the first of each reason is enough.
func (k *Key) Doubt(m verdict.Missing) {
	if !slices.ContainsFunc(k.Doubts, func(d verdict.Missing) bool { return d.Code == m.Code }) {
		k.Doubts = append(k.Doubts, m)
	}
}

// announces reports that somebody says when the lock is asked for: without, a token that nobody announced is none to wonder about.
func (ix *Facts) announces(lock string) bool { return ix.asked[lock] && !ix.Exp.Observed() }

// explain finds the epochs of k that looks showed and nobody claims.
func (ix *Facts) explain(k *Key) {
	var used []*Call
	for i, e := range k.Epochs {
		if len(e.Looks) == 0 || e.Stranger || e.announced() {
			continue
		}
		if c := ix.leftOpen(k, e, used); c != nil {
			used = append(used, c)
			continue
		}
		e.unexplained = true
		said := "nobody had announced"
		if len(e.Acquires) > 0 {
			said = "its own replica had announced as refused"
		}
		what := fmt.Sprintf("key %s carried epoch %s, which %s", k.Name, e.ID, said)
		evidence := []int64{e.Looks[0].n}
		if of := k.preceding(i); of != nil && ix.robbed(of, e) {
			what += fmt.Sprintf(": it took the key from epoch %s, to which the store still owed %s", of.ID, figures.Short(of.Lease.Expires.From-e.Granted.To))
			evidence = append(evidence, of.N)
		}
		for _, c := range e.Acquires {
			evidence = append(evidence, c.n)
		}
		ix.findAs(verdict.FindingUnannounced, what, evidence...)
		k.Doubt(verdict.Lacking(verdict.MissingAnnouncement, k.Name, e.ID))
	}
}

// announced reports an acquire of e that its caller does not rule out to have succeeded.
func (e *Epoch) announced() bool {
	return slices.ContainsFunc(e.Acquires, func(c *Call) bool { return c.Outcome != history.Fail })
}

// leftOpen is an acquire that its caller took to the grave and that may have put e's token into the key; nil where there is none. Each
// explains one token, and its own if that was seen.
func (ix *Facts) leftOpen(k *Key, e *Epoch, used []*Call) *Call {
	flight := ix.flight(ix.policy(k.Lock).Acquire.Timeout)
	for _, c := range k.Attempts {
		if _, dead := ix.Deaths[c.Source]; c.Returned || !dead || slices.Contains(used, c) || len(c.Of.Looks) > 0 {
			continue
		}
		if _, may := e.Granted.Intersect(c.applied(flight)); may {
			return c
		}
	}
	return nil
}

// robbed reports that e was granted while the store still owed its lease to the one before, who had not given it back.
func (ix *Facts) robbed(of, e *Epoch) bool {
	return e.Granted.To < of.Lease.Expires.From && !of.Stranger && of.Lease.gave == nil && !of.Lease.loss && ix.takenFrom(of) == nil
}

// seen adds a look to the epoch that it shows, and notes a token that comes back after it was gone: it names two holds, so nothing tells
// which of them a claim is about. What a store lost and got back with a standby is no such token.
func (ix *Facts) seen(k *Key, s *keyState) {
	e := s.of
	if e == nil {
		e = k.epoch(s.epoch)
	} else if e.nth > 0 && len(e.Looks) == 0 {
		ix.rollBack(k, e, s)
	}
	if gone := e.shownGone(); gone != nil && gone != s && !e.reused && !ix.Exp.Observed() {
		if ix.sameStore(gone.prev.From, s.First.To) {
			e.reused = true
			ix.findAs(verdict.FindingTokenReuse, "key "+k.Name+": the token of epoch "+e.ID+" came back after it had been gone", gone.n, s.n)
			k.Doubt(verdict.Lacking(verdict.MissingNewToken, k.Name, e.ID))
		}
	}
	e.Looks = append(e.Looks, s)
}

// renewedAfterWork finds holders that renewed a key that they had stopped working under, and relying on.
func (ix *Facts) renewedAfterWork(k *Key) {
	for _, e := range k.Epochs {
		goesOn := e.unowned != nil // past its validity, by its policy: its belief ended, its work did not
		if e.Belief == nil || e.Ghost || goesOn || len(e.Works) == 0 {
			continue
		}
		o, _ := ix.doneWith(e)
		done := max(o.start.To, e.Belief.End.To)
		if o.cause != causeRenewed || done == Open {
			continue
		}
		n := 0
		var evidence []int64
		for _, c := range e.Renewals {
			if c.Sent.From > done && c.saidOK() {
				n++
				evidence = append(evidence, c.n)
			}
		}
		if n > 0 {
			ix.findAs(verdict.FindingRenewedAfterWork, fmt.Sprintf("key %s: epoch %s was renewed %s after its holder was done with it at %s",
				k.Name, e.ID, figures.Plural(n, "time"), figures.Clock(done)), evidence...)
		}
	}
}

// window is one stretch that a probe vouches for, as it was recorded.
type window struct {
	history.Span
	largest int64 // the longest stretch in it between two good looks
	n       int64
}

// A ghost is an epoch that its holder claims and that the key never carried: a lock that answers granted without its store, or that puts
// another token there than it says. What it does is unowned.

// hold is from when until when e surely had its key, by the words of its holder alone: from a grant that was answered until its lease could
// end, or until the holder, a fault of ours or a loss of the store's data may have ended it. ok is false where it claims none.
func (ix *Facts) hold(e *Epoch) (h history.Span, granted *Call, ok bool) {
	extend := func(c *Call) {
		h.To = max(h.To, Plus(c.Span.From, cmp.Or(c.ttl, int64(ix.policy(e.Lock).TTL))))
	}
	for _, c := range e.Acquires {
		if c.Outcome == history.OK {
			h.From, granted = c.Span.To, c
			extend(c)
		}
	}
	if granted == nil {
		return h, nil, false
	}
	for _, c := range e.Renewals {
		if c.Outcome == history.OK {
			extend(c)
		}
	}
	for _, c := range slices.Concat(e.Renewals, e.Releases) {
		if gone(c) {
			h.To = min(h.To, c.Sent.From)
		}
	}
	for _, c := range e.Releases {
		h.To = min(h.To, c.Sent.From)
	}
	for _, l := range ix.losses {
		if l.To >= granted.Span.From {
			h.To = min(h.To, l.From)
		}
	}
	for _, s := range ix.Shots {
		if s.Does.AtKey && s.Applied != nil && s.Key == e.Key && s.Applied.To >= granted.Span.From {
			h.To = min(h.To, s.Applied.From)
		}
	}
	return h, granted, h.From < h.To
}

// haunts reports that e never had its key, whatever its holder did under it: no look ever showed it, and two whole ones within the hold
// that is claimed showed another token, or none.
func (ix *Facts) haunts(k *Key, e *Epoch) bool {
	if len(e.Looks) > 0 || len(k.Looks) == 0 || ix.Exp.Observed() || slices.ContainsFunc(e.Effects, func(f *effect) bool { return f.Named == "self" }) {
		return false
	}
	h, c, ok := ix.hold(e)
	if !ok {
		return false
	}
	at, _ := slices.BinarySearchFunc(k.Looks, h.From, func(s *keyState, t int64) int { return cmp.Compare(s.First.From, t) })
	n := 0
	for i := max(0, at-1); i < len(k.Looks) && n < 2; i++ {
		s := k.Looks[i]
		if i == 0 {
			n += ix.without(k, s.before(), h, c, true)
		}
		if s.First.From >= h.To {
			break
		}
		n += ix.without(k, shows{s.First, s.last()}, h, c, s.epoch == "")
	}
	return n >= 2
}

// shows are the first and the last of looks that showed the same.
type shows struct{ first, last history.Span }

// before are the looks that showed the key absent before the first that is recorded: that it was never there is no event.
func (s *keyState) before() shows {
	last := s.prev
	if s.epoch == "" && last.From == never {
		last = s.First
	}
	return shows{history.Span{From: never, To: never}, last}
}

// without counts the looks within h that surely showed the same as those of s: the two that are known, and those in between. A job's key that
// is absent is read by every look only for a while after it was asked for, which c did.
func (ix *Facts) without(k *Key, s shows, h history.Span, c *Call, absent bool) int {
	if s.last.From == never {
		return 0
	}
	n := 0
	if h.From <= s.first.From && s.first.To <= h.To {
		n++
	}
	if s.last != s.first && h.From <= s.last.From && s.last.To <= h.To {
		n++
	}
	p := ix.Probes[probeKeys]
	w, ok := h.Intersect(history.Span{From: s.first.From, To: s.last.To})
	if n >= 2 || p == nil || !ok {
		return n
	}
	if absent && !k.Loop {
		every := int64(ix.Exp.Probes.LockKeys.Every)
		if s.first.From > h.From || c.Span.Width() > askedLooks/2*every {
			return n
		}
		at, _ := slices.BinarySearchFunc(p.windows, c.told, func(w window, n int64) int { return cmp.Compare(w.n, n) })
		if at == len(p.windows) {
			return n
		}
		w.From = max(w.From, p.windows[at].To) // by then the probe had been told of c
	}
	return max(n, p.looks(w))
}

// askedLooks is how many looks read a key at least that was asked for.
const askedLooks = 20

// looks is how many looks surely lie wholly within w. Between the beginning of a look and the end of the next there is at most what a
// window calls its largest stretch.
func (c *Coverage) looks(w history.Span) int {
	at, _ := slices.BinarySearchFunc(c.windows, w.From, func(x window, t int64) int { return cmp.Compare(x.To, t) })
	n, from, to, largest := int64(0), int64(0), int64(0), int64(0)
	count := func() {
		if largest > 0 {
			n += max(0, to-from) / largest
		}
	}
	for ; at < len(c.windows) && c.windows[at].From < w.To; at++ {
		x := c.windows[at]
		if largest == 0 || x.From > to {
			count()
			from, largest = max(w.From, x.From), 0
		}
		to, largest = min(w.To, x.To), max(largest, x.largest)
	}
	count()
	return int(n)
}

// exorcise takes the ghosts out of what the store's own order of grants is known from.
func (ix *Facts) exorcise(k *Key, e *Epoch) {
	e.Ghost = true
	e.Lease = lease{Expires: e.Granted, Freed: history.At(e.Granted.From), lastSeen: e.Granted.From, lost: true}
	ix.findAs(verdict.FindingGhost, "key "+k.Name+": "+e.Replica+" claims to have held epoch "+e.ID+", but the probe never saw it: the key showed another token, or none", e.N)
	k.Doubt(verdict.Lacking(verdict.MissingGrant, k.Name, e.ID, e.Replica))
}
