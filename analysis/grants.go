package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// An epoch is a grant, not a value. Where nobody claims, as of an observed system, the value of a key may be its holder's name: it comes
// back with that holder, under this key and under others. So a value that a look shows after another state of the key is of a new epoch;
// which of them an effect or a shot means, its time says. A replica that claims what it does promises a new token for each grant, and one
// of its tokens that comes back stays what it is: token reuse (seen).

// shown is the epoch of the state that a look shows, after the state that last showed; nil where the key is absent.
func (k *keyIndex) shown(value string, last *stretch) *epoch {
	if value == "" {
		return nil
	}
	if last != nil && last.of != nil && last.epoch == value {
		return last.of
	}
	e := k.find(value)
	if e == nil || e.looked {
		again := &epoch{id: value, lock: k.lock, key: k.name}
		if e != nil {
			again.nth = e.nth + 1
		}
		k.add(again)
		e = again
	}
	e.looked = true
	return e
}

// of is the epoch that a look shows; nil where it shows none.
func (k *keyIndex) of(s *stretch) *epoch {
	switch {
	case s.of != nil:
		return s.of
	case s.epoch == "":
		return nil
	}
	return k.find(s.epoch)
}

// at is the epoch that somebody meant who named the value at that time: the last one of it that may have been granted by then, else the
// first; nil where there is none.
func (k *keyIndex) at(value string, when history.Span) *epoch {
	var meant *epoch
	for _, e := range k.all {
		if e.id == value && (meant == nil || e.granted.From <= when.To) { // they stand in the order of their grants
			meant = e
		}
	}
	return meant
}

// lastOf is the grant of e's value before that of e; nil where there is none.
func (k *keyIndex) lastOf(e *epoch) *epoch {
	i := slices.IndexFunc(k.all, func(o *epoch) bool { return o.id == e.id && o.nth == e.nth-1 })
	if i < 0 {
		return nil
	}
	return k.all[i]
}

// rollBack finds a value that came back with an older state of the store: it reappears inside the bracket of a change of the store, and
// with no more of its lease than it had. That is the store's doing: nobody was granted it, and nobody is charged with it.
func (ix *Facts) rollBack(k *keyIndex, e *epoch, s *stretch) {
	before := k.lastOf(e)
	if before == nil || s.prev.From == never {
		return
	}
	back := history.Span{From: s.prev.From, To: s.first.To}
	for i, l := range ix.losses {
		if _, in := l.Intersect(back); !in || s.pttl > 0 && s.first.From+s.pttl > before.leaseShown()+history.Extension {
			continue
		}
		e.stranger, e.rolledBack = true, true
		ix.findAs(verdict.FindingRolledBack, "key "+k.name+": epoch "+e.id+" came back at "+figures.Clock(s.first.From)+
			" after it had been gone, with the store's older state: nobody was granted it", s.n, ix.lives[i].N)
		return
	}
}

// leaseShown is the latest end of e's lease that looks showed.
func (e *epoch) leaseShown() int64 {
	end := int64(never)
	for _, s := range e.looks {
		if s.pttl == -1 {
			return open
		}
		end = max(end, s.first.To+s.pttl)
		if s.again.From != never {
			end = max(end, s.again.To+s.againLeft)
		}
	}
	return end
}

// nothingHides reports that no grant can lie hidden at the time of w: looks showed one holder's value before and after it, or a watch that
// tells every change showed none.
func (k *keyIndex) nothingHides(w history.Span) bool {
	for _, s := range k.looks {
		if s.first.To <= w.From && w.To <= s.last().From {
			return s.epoch != "" || s.next != nil && s.next.direct
		}
	}
	return false
}
