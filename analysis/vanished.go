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
			if ix.vanishings[e] = v; v.by == "" {
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
	if v.by, v.n = ix.actsAfter(e, l.end.To); v.by == "" {
		v.by, v.n = ix.believesAfter(k, e)
	}
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

// believesAfter is what the holder of e of somebody's own said of itself when its key had gone, "" = nothing that tells. A belief that was
// there when the key ended, and for longer afterwards than a release may be on its way, is no holder's who has just given the key back; one
// that may be about a later grant, or another key, tells nothing of this one.
func (ix *Facts) believesAfter(k *keyIndex, e *epoch) (what string, n int64) {
	gone := plus(e.life.end.To, ix.flight(ix.policy(k.lock).OpTimeout))
	until := int64(open)
	for _, o := range k.epochs { // it may lead again by then
		if o != e && o.granted.To > e.granted.To && (o.replica == "" || o.replica == e.replica) {
			until = min(until, o.granted.From)
		}
	}
	looker := ix.looker(k.lock)
	if _, blind := ix.probes[looker].blind(history.Span{From: e.life.end.From, To: gone}, ix.maxGap(looker)); blind {
		return "", 0
	}
	var last *history.Event // of what the replica said, as long as it says that it leads
	for _, ev := range ix.beliefs[k.lock] {
		b := ev.Belief
		if e.replica == "" || b.Incarnation != e.replica || ev.Key != k.name && (ev.Key != "" || !k.loop) {
			continue
		}
		if last != nil && last.To <= e.life.end.From && min(until, lastSaid(ev)) > gone {
			return "said that it led", last.N
		}
		switch {
		case !b.Holds:
			last = nil
		case last == nil:
			last = ev
		}
	}
	return "", 0
}

// lastSaid is the latest instant at which what was said before ev surely still was.
func lastSaid(ev *history.Event) int64 {
	switch b := ev.Belief; {
	case b.Direct, b.Holds:
		return ev.From
	case b.Prev != nil:
		return b.Prev.From
	}
	return never
}

// vanishedOf counts the keys of the lock that vanished: for sure, and those that may have been released.
func (ix *Facts) vanishedOf(lock string) (t tally, evidence []int64) {
	for _, e := range ix.epochsOf(lock) {
		v, ok := ix.vanishings[e]
		if !ok {
			continue
		}
		if t.hi++; v.by != "" {
			t.lo++
		}
		evidence = append(evidence, v.e.n, v.n)
	}
	return t, evidence
}

// keysVanished counts grants whose key ended before its lease, by nobody's release and no fault.
func keysVanished(j *judging, l *experiments.Limit) figure {
	t, evidence := j.ix.vanishedOf(l.Lock)
	f := figure{value: t.value(), evidence: evidence, lacks: fewJobs(j.dups[l.Lock].finished, l.MinJobs)}
	for _, e := range j.ix.epochsOf(l.Lock) {
		if !e.ghost && !e.stranger {
			f.n++
		}
	}
	f.saw = t.of(f.n, "grant", "lost its key before its lease was over", "may have lost its key before its lease was over")
	f.closer = "Let the holder's acts be seen: what it does under the lock after its key has gone tells a loss from a release. Effects tell it that carry the token (map.token)."
	if why, next := j.ix.exp.Untold(l.Lock, l.Measure); why != "" { // a stored run may ask what is refused
		f.unfit, f.next = capital(why), capital(next)
	}
	return f
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
