package analysis

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

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
func (ix *Facts) hold(e *epoch) (h history.Span, granted *call, ok bool) {
	extend := func(c *call) {
		h.To = max(h.To, plus(c.span.From, cmp.Or(c.ttl, int64(ix.policy(e.lock).TTL))))
	}
	for _, c := range e.acquires {
		if c.outcome == history.OK {
			h.From, granted = c.span.To, c
			extend(c)
		}
	}
	if granted == nil {
		return h, nil, false
	}
	for _, c := range e.renewals {
		if c.outcome == history.OK {
			extend(c)
		}
	}
	for _, c := range slices.Concat(e.renewals, e.releases) {
		if gone(c) {
			h.To = min(h.To, c.sent.From)
		}
	}
	for _, c := range e.releases {
		h.To = min(h.To, c.sent.From)
	}
	for _, l := range ix.losses {
		if l.To >= granted.span.From {
			h.To = min(h.To, l.From)
		}
	}
	for _, s := range ix.shots {
		if s.does.AtKey && s.applied != nil && s.key == e.key && s.applied.To >= granted.span.From {
			h.To = min(h.To, s.applied.From)
		}
	}
	return h, granted, h.From < h.To
}

// haunts reports that e never had its key, whatever its holder did under it: no look ever showed it, and two whole ones within the hold
// that is claimed showed another token, or none.
func (ix *Facts) haunts(k *keyIndex, e *epoch) bool {
	if len(e.looks) > 0 || len(k.looks) == 0 || ix.exp.Observed() || slices.ContainsFunc(e.effects, func(f *effect) bool { return f.Named == "self" }) {
		return false
	}
	h, c, ok := ix.hold(e)
	if !ok {
		return false
	}
	at, _ := slices.BinarySearchFunc(k.looks, h.From, func(s *stretch, t int64) int { return cmp.Compare(s.first.From, t) })
	n := 0
	for i := max(0, at-1); i < len(k.looks) && n < 2; i++ {
		s := k.looks[i]
		if i == 0 {
			n += ix.without(k, s.before(), h, c, true)
		}
		if s.first.From >= h.To {
			break
		}
		n += ix.without(k, shows{s.first, s.last()}, h, c, s.epoch == "")
	}
	return n >= 2
}

// shows are the first and the last of looks that showed the same.
type shows struct{ first, last history.Span }

// before are the looks that showed the key absent before the first that is recorded: that it was never there is no event.
func (s *stretch) before() shows {
	last := s.prev
	if s.epoch == "" && last.From == never {
		last = s.first
	}
	return shows{history.Span{From: never, To: never}, last}
}

// without counts the looks within h that surely showed the same as those of s: the two that are known, and those in between. A job's key that
// is absent is read by every look only for a while after it was asked for, which c did.
func (ix *Facts) without(k *keyIndex, s shows, h history.Span, c *call, absent bool) int {
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
	p := ix.probes[probeKeys]
	w, ok := h.Intersect(history.Span{From: s.first.From, To: s.last.To})
	if n >= 2 || p == nil || !ok {
		return n
	}
	if absent && !k.loop {
		every := int64(ix.exp.Probes.LockKeys.Every)
		if s.first.From > h.From || c.span.Width() > askedLooks/2*every {
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
func (c *coverage) looks(w history.Span) int {
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
func (ix *Facts) exorcise(k *keyIndex, e *epoch) {
	e.ghost = true
	e.life = lease{due: e.granted, end: history.At(e.granted.From), alive: e.granted.From, lost: true}
	ix.findAs(verdict.FindingGhost, "key "+k.name+": the probe never saw epoch "+e.id+", which "+e.replica+" claims to have held: looks meanwhile showed another token, or none", e.n)
	k.doubt(verdict.Lacking(verdict.MissingGrant, k.name, e.id, e.replica))
}
