package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// vanishing is a key that ended before its lease did: by no release that its holder is known to have sent, by no shot of ours, and not
// because its store lost or brought back data.
type vanishing struct {
	e    *epoch
	left dur // of the lease
	// by is what its holder did under it afterwards, and n the event that says so. Where nothing is known of that, and releases cannot be
	// seen, it may have been released.
	by string
	n  int64
}

// findVanished tells of the keys that vanished for sure.
func (ix *Facts) findVanished() {
	for _, k := range ix.keyOrder {
		for i, e := range k.epochs {
			v, ok := ix.vanishing(k, e)
			if !ok {
				continue
			}
			if ix.vanishings[k.lock] = append(ix.vanishings[k.lock], v); v.by == "" {
				continue
			}
			if next := k.following(i); next != nil && next.unexplained && ix.robbed(e, next) { // told already, with who took it
				continue
			}
			ix.findAs(verdict.FindingVanished, fmt.Sprintf("key %s vanished by %s with %s of its lease left: nobody is known to have released it, and its holder, %s, %s after that",
				k.name, figures.Clock(e.life.end.To), v.left, cmp.Or(ix.writer(e.replica), "of whom nothing is known"), v.by), e.n, v.n)
		}
	}
}

// vanishing says what is known of e's end; ok is false where it was none before its time.
func (ix *Facts) vanishing(k *keyIndex, e *epoch) (v vanishing, ok bool) {
	l := &e.life
	switch {
	case e.stranger, e.ghost, !l.lost, l.loss, l.gave != nil, !ix.exp.Leases(), ix.outlivesLease(k.lock), ix.takenFrom(e) != nil, ix.takenDown(l.end.From):
		return v, false
	case l.end.To >= l.due.From:
		return v, false
	}
	v = vanishing{e: e, left: between(l.end, l.due)}
	v.by, v.n = ix.actsAfter(e, l.end.To)
	return v, true
}

// actsAfter is what e's holder surely did, after t, that only one who relies on the key does; "" = nothing is known.
func (ix *Facts) actsAfter(e *epoch, t int64) (what string, n int64) {
	for _, c := range e.renewals {
		if c.sent.From > t {
			return "renewed it", c.n
		}
	}
	for _, f := range e.effects {
		if f.span.From > t && f.fresh() && (!f.Foreign || f.named()) {
			return "wrote", f.n
		}
	}
	if i := slices.IndexFunc(e.works, func(w *work) bool { return w.end.From > t }); i >= 0 {
		return "worked under it", e.works[i].n
	}
	if e.belief != nil && e.belief.end.From > t {
		return "relied on it", e.n
	}
	return "", 0
}

// vanishedOf counts the keys of the lock that vanished: for sure, and those that may have been released.
func (ix *Facts) vanishedOf(lock string) (t tally, evidence []int64) {
	for _, v := range ix.vanishings[lock] {
		if t.hi++; v.by != "" {
			t.lo++
		}
		evidence = append(evidence, v.e.n, v.n)
	}
	return t, evidence
}

// writer is how texts call an incarnation; "" = it has no name.
func (ix *Facts) writer(incarnation string) string {
	if incarnation == "" {
		return ""
	}
	w := verdict.TerminalWrite{Replica: incarnation, Called: ix.called[incarnation]}
	return w.Writer()
}

// equalFences finds effects of superseded holders that the resource accepted since the fence was the same as the present holder's.
func (ix *Facts) equalFences(k *keyIndex) {
	var top *effect // latest-granted epoch with an accepted effect so far
	told := map[[2]*epoch]bool{}
	for _, f := range k.effects {
		if !f.fresh() || f.epoch.rank == 0 || f.epoch.ghost || f.Foreign && !f.named() {
			continue
		}
		if top == nil || f.epoch.rank > top.epoch.rank {
			top = f
			continue
		}
		pair := [2]*epoch{f.epoch, top.epoch}
		if f.epoch == top.epoch || f.fence == 0 || f.fence != top.fence ||
			told[pair] || !top.before(f) || !top.epoch.surelyAfter(f.epoch) {
			continue
		}
		told[pair] = true
		ix.findAs(verdict.FindingEqualFence, fmt.Sprintf("key %s: the resource accepted a write of %s, which had been superseded by %s, since both carry fence %d",
			k.name, cmp.Or(ix.writer(f.epoch.replica), "a holder"), cmp.Or(ix.writer(top.epoch.replica), "another"), f.fence), f.n, top.n)
	}
}
