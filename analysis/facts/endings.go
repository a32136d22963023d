package facts

import "github.com/lockdrill/lockdrill/history"

// LeaseEnd is how a lease came to its end, as far as looks at its key tell.
type LeaseEnd string

// Ways in which a lease ends. What looks alone cannot tell apart has one name.
const (
	EndRanOut   LeaseEnd = "ran_out"              // it was over when the key was seen to be free, and the key had been seen until shortly before that
	EndEarly    LeaseEnd = "released_or_vanished" // the key was free before that
	EndTaken    LeaseEnd = "taken"                // another value stood there before that: a theft, or a release and a grant between two looks
	EndReleased LeaseEnd = "released"             // its holder said so: a Lease object shows it
	EndUnseen   LeaseEnd = "unseen"               // nobody looked when it was over: it may have been any of these
)

// LeaseEnds are all of them.
func LeaseEnds() []LeaseEnd {
	return []LeaseEnd{EndRanOut, EndEarly, EndTaken, EndReleased, EndUnseen}
}

// Ending is the end of a lease of an observed lock.
type Ending struct {
	How  LeaseEnd
	Held *Dur // nil = it began before anybody looked
	// Takeover is from the failure of the holder to the next grant to another value; nil where no lease ran out, or there was none. The
	// holder failed after it had extended its lease for the last time, and before that was over.
	Takeover *Dur
	// Residual and Pickup are its parts: until the lease was over, and from there to the grant.
	Residual, Pickup Dur
}

// EndingsOf are the ends of the leases of a lock that looks showed, key by key in their order.
func (ix *Facts) EndingsOf(lock string) (all []Ending) {
	for _, k := range ix.KeysOf(lock) {
		for i, e := range k.Epochs {
			if e.Stranger || e.Ghost || e.shownGone() == nil {
				continue
			}
			end := Ending{How: ix.endedBy(e)}
			if held, whole := ix.kept(e); whole {
				end.Held = &held
			}
			next := k.following(i)
			if failed := e.failed(); end.How == EndRanOut && next != nil && next.ID != e.ID && failed.From != never {
				grant := ix.firstAfter(k, e, next)
				takeover := between(failed, grant)
				end.Takeover, end.Residual, end.Pickup = &takeover, between(failed, e.Lease.Freed), between(e.Lease.Freed, grant)
			}
			all = append(all, end)
		}
	}
	return all
}

// endedBy tells how e's lease ended. A look no longer shows it.
func (ix *Facts) endedBy(e *Epoch) LeaseEnd {
	l, s := &e.Lease, e.shownLast()
	switch {
	case l.gave != nil:
		return EndReleased
	case l.lost && s.next.epoch != "":
		return EndTaken
	case l.lost:
		return EndEarly
	case !ix.OutlivesLease(e.Lock) && l.Expires.From-s.last().From > ix.MaxGap(ix.Looker(e.Lock)):
		return EndUnseen
	}
	return EndRanOut
}

// failed is when the holder of a lease that ran out failed: after its last extension, or the grant, and before the end. From is never where
// nobody saw that.
func (e *Epoch) failed() (at history.Span) {
	at.From, at.To = never, e.Lease.Expires.To
	for i, s := range e.Looks {
		if i == 0 || s.extended {
			at.From = s.prev.From
		}
	}
	return at
}

// freedUnseen is when e's key was freed by the looks at it, where nobody tells of releases: a release before the lease's end looks like that
// end, so the key may have been free from the last look on that showed it.
func (ix *Facts) freedUnseen(e *Epoch) history.Span {
	freed := e.Lease.Freed
	if ix.Exp.Observed() && e.shownGone() != nil && e.Lease.gave == nil && !ix.OutlivesLease(e.Lock) {
		freed.From = min(freed.From, max(e.shownLast().last().From, e.Granted.From))
	}
	return freed
}

// kept is for how long the key was e's by the looks at it. It is not whole where it began before anybody looked, or was not seen to end.
func (ix *Facts) kept(e *Epoch) (held Dur, whole bool) {
	freed := ix.freedUnseen(e)
	before := len(e.Looks) > 0 && e.Looks[0].prev.From == never
	return between(e.Granted, freed), !before && freed.To != Open && !ix.takenDown(e.Lease.Freed.From)
}
