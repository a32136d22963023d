package analysis

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// How soon a holder notices what has happened to its lock, and how soon it is rid of it.

// lossToFence is how long the holder of e relied on a key that had been taken from it before its time; ok is false where none was. A pause
// is taken off: who stands still can notice nothing.
func (ix *Facts) lossToFence(e *epoch) (d dur, ok bool) {
	if e.belief == nil || !e.life.lost || e.stranger || e.ghost || ix.takenDown(e.life.end.From) {
		return dur{}, false
	}
	d = between(e.life.end, e.belief.end)
	return ix.lessStanding(e, d, e.life.end.From, e.belief.end.To), true
}

// lessStanding takes pauses of e's holder off a time between from and to.
func (ix *Facts) lessStanding(e *epoch, d dur, from, to int64) dur {
	for _, p := range ix.pauses[e.replica] {
		d.lo = max(0, d.lo-common(p.widest, history.Span{From: from, To: to}))
		if d.hi != open {
			d.hi = max(d.lo, d.hi-common(p.surest, history.Span{From: from, To: to}))
		}
	}
	return d
}

// lossesToFence is the longest of the lock.
func (j *judging) lossesToFence(lock string) measured {
	m := measured{measure: "loss_to_fence", unit: verdict.UnitSeconds, of: "loss",
		next: "take \"not yours\" for final, give up at once, and renew more often: a loss is noticed at the next renewal"}
	j.longest(lock, &m, j.ix.lossToFence, func(e *epoch, d dur) string {
		return fmt.Sprintf("key %s: the holder of epoch %s relied on it for %s after it had lost it", e.key, e.id, d)
	})
	m.saw = fmt.Sprintf("%s in all", figures.Plural(m.n, "loss"))
	m.missing = j.claimsMissing(lock)
	if m.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingLosses, lock))
	}
	return j.needFault(lock, m)
}

// longest gives m the longest of a time that epochs have.
func (j *judging) longest(lock string, m *measured, of func(*epoch) (dur, bool), says func(*epoch, dur) string) {
	for _, k := range j.ix.keysOf(lock) {
		for _, e := range k.epochs {
			d, ok := of(e)
			if !ok {
				continue
			}
			if m.n++; m.n == 1 || d.lo > m.lo || d.lo == m.lo && d.hi > m.hi {
				m.why, m.evidence = says(e, d), []int64{e.n}
			}
			m.lo, m.hi = max(m.lo, d.lo), max(m.hi, d.hi)
		}
	}
}

// blocked is how long after its work the worker of e was still giving the key back; ok is false where it did not.
func (ix *Facts) blocked(e *epoch) (d dur, ok bool) {
	if e.belief == nil || len(e.works) == 0 || len(e.releases) == 0 {
		return dur{}, false
	}
	o, _ := ix.doneWith(e)
	if o.start.To == open || ix.takenDown(o.start.From) {
		return dur{}, false
	}
	last := e.releases[len(e.releases)-1]
	end := history.Span{From: last.sent.From, To: open}
	if last.exited {
		end = last.answered
	} else if dead, died := ix.deaths[e.replica]; died {
		end = dead.Span
	}
	return ix.lessStanding(e, between(o.start, end), o.start.From, end.To), true
}

// blockedWorkers is the longest of the lock.
func (j *judging) blockedWorkers(lock string) measured {
	m := measured{measure: "blocked", unit: verdict.UnitSeconds, of: "release",
		next: "bound the release (release: {mode: bounded_retry, attempts: 2}), and leave the rest to the ttl"}
	j.longest(lock, &m, j.ix.blocked, func(e *epoch, d dur) string {
		return fmt.Sprintf("key %s: the worker of epoch %s did nothing else for %s than give it back, in %s", e.key, e.id, d, figures.Plural(len(e.releases), "try"))
	})
	m.saw = fmt.Sprintf("%s in all", figures.Plural(m.n, "release"))
	m.missing = j.garbled()
	if m.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingDoneHolders, lock))
	}
	return j.needFault(lock, m)
}

// renewedAfterWork finds holders that renewed a key that they had stopped working under, and relying on.
func (ix *Facts) renewedAfterWork(k *keyIndex) {
	for _, e := range k.epochs {
		if e.belief == nil || e.ghost || len(e.works) == 0 {
			continue
		}
		o, _ := ix.doneWith(e)
		done := max(o.start.To, e.belief.end.To)
		if o.cause != causeRenewed || done == open {
			continue
		}
		n := 0
		var evidence []int64
		for _, c := range e.renewals {
			if c.sent.From > done && c.said == history.OK {
				n++
				evidence = append(evidence, c.n)
			}
		}
		if n > 0 {
			ix.findAs(verdict.FindingRenewedAfterWork, fmt.Sprintf("key %s: epoch %s was renewed %s after its holder was done with it at %s",
				k.name, e.id, figures.Plural(n, "time"), figures.Clock(done)), evidence...)
		}
	}
}

// endless finds locks whose keys a look shows without an expiry: if such a holder dies, nobody ever gets its key.
func (ix *Facts) endless() {
	seen := map[string][]*stretch{}
	var locks []string
	for _, k := range ix.keyOrder {
		for _, s := range k.looks {
			if e := k.find(s.epoch); s.epoch == "" || s.pttl != -1 || e == nil || e.stranger || ix.outlivesLease(k.lock) {
				continue
			}
			if seen[k.lock] == nil {
				locks = append(locks, k.lock)
			}
			seen[k.lock] = append(seen[k.lock], s)
		}
	}
	for _, lock := range locks {
		var evidence []int64
		for _, s := range seen[lock] {
			evidence = append(evidence, s.n)
		}
		s := seen[lock][0]
		ix.findAs(verdict.FindingNoExpiry, fmt.Sprintf("lock %s: %s had no expiry, such as epoch %s at %s",
			lock, figures.Plural(len(evidence), "epoch"), s.epoch, figures.Clock(s.first.From)), evidence...)
	}
}
