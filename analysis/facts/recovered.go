package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// recovered settles trials in which the victim's own lease was extended again, or its work finished, before anybody else came. Where it
// was extended during the fault and lost before its end all the same, the clock starts at the last renewal.
func (ix *Facts) recovered(k *Key, t *Trial) bool {
	if t.Shot.Does.Kills {
		return false
	}
	since := t.Shot.Applied.To
	if hit := t.Shot.firstHit(t.E); hit != nil {
		since = hit.To
	}
	settle := func(end string, at history.Span, n int64) {
		t.Class, t.End, t.After = verdict.ClassRecovery, end, t.E
		t.Start, t.Ended = t.Shot.Applied.Span, at
		t.Value = between(t.Start, t.Ended)
		t.Evidence = Cite(append(t.Evidence, n)...)
	}
	var first, last, maybe *Call // maybe: by what looks show it was before the fault struck, or after
	for _, c := range slices.Concat(t.E.Renewals, t.E.extensions()) {
		switch {
		case c.Outcome != history.OK || c.Span.To < since:
		case c.Span.From >= since:
			first, last = cmp.Or(first, c), c
		case ix.Exp.Observed(): // who claims says when it sent its renewals
			maybe = c
		}
	}
	switch {
	case first != nil && !ix.lostAfter(t, last):
		at := first.Span
		if maybe != nil {
			at.From = min(at.From, maybe.Span.From)
		}
		settle(EndRenewal, at, first.n)
		return true
	case first != nil:
		t.from = last.Span
	case maybe != nil:
		t.from.To = max(t.from.To, maybe.Span.To)
	case ix.Exp.Observed() && len(t.E.Looks) > 0 && t.E.Looks[0].First.To > since: // before the first look it may have renewed unseen
		t.from.To = max(t.from.To, t.E.Looks[0].First.To)
	}
	if ix.renewedLast(t.Shot, t.E) { // so it may have after the last one, before it gave the key back
		t.from.To = max(t.from.To, t.E.Lease.Freed.To)
	}
	if k.Loop {
		return false
	}
	var end *effect // the first sign that it goes on
	for _, j := range k.Jobs {
		if j.finished(t.Shot, t.E) { // another job under the same hold
			continue
		}
		i := slices.IndexFunc(j.Terminals, func(f *effect) bool {
			return f.Epoch == t.E && !f.unsure && (t.Next == nil || f.Span.To <= t.Next.Granted.From)
		})
		switch {
		case i < 0 && t.Next != nil && t.E.hadBegun(j, since): // somebody else has to end it
			return false
		case i >= 0 && (end == nil || j.Terminals[i].Span.To < end.Span.To):
			end = j.Terminals[i]
		}
	}
	if end == nil {
		return false
	}
	settle(endEffect, end.Span, end.N)
	return true
}

// hadBegun reports that an effect of e shows j at work before an instant.
func (e *Epoch) hadBegun(j *job, before int64) bool {
	return slices.ContainsFunc(e.Effects, func(f *effect) bool { return f.Fresh() && !f.Loop && f.Subject == j.ID && f.Span.From < before })
}

// renewedLast reports that the holder of e, for whom nobody claims, may have extended its lease between the last look that showed it and the
// first that did not: it gave the key back then, whenever the lease would have ended by the looks. It did not where the fault kept it from
// the store all that time.
func (ix *Facts) renewedLast(s *Shot, e *Epoch) bool {
	if !ix.Exp.Observed() {
		return false
	}
	l := &e.Lease
	if gone := e.shownGone(); gone != nil && !gone.direct {
		shut := s.Does.Stands >= 1 || s.Does.Cuts || s.Does.AtStore && !s.Does.AtOnce
		return !shut || e.shownLast().last().From < s.Applied.To || gone.First.To > s.Over.From
	}
	return l.Freed.To < l.Expires.From
}

// lostAfter reports that another got the key after c, the victim's last renewal, while the fault still lasted: neither given back nor
// left behind by a death.
func (ix *Facts) lostAfter(t *Trial, c *Call) bool {
	d, dead := ix.Deaths[t.E.Replica]
	return t.Next != nil && t.E.Lease.gave == nil && c.Span.To < t.Shot.Over.From && !(dead && d.From < t.E.Lease.Freed.To)
}
