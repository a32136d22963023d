package analysis

import (
	"cmp"
	"fmt"

	"github.com/lockdrill/lockdrill/experiments"
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

// lagOf holds the end of one stretch of work against the validity that the client had by then. It is computed from the stamps of the calls.
func (ix *Facts) lagOf(e *epoch, w *work) (lag, bool) {
	valid, known := ix.validUntil(e, w)
	if !known {
		return lag{}, false
	}
	l := lag{n: w.n, dur: e.running(valid, w.end).less(ix.grace(e, valid))}
	if w.exited() {
		l.n = w.exit
	}
	return l, true
}

// validUntil is the end of the validity that the client had when a stretch of work ended: send time of the last success + TTL - drift.
func (ix *Facts) validUntil(e *epoch, w *work) (valid history.Span, known bool) {
	p := ix.policy(e.lock)
	extend := func(c *call) {
		if c.outcome != history.OK || c.span.To > w.end.To {
			return
		}
		v := c.sent.Add(cmp.Or(c.ttl, int64(p.TTL)) - int64(p.Drift))
		valid = history.Span{From: max(valid.From, v.From), To: max(valid.To, v.To)}
		known = true
	}
	for _, c := range e.acquires {
		extend(c)
	}
	for _, c := range e.renewals {
		extend(c)
	}
	return valid, known
}

// checkValidity holds what workers say of their own validity against the one that their calls give. Of each epoch it tells the worst.
func (ix *Facts) checkValidity() {
	for _, e := range ix.allEpochs() {
		var worst *work
		var shown, said int64
		for _, w := range e.works {
			valid, known := ix.validUntil(e, w)
			if !known || !w.exited() || !w.hasValid {
				continue
			}
			if x := w.end.From - valid.To; worst == nil || x+w.valid > shown-said {
				worst, shown, said = w, x, -w.valid
			}
		}
		if worst != nil && said < shown-lagTolerance {
			ix.find(fmt.Sprintf("key %s: the holder of epoch %s says that it stopped %s before its validity end, but its calls show %s later",
				e.key, e.id, figures.Short(-said), figures.Short(shown-said)), worst.exit)
		}
	}
}

// lagTolerance is how far a worker's own validity may be from the one that its calls give before it counts as a contradiction.
const lagTolerance = int64(10e6)

// lagged is the worst lag of all stretches of work.
func lagged(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, e := range j.ix.epochsOf(l.Lock) {
		x, ok := j.ix.fenceLag(e)
		if !ok {
			continue
		}
		if f.n++; f.n == 1 {
			f.dur = x.dur
		}
		if x.hi >= f.hi {
			f.evidence = append([]int64{x.n}, f.evidence...)
		}
		f.dur = f.dur.worst(x.dur)
	}
	switch {
	case f.n == 0:
		f.hi = open
	case f.lo <= 0:
		f.saw = fmt.Sprintf("Work stopped at least %[2]s before the validity end, in %[1]s", figures.Plural(f.n, "epoch"), figures.Floor(-f.hi))
	}
	return f
}

// unownedWork is how long holders worked past the end of their lease, in all.
func unownedWork(j *judging, l *experiments.Limit) figure {
	var f figure
	for _, e := range j.ix.epochsOf(l.Lock) {
		if len(e.works) == 0 {
			continue
		}
		f.n++
		u := j.ix.unownedWork(e)
		if u.hi > 0 {
			f.evidence = append(f.evidence, e.works[len(e.works)-1].n)
		}
		f.dur = f.dur.add(u)
	}
	if f.n == 0 {
		f.hi = open
	}
	return f
}
