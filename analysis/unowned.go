package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// unownedWork is how long e's holder worked past its lease end.
func (ix *Facts) unownedWork(e *epoch) dur {
	var d dur
	end := e.life.end
	var sure, maybe []stretchOf
	for _, w := range e.works {
		if e.stoppedToGive(w) {
			continue
		}
		sure = append(sure, stretchOf{max(w.start.To, end.To), w.end.From, 0})
		maybe = append(maybe, stretchOf{max(w.start.From, end.From), w.end.To, 0})
	}
	for _, p := range e.pauses {
		sure, maybe = cutOut(sure, p.widest), cutOut(maybe, p.surest)
	}
	for _, s := range sure {
		d.lo += max(0, s.to-s.from)
	}
	for _, s := range maybe {
		if s.from < s.to {
			if s.to == open {
				d.hi = open
				break
			}
			d.hi += s.to - s.from
		}
	}
	return d
}

// stoppedToGive reports work that surely ended before its own holder gave the key back, and so ended the lease. One process tells of both,
// and first of what came first, so their order is known however little its clock is.
func (e *epoch) stoppedToGive(w *work) bool {
	gave := e.life.gave
	return w.exited() && gave != nil && gave.outcome == history.OK && !e.life.lost && !e.life.loss && gave.source == w.by && w.exit < gave.told && w.end.To <= gave.sent.To
}

// lag is fence_lag: work stop - validity end; negative is early. hi is open where the stop was not seen.
type lag struct {
	dur
	n int64
}

// fenceLag is the worst lag of e's stretches of work; ok is false where e has none whose stop or validity is known.
func (ix *Facts) fenceLag(e *epoch) (worst lag, ok bool) {
	for _, w := range e.works {
		l, known := ix.lagOf(e, w)
		if !known {
			continue
		}
		if !ok {
			worst, ok = l, true
			continue
		}
		if l.hi > worst.hi {
			worst.n = l.n
		}
		worst.dur = worst.dur.worst(l.dur)
	}
	return worst, ok
}

// lagOf holds the end of one stretch of work against the validity that the client had by then: send time of the last success
// + TTL - drift. It is computed from the stamps of the calls; what the worker says of it itself is only compared.
func (ix *Facts) lagOf(e *epoch, w *work) (lag, bool) {
	p := ix.policy(e.lock)
	var valid history.Span
	known := false
	extend := func(c *call) {
		if c.outcome != history.OK || c.span.To > w.end.To {
			return
		}
		v := c.sent.Add(cmp.Or(c.ttl, int64(p.TTL)) - int64(p.Drift))
		valid = history.Span{From: max(valid.From, v.From), To: max(valid.To, v.To)}
		known = true
	}
	for _, c := range slices.Concat(e.acquires, e.renewals) {
		extend(c)
	}
	if !known {
		return lag{}, false
	}
	l := lag{n: w.n}
	if w.exited() {
		l.n = w.exit
		if shown, said := w.end.From-valid.To, -w.valid; w.hasValid && said < shown-lagTolerance {
			ix.find(fmt.Sprintf("key %s: the holder of epoch %s says that it stopped %s before its validity end, but its calls show %s later",
				e.key, e.id, figures.Short(-said), figures.Short(shown-said)), w.exit)
		}
	}
	l.dur = e.running(valid, w.end).less(ix.grace(e, valid))
	return l, true
}

// lagTolerance is how far a worker's own validity may be from the one that its calls give before it counts as a contradiction.
const lagTolerance = int64(10e6)

// fenceLag is the worst of all stretches of work.
func (j *judging) fenceLag(lock string) measured {
	m := measured{measure: "fence_lag", unit: verdict.UnitSeconds, of: "epoch", next: "Stop the work earlier: set the deadline to validity end - stop budget, with a stop budget that the work keeps."}
	for _, e := range j.ix.epochsOf(lock) {
		l, ok := j.ix.fenceLag(e)
		if !ok {
			continue
		}
		if m.n++; m.n == 1 {
			m.dur = l.dur
		}
		if l.hi >= m.hi {
			m.evidence = cite(append([]int64{l.n}, m.evidence...)...)
		}
		m.dur = m.dur.worst(l.dur)
	}
	switch {
	case m.n == 0:
		m.hi = open
		m.missing = []verdict.Missing{verdict.Lacking(verdict.MissingWorkEnds, lock)}
	case m.lo > 0:
		m.saw = fmt.Sprintf("Work went on past the validity end in %s, at worst for %s", figures.Plural(m.n, "epoch"), m.dur)
	default:
		m.saw = fmt.Sprintf("Work stopped at least %[2]s before the validity end, in %[1]s", figures.Plural(m.n, "epoch"), figures.Floor(-m.hi))
	}
	m.missing = slices.Concat(m.missing, j.garbled(), j.doubted(lock))
	return j.needFault(lock, m)
}

// unownedWork is seconds of work past lease end, in all.
func (j *judging) unownedWork(lock string) measured {
	m := measured{measure: "unowned_work", unit: verdict.UnitSeconds, of: "epoch", next: "Stop the work before the lease ends: use a policy with a deadline."}
	for _, e := range j.ix.epochsOf(lock) {
		if len(e.works) == 0 {
			continue
		}
		m.n++
		u := j.ix.unownedWork(e)
		if u.hi > 0 {
			m.evidence = append(m.evidence, e.works[len(e.works)-1].n)
		}
		m.dur = m.dur.add(u)
	}
	m.saw = fmt.Sprintf("Work went on for %s after the lease had ended, in %s", m.dur, figures.Plural(m.n, "epoch"))
	m.missing = slices.Concat(j.keysBlind(lock), j.garbled(), j.doubted(lock))
	if m.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingWork, lock))
	}
	return j.needFault(lock, m)
}
