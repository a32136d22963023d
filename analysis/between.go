package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Between any two looks, however close, grants may come and go. What is known from looks alone therefore begins no later than the last look
// before; claims of all who live say more, where they fill the stretch.

// firstAfter is the bracket of the first grant after e. That is the grant of next, where nothing can have come between.
func (ix *Facts) firstAfter(k *keyIndex, e, next *epoch) history.Span {
	g := next.granted
	if len(next.looks) == 0 || next.looks[0].direct {
		return g
	}
	since := min(g.From, e.life.end.From) // before that, the key was e's
	hidden := func(w history.Span) {
		if w.From < g.From && !ix.filled(k, w) {
			g.From = max(w.From, since)
		}
	}
	s := next.looks[0]
	if s.prev.From == never {
		hidden(history.Span{From: since, To: s.first.To})
	} else {
		hidden(history.Span{From: s.prev.From, To: s.first.To})
	}
	for _, w := range ix.probes[ix.looker(k.lock)].blinds(history.Span{From: since, To: g.To}, ix.maxGap(ix.looker(k.lock))) {
		hidden(w)
	}
	return g
}

// filled reports that claims tell of every grant of the key in w: nobody's were lost, nobody died in it, no look of the run showed a token
// that nobody claims, and each acquire that may have reached the store in it has an answer, or was seen to be granted.
func (ix *Facts) filled(k *keyIndex, w history.Span) bool {
	if !ix.announces(k.lock) || slices.ContainsFunc(k.epochs, func(e *epoch) bool { return e.unexplained }) {
		return false
	}
	for _, ev := range ix.exits {
		if ev.Replica.Bad > 0 || ev.Replica.Unheard > 0 {
			return false
		}
	}
	for _, d := range ix.deaths {
		if _, in := d.Intersect(w); in {
			return false
		}
	}
	flight := ix.flight(ix.policy(k.lock).Acquire.Timeout)
	return !slices.ContainsFunc(k.attempts, func(c *call) bool {
		if c.outcome != history.Unknown || k.find(c.epoch).sure {
			return false
		}
		_, may := c.applied(flight).Intersect(w)
		return may
	})
}
