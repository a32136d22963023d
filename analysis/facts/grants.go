package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// An epoch is a grant, not a value. Where nobody claims, as of an observed system, the value of a key may be its holder's name: it comes
// back with that holder, under this key and under others. So a value that a look shows after another state of the key is of a new epoch;
// which of them an effect or a shot means, its time says. A replica that claims what it does promises a new token for each grant, and one
// of its tokens that comes back stays what it is: token reuse (seen).

// shown is the epoch of the state s that a look shows, after the state that last showed; nil where the key is absent. Where the value is
// a name, another life of that name may have taken the key between the two looks: a lease that it has extended is one of its own.
// So it is where a fault took the key meanwhile: anew.
func (k *Key) shown(s, last *keyState, look *history.Look, anew bool) *Epoch {
	value := s.epoch
	if value == "" {
		return nil
	}
	goesOn := last != nil && last.of != nil && last.epoch == value && !anew
	if goesOn {
		of := last.of
		if !s.extended || !of.namedByValue() || look.By != of.named || look.Holder == "" || of.Replica == "" || look.Holder == of.Replica {
			return of
		}
	}
	e := k.Find(value)
	if e == nil || e.looked {
		again := &Epoch{ID: value, Lock: k.Lock, Key: k.Name, goesOn: goesOn}
		if e != nil {
			again.nth = e.nth + 1
		}
		k.add(again)
		e = again
	}
	e.looked = true
	return e
}

// takenBefore reports that a fault of ours had taken the key, as was seen, between the look before s and s, which shows the same value: it
// was taken anew since, and s is told so. Each deletion is told once.
func (k *Key) takenBefore(s, last *keyState) bool {
	if k.taken == nil || s.First.From < k.taken.To { // a look that had begun may have seen it before
		return false
	}
	gone := k.taken.To
	k.taken = nil
	if last == nil || s.epoch == "" || s.epoch != last.epoch || s.prev.From >= gone {
		return false
	}
	last.again, last.againLeft = s.prev, s.prevLeft                   // it showed what was there before
	s.prev = history.Span{From: gone + 1, To: max(s.prev.To, gone+1)} // later than what the fault meant
	return true
}

// of is the epoch that a look shows; nil where it shows none.
func (k *Key) of(s *keyState) *Epoch {
	switch {
	case s.of != nil:
		return s.of
	case s.epoch == "":
		return nil
	}
	return k.Find(s.epoch)
}

// at is the epoch that somebody meant who named the value at that time: the last one of it that may have been granted by then, else the
// first; nil where there is none, or looks show that it was
// granted later, or gone by then: no look showed what was meant.
func (k *Key) at(value string, when history.Span) *Epoch {
	var meant *Epoch
	for _, e := range k.All {
		if e.ID == value && (meant == nil || e.Granted.From <= when.To) { // they stand in the order of their grants
			meant = e
		}
	}
	if meant != nil && meant.looked && (meant.Granted.From > when.To || meant.goneBefore(when)) {
		return nil
	}
	return meant
}

// meant is the epoch that the shot, which struck, found under k. One that a look still shows after the shot has taken the key is a later
// grant of its value.
func (s *Shot) meant(k *Key) *Epoch {
	struck := s.Struck()
	e := k.at(s.Epoch, struck.Span)
	if e == nil || len(e.Looks) == 0 || !s.Does.AtKey || !s.Effective() || e.shownLast().last().From < struck.To {
		return e
	}
	return cmp.Or(k.lastOf(e), e)
}

// foundUnseen is when grants of k that no look showed, and of which a shot of ours tells that found them, may have held it.
func (ix *Facts) foundUnseen(k *Key) (all []history.Span) {
	for _, s := range ix.Shots {
		if s.Key != k.Name || s.Epoch == "" || s.Applied == nil || s.meant(k) != nil {
			continue
		}
		found := history.Span{To: s.Applied.To}
		for _, l := range k.Looks {
			if l.First.From > s.Applied.From {
				if !s.Does.AtKey { // it kept the key until then, at most
					found.To = max(found.To, l.First.To)
				}
				break
			}
			found.From = max(l.First.From, min(l.last().From, s.Applied.From-ix.probeOf(ix.Looker(k.Lock)).largest))
		}
		all = append(all, found)
	}
	return all
}

// goneBefore reports that a look showed the key without e before w.
func (e *Epoch) goneBefore(w history.Span) bool {
	gone := e.shownGone()
	return gone != nil && gone.First.To < w.From
}

// lastOf is the grant of e's value before that of e; nil where there is none.
func (k *Key) lastOf(e *Epoch) *Epoch {
	i := slices.IndexFunc(k.All, func(o *Epoch) bool { return o.ID == e.ID && o.nth == e.nth-1 })
	if i < 0 {
		return nil
	}
	return k.All[i]
}

// rollBack finds a value that came back with an older state of the store: it reappears inside the bracket of a change of the store, and
// with no more of its lease than it had. That is the store's doing: nobody was granted it, and nobody is charged with it.
func (ix *Facts) rollBack(k *Key, e *Epoch, s *keyState) {
	before := k.lastOf(e)
	if before == nil || s.prev.From == never {
		return
	}
	back := history.Span{From: s.prev.From, To: s.First.To}
	if !ix.Exp.FreshTokens(k.Lock) && s.pttl+back.Width() >= int64(ix.policy(k.Lock).TTL) { // as a name that was granted it anew
		return
	}
	most := before.leaseShown() + history.Extension // what looks do not tell of
	// By one clock, a name with more of its lease than it had at last was granted anew.
	if gone := before.shownGone(); gone != nil && gone.prevLeft > 0 && !ix.FailsOver() && !ix.Exp.FreshTokens(k.Lock) {
		most = gone.prev.To + gone.prevLeft + pttlRounding
	}
	for i, l := range ix.losses {
		if _, in := l.Intersect(back); !in || s.pttl > 0 && s.First.From+s.pttl > most {
			continue
		}
		e.Stranger = true
		ix.findAs(verdict.FindingRolledBack, "key "+k.Name+": epoch "+e.ID+" came back at "+figures.Clock(s.First.From)+
			" after it had been gone, with the store's older state: nobody was granted it", s.n, ix.Incarnations[i].N)
		return
	}
}

// leaseShown is the latest end of e's lease that looks showed.
func (e *Epoch) leaseShown() int64 {
	end := int64(never)
	for _, s := range e.Looks {
		if s.pttl == -1 {
			return Open
		}
		end = max(end, s.First.To+s.pttl)
		if s.again.From != never {
			end = max(end, s.again.To+s.againLeft)
		}
	}
	return end
}

// nothingHides reports that no grant can lie hidden at the time of w: looks showed one holder's value before and after it, or a watch that
// tells every change showed none.
func (k *Key) nothingHides(w history.Span) bool {
	for _, s := range k.Looks {
		if s.First.To <= w.From && w.To <= s.last().From {
			return s.epoch != "" || s.next != nil && s.next.direct
		}
	}
	return false
}
