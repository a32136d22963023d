package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// vanishing is a key that ended before its lease did: by no release that its holder is known to have sent, by no shot of ours, and not
// because its store lost or brought back data.
type vanishing struct {
	e    *Epoch
	left Dur // of the lease
	// by is what its holder did under it afterwards, and n the event that says so. Where nothing is known of that, and releases cannot be
	// seen, it may have been released.
	by string
	n  int64
}

// findVanished tells of the keys that vanished for sure.
func (ix *Facts) findVanished() {
	for _, k := range ix.KeyOrder {
		for i, e := range k.Epochs {
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
				k.Name, figures.Clock(e.Lease.Freed.To), v.left, cmp.Or(ix.Writer(e.Replica), "of whom nothing is known"), v.by), e.N, v.n)
		}
	}
}

// vanishing says what is known of e's end; ok is false where it was none before its time.
func (ix *Facts) vanishing(k *Key, e *Epoch) (v vanishing, ok bool) {
	l := &e.Lease
	switch {
	case e.Stranger, e.Ghost, !l.lost, l.loss, l.gave != nil, !ix.Exp.Leases(), ix.OutlivesLease(k.Lock), ix.takenFrom(e) != nil, ix.takenDown(l.Freed.From):
		return v, false
	case l.Freed.To >= l.Expires.From:
		return v, false
	}
	v = vanishing{e: e, left: between(l.Freed, l.Expires)}
	if v.by, v.n = ix.actsAfter(e, l.Freed.To); v.by == "" {
		v.by, v.n = ix.believesAfter(k, e)
	}
	return v, true
}

// actsAfter is what e's holder surely did, after t, that only one who relies on the key does; "" = nothing is known.
func (ix *Facts) actsAfter(e *Epoch, t int64) (what string, n int64) {
	for _, c := range e.Renewals {
		if c.Sent.From > t {
			return "renewed it", c.n
		}
	}
	for _, f := range e.Effects {
		if f.Span.From > t && f.Fresh() && (!f.Foreign || f.named()) {
			return "wrote", f.N
		}
	}
	if i := slices.IndexFunc(e.Works, func(w *Stint) bool { return w.End.From > t }); i >= 0 {
		return "worked under it", e.Works[i].N
	}
	if e.Belief != nil && e.Belief.End.From > t {
		return "relied on it", e.N
	}
	return "", 0
}

// believesAfter is what the holder of e of somebody's own said of itself when its key had gone, "" = nothing that tells. A belief that was
// there when the key ended, and for longer afterwards than a release may be on its way, is no holder's who has just given the key back; one
// that may be about a later grant, or another key, tells nothing of this one.
func (ix *Facts) believesAfter(k *Key, e *Epoch) (what string, n int64) {
	gone := Plus(e.Lease.Freed.To, ix.flight(ix.policy(k.Lock).OpTimeout))
	until := int64(Open)
	for _, o := range k.Epochs { // it may lead again by then
		if o != e && o.Granted.To > e.Granted.To && (o.Replica == "" || o.Replica == e.Replica) {
			until = min(until, o.Granted.From)
		}
	}
	looker := ix.Looker(k.Lock)
	if _, blind := ix.Probes[looker].Blind(history.Span{From: e.Lease.Freed.From, To: gone}, ix.MaxGap(looker)); blind {
		return "", 0
	}
	var last *history.Event // of what the replica said, as long as it says that it leads
	for _, ev := range ix.beliefs[k.Lock] {
		b := ev.Belief
		if e.Replica == "" || b.Incarnation != e.Replica || ev.Key != k.Name && (ev.Key != "" || !k.Loop) {
			continue
		}
		if last != nil && last.To <= e.Lease.Freed.From && ix.stillSaid(k.Lock, last, gone, min(until, lastSaid(ev))) {
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

// stillSaid reports that the replica that has said by ev that it leads surely said so at some instant from gone to until: of a log, whose
// lines tell of each change, none was cut since; who is asked again and again was asked in between.
func (ix *Facts) stillSaid(lock string, ev *history.Event, gone, until int64) bool {
	probe := history.BeliefProbe(lock)
	if ev.Belief.Direct {
		return until > gone && !slices.ContainsFunc(ix.cutLines[probe], func(s history.Span) bool { return s.To >= ev.From && s.From <= until })
	}
	apart := ix.MaxGap(probe)
	if c := ix.Probes[probe]; c != nil {
		apart = c.largest
	}
	return until-gone > apart
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

// VanishedOf counts the keys of the lock that vanished: for sure, and those that may have been released.
func (ix *Facts) VanishedOf(lock string) (t Tally, evidence []int64) {
	for _, e := range ix.EpochsOf(lock) {
		v, ok := ix.vanishings[e]
		if !ok {
			continue
		}
		if t.Hi++; v.by != "" {
			t.Lo++
		}
		evidence = append(evidence, v.e.N, v.n)
	}
	return t, evidence
}

// Writer is how texts call an incarnation; "" = it has no name.
func (ix *Facts) Writer(incarnation string) string {
	if incarnation == "" {
		return ""
	}
	w := verdict.TerminalWrite{Replica: incarnation, Called: ix.Called[incarnation]}
	return w.Writer()
}

// equalFences finds effects of superseded holders that the resource accepted since the fence was the same as the present holder's.
func (ix *Facts) equalFences(k *Key) {
	var top *effect // latest-granted epoch with an accepted effect so far
	told := map[[2]*Epoch]bool{}
	for _, f := range k.Effects {
		if !f.Fresh() || f.Epoch.Rank == 0 || f.Epoch.Ghost || f.Foreign && !f.named() {
			continue
		}
		if top == nil || f.Epoch.Rank > top.Epoch.Rank {
			top = f
			continue
		}
		pair := [2]*Epoch{f.Epoch, top.Epoch}
		if f.Epoch == top.Epoch || f.Fence == 0 || f.Fence != top.Fence ||
			told[pair] || !top.before(f) || !top.Epoch.surelyAfter(f.Epoch) {
			continue
		}
		told[pair] = true
		ix.findAs(verdict.FindingEqualFence, fmt.Sprintf("key %s: the resource accepted a write of %s, which had been superseded by %s, since both carry fence %d",
			k.Name, cmp.Or(ix.Writer(f.Epoch.Replica), "a holder"), cmp.Or(ix.Writer(top.Epoch.Replica), "another"), f.Fence), f.N, top.N)
	}
}
