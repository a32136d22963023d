package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// regression is a fence that did not grow: the later grant carries a fence that an earlier one has reached.
type regression struct{ Early, Late *Epoch }

// order ranks the epochs of a key by grant: by fence, which the store minted in that order, until the store lost data or
// a fence went back; from there on by the brackets of the grants.
func (ix *Facts) order(k *Key) {
	for _, e := range k.byName() {
		ix.grant(k, e)
		if !e.sure {
			continue
		}
		k.Epochs = append(k.Epochs, e)
		if ix.haunts(k, e) {
			ix.exorcise(k, e)
		}
	}
	slices.SortFunc(k.Epochs, byGrant)
	k.Regressions = regressionsOf(k)
	trusted := fenceTrustedUntil(k, ix.losses)
	slices.SortStableFunc(k.Epochs, func(a, b *Epoch) int {
		return cmp.Or(cmp.Compare(segment(a, trusted), segment(b, trusted)), byGrant(a, b))
	})
	sortByFence(k.Epochs, trusted)
	for i, e := range k.Epochs {
		e.Rank = i + 1
		e.unfenced = segment(e, trusted) == 1
		k.Broken = k.Broken || e.unfenced
	}
}

func byGrant(a, b *Epoch) int {
	return cmp.Or(cmp.Compare(a.Granted.From, b.Granted.From), cmp.Compare(a.Granted.To, b.Granted.To),
		cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.ID, b.ID))
}

// regressionsOf finds the epochs whose fence is not above that of an epoch that was surely granted before.
// k.epochs is in the order of the beginnings of the grants.
func regressionsOf(k *Key) []regression {
	var out []regression
	byEnd := slices.Clone(k.Epochs)
	slices.SortFunc(byEnd, func(a, b *Epoch) int { return cmp.Compare(a.Granted.To, b.Granted.To) })
	var top *Epoch // highest fence among the surely earlier
	i := 0
	for _, e := range k.Epochs {
		for ; i < len(byEnd) && byEnd[i].Granted.To < e.Granted.From; i++ {
			if b := byEnd[i]; b.Fence != 0 && !b.Ghost && (top == nil || b.Fence > top.Fence) {
				top = b
			}
		}
		if top != nil && e.Fence != 0 && !e.Ghost && e.Fence <= top.Fence {
			out = append(out, regression{Early: top, Late: e})
		}
	}
	return out
}

// fenceTrustedUntil is the instant from which the fences of this key no longer give the order of its grants.
func fenceTrustedUntil(k *Key, losses []history.Span) int64 {
	t := int64(Open)
	for _, r := range k.Regressions {
		t = min(t, r.Late.Granted.From)
	}
	for _, l := range losses {
		t = min(t, l.From)
	}
	return t
}

// segment is 0 for an epoch granted while the fence order held, else 1.
func segment(e *Epoch, trusted int64) int {
	if e.Granted.To < trusted || e.Granted.From < trusted && e.Fence == 0 {
		return 0
	}
	return 1
}

// sortByFence puts the epochs of segment 0 into fence order. One whose fence is not known (its reply was lost) goes after those
// that were surely granted before it was last seen to hold the key.
func sortByFence(epochs []*Epoch, trusted int64) {
	n := 0
	for n < len(epochs) && segment(epochs[n], trusted) == 0 {
		n++
	}
	byEnd := only(epochs[:n], func(e *Epoch) bool { return e.Fence != 0 && !e.Ghost })
	slices.SortFunc(byEnd, func(a, b *Epoch) int { return cmp.Compare(a.Granted.To, b.Granted.To) })
	top := make([]int64, len(byEnd)+1) // top[i] is the highest fence among the first i
	for i, e := range byEnd {
		top[i+1] = max(top[i], e.Fence)
	}
	guess := map[*Epoch]int64{}
	for _, e := range epochs[:n] {
		if e.Fence == 0 {
			i, _ := slices.BinarySearchFunc(byEnd, e.sighted(), func(o *Epoch, t int64) int { return cmp.Compare(o.Granted.To, t+1) })
			guess[e] = top[i]
		}
	}
	slices.SortStableFunc(epochs[:n], func(a, b *Epoch) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.Fence, guess[a]), cmp.Or(b.Fence, guess[b])), cmp.Compare(guess[a], guess[b]))
	})
}

// sighted is the last instant at which somebody else saw e hold the key, or e made use of it.
func (e *Epoch) sighted() int64 {
	at := e.Granted.From
	for _, c := range e.refusals {
		at = max(at, c.Span.From)
	}
	for _, s := range e.Looks {
		at = max(at, s.First.From)
	}
	for _, c := range e.Renewals {
		if c.Outcome == history.OK {
			at = max(at, c.Span.From)
		}
	}
	return at
}

// surelyAfter reports whether a was granted after b, beyond doubt: by fence where fences hold, else by brackets that do not touch.
func (a *Epoch) surelyAfter(b *Epoch) bool {
	if a.unfenced || a.Fence == 0 || b.Fence == 0 {
		return b.Granted.Before(a.Granted)
	}
	return a.Rank > b.Rank
}

// Between any two looks, however close, grants may come and go. What is known from looks alone therefore begins no later than the last look
// before; claims of all who live say more, where they fill the stretch.

// firstAfter is the bracket of the first grant after e. That is the grant of next, where nothing can have come between.
func (ix *Facts) firstAfter(k *Key, e, next *Epoch) history.Span {
	g := next.Granted
	if len(next.Looks) > 0 && next.Looks[0].direct {
		return g
	}
	since := min(g.From, e.Lease.Freed.From) // before that, the key was e's
	hidden := func(w history.Span) {
		if w.From < g.From && !ix.filled(k, w) {
			g.From = max(w.From, since)
		}
	}
	switch {
	case len(next.Looks) == 0: // claimed, and no look showed it: the last look before is not known
		hidden(history.Span{From: g.From - ix.MaxGap(ix.Looker(k.Lock)), To: g.To})
	case next.Looks[0].prev.From == never:
		hidden(history.Span{From: since, To: next.Looks[0].First.To})
	default:
		hidden(history.Span{From: next.Looks[0].prev.From, To: next.Looks[0].First.To})
	}
	for _, w := range ix.Probes[ix.Looker(k.Lock)].Blinds(history.Span{From: since, To: g.To}, ix.MaxGap(ix.Looker(k.Lock))) {
		hidden(w)
	}
	return g
}

// filled reports that claims tell of every grant of the key in w: nobody's were lost, nobody died in it, no look of the run showed a token
// that nobody claims, and each acquire that may have reached the store in it has an answer, or was seen to be granted.
func (ix *Facts) filled(k *Key, w history.Span) bool {
	if !ix.announces(k.Lock) || slices.ContainsFunc(k.Epochs, func(e *Epoch) bool { return e.unexplained }) {
		return false
	}
	for _, ev := range ix.Exits {
		if ev.Replica.Bad > 0 || ev.Replica.Unheard > 0 {
			return false
		}
	}
	for _, d := range ix.Deaths {
		if _, in := d.Intersect(w); in {
			return false
		}
	}
	flight := ix.flight(ix.policy(k.Lock).Acquire.Timeout)
	return !slices.ContainsFunc(k.Attempts, func(c *Call) bool {
		if c.Outcome != history.Unknown || c.Of.sure {
			return false
		}
		_, may := c.applied(flight).Intersect(w)
		return may
	})
}
