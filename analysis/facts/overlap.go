package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// overlap is mutual exclusion of one lock at one level.
type overlap struct {
	Dur            // excess holder-ns; effect: a count
	N              int
	Stale, Unowned int // effect: surely
	Undecided      int // lease: ends that may have been releases
	Evidence       []int64
	Who            string // belief of a system of somebody's own, and lease: the first who surely held beside another, a sentence
}

// TimeOverlap integrates excess holders over all keys of the lock: lo by what was surely held, hi by what was possibly held.
func (ix *Facts) TimeOverlap(lock, level string) overlap {
	if level == verdict.LevelBelief && ix.Exp.Observed() {
		return ix.beliefOverlap(lock)
	}
	var o overlap
	for _, k := range ix.KeysOf(lock) {
		sure, maybe, n := ix.holds(k, level)
		o.N += n
		o.Lo += excess(sure)
		o.Hi = Plus(o.Hi, excess(maybe))
		for _, ss := range [][]stretchOf{sure, maybe} {
			if a, b, found := collision(ss); found && len(o.Evidence) < maxEvidence {
				o.Evidence = Cite(append(o.Evidence, k.Epochs[ss[a].holder].N, k.Epochs[ss[b].holder].N)...)
			}
		}
	}
	if !ix.claimed[lock] { // a sampler cannot prove that nothing happened between its looks
		o.Hi = Open
	}
	return o
}

// holds lists what the epochs of k held at this level, surely and possibly, each epoch a holder by its place in k.epochs.
// An epoch that stopped and whose release was applied before the next grant cannot overlap it: the later one's possible
// beginning is put off to the earlier one's end.
func (ix *Facts) holds(k *Key, level string) (sure, maybe []stretchOf, n int) {
	var free int64 // the key was surely released by its last holder not before this; 0 = not known
	for i, e := range k.Epochs {
		hs := ix.heldAt(e, level)
		if len(hs) > 0 {
			n++
		}
		if e.unfenced || e.Ghost { // another primary, or none that can be relied on
			free = 0
		}
		var m, M []stretchOf
		for _, h := range hs {
			m = append(m, stretchOf{h.Start.To, h.End.From, i})
			from := h.Start.From
			if free <= h.Start.To { // else the grant was before that release: nobody looks at the store
				from = max(from, free)
			}
			M = append(M, stretchOf{from, h.End.To, i})
		}
		if level == verdict.LevelWork {
			for _, p := range e.pauses {
				m, M = cutOut(m, p.Widest), cutOut(M, p.Surest)
			}
		}
		sure, maybe = append(sure, m...), append(maybe, M...)
		if c := e.Lease.gave; c != nil && c.Outcome == history.OK && !e.unfenced && e.stoppedBefore(c) {
			for _, h := range hs {
				free = max(free, h.End.To)
			}
		}
	}
	return sure, maybe, n
}

// heldAt lists e's stretches at the level.
func (ix *Facts) heldAt(e *Epoch, level string) []held {
	if level == verdict.LevelBelief {
		if e.Belief == nil {
			return nil
		}
		return []held{*e.Belief}
	}
	var hs []held
	for _, w := range e.Works {
		hs = append(hs, held{w.Start, w.End})
	}
	return hs
}

// stoppedBefore reports that all of e's work had surely ended when the release was sent.
func (e *Epoch) stoppedBefore(c *Call) bool {
	return !slices.ContainsFunc(e.Works, func(w *Stint) bool { return !w.exited() || w.End.To > c.Sent.To })
}

// Fencing is what became of effects of epochs that had been superseded or had lost the key.
type Fencing struct {
	overlap
	MayBeStale    int // those that surely came too late, and those that may have
	StaleEvidence []int64
	Superseded    []int64 // all that surely came after one of a later holder
	Sure          []int64 // those that surely came too late; the evidence has also those that may have
	Undecided     int     // of an observed system: what may have been written by one who had the lock no more, or not yet
	Refused       int     // stale writes that the ledger refused: fencing worked
	OwnerRejected []*effect
}

// EffectOverlap counts accepted effects that were stale (after an effect of a later-granted epoch of the key) or unowned (after
// their epoch had lost the key). Order comes from the ledger, not from a clock.
func (ix *Facts) EffectOverlap(lock string) Fencing {
	var f Fencing
	begun := ix.lookedSince(lock)
	for _, k := range ix.KeysOf(lock) {
		var top *Epoch // latest-granted epoch with an accepted effect so far
		later := k.firstOfLater()
		for _, x := range k.Effects {
			if x.beforeLooks(begun) || x.isOffer() {
				continue
			}
			f.N++
			if x.Foreign {
				f.count(x, later)
				continue
			}
			ix.countEffect(&f, x, top)
			if x.Fresh() && x.Epoch.Rank > 0 && !x.Epoch.Ghost && (top == nil || x.Epoch.Rank > top.Rank) {
				top = x.Epoch
			}
		}
	}
	return f
}

func (ix *Facts) countEffect(f *Fencing, x *effect, top *Epoch) {
	stale := top != nil && x.Epoch.Rank < top.Rank
	// Of two holds by one token nobody knows which wrote, nor who wrote what only the key's holder at that time is told by.
	surely := stale && top.surelyAfter(x.Epoch) && !x.Epoch.reused && !top.reused
	if !x.Accepted {
		switch {
		case x.Reason != history.ReasonFenced:
		case stale:
			f.Refused++
		case (top == x.Epoch || top == nil || x.Epoch.surelyAfter(top)) && x.owned():
			f.OwnerRejected = append(f.OwnerRejected, x)
		}
		return
	}
	if !x.Fresh() {
		return
	}
	unowned, maybe := x.unowned()
	f.add(x, surely, stale, unowned, maybe)
}

// add counts an effect that is stale or unowned, surely or perhaps.
func (f *Fencing) add(x *effect, stale, mayBeStale, unowned, mayBeUnowned bool) {
	if stale {
		f.Stale++
		f.Superseded = append(f.Superseded, x.N)
	}
	if stale || mayBeStale {
		f.MayBeStale++
		f.StaleEvidence = Cite(append(f.StaleEvidence, x.N)...)
	}
	if unowned {
		f.Unowned++
	}
	switch {
	case stale || unowned:
		f.Lo, f.Hi = f.Lo+1, f.Hi+1
		f.Sure = Cite(append(f.Sure, x.N)...)
	case mayBeStale || mayBeUnowned:
		if f.Hi++; x.Foreign {
			f.Undecided++
		}
	default:
		return
	}
	f.Evidence = Cite(append(f.Evidence, x.N)...)
}

// count counts an effect of a system that is not ours: its source may not say in which order they came about, and it may not say whose it
// is. Then it may be of any holder that there had been by then, and late.
func (f *Fencing) count(x *effect, later func(rank int, named bool) *effect) {
	if !x.Fresh() {
		return
	}
	unowned, maybe := x.unowned()
	if !x.named() {
		other := later(1, false)
		f.add(x, false, other != nil && !x.before(other), unowned && x.by != "", true)
		return
	}
	first, sure := later(x.Epoch.Rank, false), later(x.Epoch.Rank, true)
	stale := sure != nil && sure.before(x) && sure.Epoch.surelyAfter(x.Epoch) && !x.Epoch.reused && !sure.Epoch.reused
	f.add(x, stale, first != nil && !x.before(first), unowned, maybe)
}

// firstOfLater finds the first effect of all epochs of a higher rank; of those alone that say whose they are, where named.
func (k *Key) firstOfLater() func(rank int, named bool) *effect {
	type first struct {
		rank       int
		any, named *effect
	}
	var firsts []first // by rank, each the first of its own and all higher ones
	for _, x := range k.Effects {
		if !x.Foreign {
			return nil
		}
		if x.Fresh() && x.Epoch.Rank > 0 && !x.Epoch.Ghost {
			i, found := slices.BinarySearchFunc(firsts, x.Epoch.Rank, func(f first, rank int) int { return cmp.Compare(f.rank, rank) })
			if !found {
				firsts = slices.Insert(firsts, i, first{rank: x.Epoch.Rank})
			}
			firsts[i].any = sooner(firsts[i].any, x)
			if x.named() {
				firsts[i].named = sooner(firsts[i].named, x)
			}
		}
	}
	for i := len(firsts) - 2; i >= 0; i-- {
		firsts[i].any, firsts[i].named = sooner(firsts[i].any, firsts[i+1].any), sooner(firsts[i].named, firsts[i+1].named)
	}
	return func(rank int, named bool) *effect {
		i, _ := slices.BinarySearchFunc(firsts, rank+1, func(f first, rank int) int { return cmp.Compare(f.rank, rank) })
		switch {
		case i == len(firsts):
			return nil
		case named:
			return firsts[i].named
		}
		return firsts[i].any
	}
}

// sooner is the one of two effects that came about first, as far as their source tells; nil = there is none.
func sooner(a, b *effect) *effect {
	if a == nil || b != nil && b.before(a) {
		return b
	}
	return a
}

// owned reports that the effect's epoch surely had its key when the ledger answered.
func (f *effect) owned() bool {
	switch f.Named {
	case "self":
		return true
	case "other", "none":
		return false
	}
	return f.Epoch.Rank > 0 && f.Span.From >= f.Epoch.Granted.From && f.Span.To <= f.Epoch.Lease.Freed.From
}

// lookedSince is when the keys of a lock had been looked at once, at the latest; 0 = nobody is known to have looked.
func (ix *Facts) lookedSince(lock string) int64 {
	at := int64(Open)
	for _, k := range ix.KeysOf(lock) {
		if len(k.Looks) > 0 && k.Looks[0].prev.From == never { // it was there already
			at = min(at, k.Looks[0].First.From)
		}
	}
	c := ix.Probes[ix.Looker(lock)]
	switch {
	case at != Open:
		return at
	case c == nil || len(c.windows) == 0:
		return 0
	}
	return c.windows[0].From + c.windows[0].largest
}

// beforeLooks reports an effect of somebody's own that may have come before anybody had looked at keys, and whose grant no look showed: it was
// over before the watch began, and nobody could have seen whether it was owned.
func (f *effect) beforeLooks(begun int64) bool {
	return f.Foreign && f.Span.From < begun && (f.Epoch == nil || len(f.Epoch.Looks) == 0)
}

// unowned reports whether the effect was applied after its epoch had lost the key: by whom the lock named at that moment, else
// by brackets.
func (f *effect) unowned() (surely, maybe bool) {
	switch {
	case f.Named == "self":
		return false, false
	case f.Named == "other", f.Named == "none", f.Epoch.Ghost:
		return true, true
	}
	if f.unsure { // its writer may have had the key again, between two looks
		return false, true
	}
	end := f.Epoch.Lease.Freed
	if f.Epoch.Rank == 0 || end.From == Open {
		return false, false
	}
	return f.Span.From > end.To && !f.Epoch.reused, f.Span.To > end.From && !f.beforeRelease() && !f.besideRelease()
}

// besideRelease reports an effect of a system that is not ours that may have come before its key was gone ahead of its lease's end. The end
// of a job, the release that follows it and the next grant lie between the same two looks, so nothing tells their order. What a later
// holder wrote before it is told by the order of the effects, however close. What a fault of ours took was not given back.
func (f *effect) besideRelease() bool {
	lease := &f.Epoch.Lease
	return f.Foreign && f.Span.From <= lease.Freed.To && lease.Freed.To < lease.Expires.From && !lease.loss && !lease.taken
}

// beforeRelease reports that the epoch's key was given back no sooner than by a release that its holder sent when it had the answer to
// this write: the order of one process's doings holds, however wide its clock makes their brackets.
func (f *effect) beforeRelease() bool {
	gave := f.Epoch.Lease.gave
	return gave != nil && f.claim.told() && f.claim.by == gave.Source && f.claim.ret < gave.told && f.Epoch.Lease.Freed.From >= gave.Span.From
}

// LeaseOverlap is for how long a key was somebody's while the lease of the one before him had not ended: surely where that one is known not
// to have given it back.
func (ix *Facts) LeaseOverlap(lock string) (o overlap) {
	for _, k := range ix.KeysOf(lock) {
		var last *Epoch
		for _, e := range k.Epochs {
			if !e.Ghost && !e.Stranger { // what came back with a store was granted to nobody
				ix.overlapped(&o, k, last, e)
				o.N, last = o.N+1, e
			}
		}
		if last != nil {
			ix.overlapped(&o, k, last, nil)
		}
		for _, s := range ix.Shots { // what it took nobody saw but it
			if s.Does.AtKey && s.Effective() && s.Key == k.Name && s.meant(k) == nil {
				o.Hi = Plus(o.Hi, ix.longestLease(k)+s.Applied.Width())
			}
		}
	}
	return o
}

// overlapped adds for how long the lease of e overlapped the grant of next. Where there is neither an e nor a next, one that no look showed may
// have been lost, or granted.
func (ix *Facts) overlapped(o *overlap, k *Key, e, next *Epoch) {
	lost := ix.mayBeLost(e, next)
	if e == nil || next == nil {
		ix.overlappedUnseen(o, k, e, next, lost)
		return
	}
	due, granted := e.Lease.Expires, next.Granted
	if len(lost) == 0 && (e.Lease.gave != nil || e.Lease.Freed.To >= due.From || !next.surelyAfter(e)) {
		return
	}
	hi := int64(0)
	for i, l := range lost { // until then it may have been renewed, and others may have come since, and been lost by the next
		from := l.From
		if i == len(lost)-1 {
			from = max(from, min(granted.From, ix.firstAfter(k, e, next).From))
		}
		hi = Plus(hi, max(0, Plus(l.To, ix.longestLease(k))-from))
	}
	if hi = max(hi, due.To-granted.From); hi <= 0 {
		return
	}
	what, n := ix.actsAfter(e, e.Lease.Freed.To)
	if what == "" {
		what, n = ix.believesAfter(k, e)
	}
	sure := (what != "" || ix.takenFrom(e) != nil) && !ix.cameBack(e) && e.Lease.gave == nil && e.Lease.Freed.To < due.From && next.surelyAfter(e)
	if !sure && len(lost) == 0 && ix.resigned(k, e) {
		return
	}
	if lo := max(0, due.From-granted.To); sure && lo > 0 {
		o.Lo += lo
		if o.Who == "" {
			o.Who = fmt.Sprintf("Key %s was granted to %s at %s, with %s left of the lease of %s", k.Name, cmp.Or(ix.Writer(next.Replica), "another"),
				figures.Clock(granted.To), figures.Short(lo), cmp.Or(ix.Writer(e.Replica), "the one before"))
		}
	} else if !sure {
		o.Undecided++
	}
	o.Hi = Plus(o.Hi, hi)
	o.Evidence = Cite(append(o.Evidence, e.N, next.N, n)...)
}

// overlappedUnseen adds for how long the lease of one that no look showed, before next, may have overlapped another's when the store had lost
// it, or that of e that of one. Whoever came between two losses, and was lost unseen, came after the last look before the second.
func (ix *Facts) overlappedUnseen(o *overlap, k *Key, e, next *Epoch, lost []history.Span) {
	for i, l := range lost {
		from := int64(Open)
		switch {
		case i < len(lost)-1:
			from = max(l.From, lost[i+1].From-ix.probeOf(ix.Looker(k.Lock)).largest)
		case next != nil:
			from = max(l.From, next.Granted.From)
		}
		if until := Plus(l.To, ix.longestLease(k)); until > from {
			o.Hi, o.Undecided = Plus(o.Hi, until-from), o.Undecided+1
			o.Evidence = Cite(append(o.Evidence, cmp.Or(e, next).N)...)
		}
	}
}

// mayBeLost are the times at which the store, or a fault of ours, may have taken the key from e, or from one that no look showed, before next
// was granted it.
func (ix *Facts) mayBeLost(e, next *Epoch) (lost []history.Span) {
	shown, until := int64(never), int64(Open)
	if e != nil {
		shown = e.Granted.From
		if s := e.shownLast(); s != nil {
			shown = s.last().From
		}
		if taken := ix.takenFrom(e); taken != nil {
			lost = append(lost, *taken)
		}
	}
	if next != nil {
		until = next.Granted.To
	}
	for _, l := range ix.losses {
		if l.To < shown || l.From > until {
			continue
		}
		lost = append(lost, l)
		for _, s := range ix.Shots { // two at once are seen as one
			if s.Class() == verdict.ClassStore && s.Effective() && s.Applied.From > lost[len(lost)-1].From && s.Applied.To < l.To {
				lost = append(lost, history.Span{From: s.Applied.From, To: l.To})
			}
		}
	}
	return lost
}

// longestLease is how long a lease of the key may last from when it was extended.
func (ix *Facts) longestLease(k *Key) int64 {
	longest := int64(ix.policy(k.Lock).TTL)
	for _, s := range k.Looks {
		longest = max(longest, s.pttl)
	}
	if longest == 0 || !ix.Exp.Leases() {
		return Open
	}
	return longest + ix.Cal.Expiry
}
