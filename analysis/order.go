package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// regression is a fence that did not grow: the later grant carries a fence that an earlier one has reached.
type regression struct {
	key         string
	early, late *epoch
}

// order ranks the epochs of a key by grant: by fence, which the store minted in that order, until the store lost data or
// a fence went back; from there on by the brackets of the grants.
func (ix *Facts) order(k *keyIndex) {
	for _, e := range k.byName() {
		ix.grant(k, e)
		if !e.sure {
			continue
		}
		k.epochs = append(k.epochs, e)
		if ix.haunts(k, e) {
			ix.exorcise(k, e)
		}
	}
	slices.SortFunc(k.epochs, byGrant)
	k.regressions = regressionsOf(k)
	trusted := fenceTrustedUntil(k, ix.losses)
	slices.SortStableFunc(k.epochs, func(a, b *epoch) int {
		return cmp.Or(cmp.Compare(segment(a, trusted), segment(b, trusted)), byGrant(a, b))
	})
	sortByFence(k.epochs, trusted)
	for i, e := range k.epochs {
		e.rank = i + 1
		e.unfenced = segment(e, trusted) == 1
		k.broken = k.broken || e.unfenced
	}
}

func byGrant(a, b *epoch) int {
	return cmp.Or(cmp.Compare(a.granted.From, b.granted.From), cmp.Compare(a.granted.To, b.granted.To),
		cmp.Compare(a.fence, b.fence), cmp.Compare(a.id, b.id))
}

// regressionsOf finds the epochs whose fence is not above that of an epoch that was surely granted before.
// k.epochs is in the order of the beginnings of the grants.
func regressionsOf(k *keyIndex) []regression {
	var out []regression
	byEnd := slices.Clone(k.epochs)
	slices.SortFunc(byEnd, func(a, b *epoch) int { return cmp.Compare(a.granted.To, b.granted.To) })
	var top *epoch // highest fence among the surely earlier
	i := 0
	for _, e := range k.epochs {
		for ; i < len(byEnd) && byEnd[i].granted.To < e.granted.From; i++ {
			if b := byEnd[i]; b.fence != 0 && !b.ghost && (top == nil || b.fence > top.fence) {
				top = b
			}
		}
		if top != nil && e.fence != 0 && !e.ghost && e.fence <= top.fence {
			out = append(out, regression{key: k.name, early: top, late: e})
		}
	}
	return out
}

// fenceTrustedUntil is the instant from which the fences of this key no longer give the order of its grants.
func fenceTrustedUntil(k *keyIndex, losses []history.Span) int64 {
	t := int64(open)
	for _, r := range k.regressions {
		t = min(t, r.late.granted.From)
	}
	for _, l := range losses {
		t = min(t, l.From)
	}
	return t
}

// segment is 0 for an epoch granted while the fence order held, else 1.
func segment(e *epoch, trusted int64) int {
	if e.granted.To < trusted || e.granted.From < trusted && e.fence == 0 {
		return 0
	}
	return 1
}

// sortByFence puts the epochs of segment 0 into fence order. One whose fence is not known (its reply was lost) goes after those
// that were surely granted before it was last seen to hold the key.
func sortByFence(epochs []*epoch, trusted int64) {
	n := 0
	for n < len(epochs) && segment(epochs[n], trusted) == 0 {
		n++
	}
	byEnd := slices.DeleteFunc(slices.Clone(epochs[:n]), func(e *epoch) bool { return e.fence == 0 || e.ghost })
	slices.SortFunc(byEnd, func(a, b *epoch) int { return cmp.Compare(a.granted.To, b.granted.To) })
	top := make([]int64, len(byEnd)+1) // top[i] is the highest fence among the first i
	for i, e := range byEnd {
		top[i+1] = max(top[i], e.fence)
	}
	guess := map[*epoch]int64{}
	for _, e := range epochs[:n] {
		if e.fence == 0 {
			i, _ := slices.BinarySearchFunc(byEnd, e.sighted(), func(o *epoch, t int64) int { return cmp.Compare(o.granted.To, t+1) })
			guess[e] = top[i]
		}
	}
	slices.SortStableFunc(epochs[:n], func(a, b *epoch) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.fence, guess[a]), cmp.Or(b.fence, guess[b])), cmp.Compare(guess[a], guess[b]))
	})
}

// sighted is the last instant at which somebody else saw e hold the key, or e made use of it.
func (e *epoch) sighted() int64 {
	at := e.granted.From
	for _, c := range e.refusals {
		at = max(at, c.span.From)
	}
	for _, s := range e.looks {
		at = max(at, s.first.From)
	}
	for _, c := range e.renewals {
		if c.outcome == history.OK {
			at = max(at, c.span.From)
		}
	}
	return at
}

// surelyAfter reports whether a was granted after b, beyond doubt: by fence where fences hold, else by brackets that do not touch.
func (a *epoch) surelyAfter(b *epoch) bool {
	if a.unfenced || a.fence == 0 || b.fence == 0 {
		return b.granted.Before(a.granted)
	}
	return a.rank > b.rank
}

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

// regressed counts fences that did not grow.
func regressed(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, k := range j.ix.keysOf(l.Lock) {
		f.lo += int64(len(k.regressions))
		for _, r := range k.regressions {
			f.evidence = append(f.evidence, r.late.n, r.early.n)
			if f.why == "" {
				f.why = fmt.Sprintf("Key %s: epoch %s was granted fence %d after epoch %s had %d", k.name, r.late.id, r.late.fence, r.early.id, r.early.fence)
			}
		}
		for _, e := range k.epochs {
			if e.fence != 0 {
				f.n++
			}
		}
	}
	f.saw = fmt.Sprintf("%s in %s", figures.Plural(f.lo, "fence regression"), figures.Plural(f.n, "grant"))
	if f.hi = f.lo; f.n < 2 {
		f.hi = open
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingFences, l.Lock)}
	}
	f.refusedOwner(j.fencings[l.Lock])
	return f
}
