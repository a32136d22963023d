package facts

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// UnownedWork is how long e's holder worked past its lease end.
func (ix *Facts) UnownedWork(e *Epoch) Dur {
	if ix.Exp.Observed() {
		return ix.lateEffects(e)
	}
	end := e.Lease.Freed
	var sure, maybe []stretchOf
	for _, w := range e.Works {
		if e.stoppedToGive(w) {
			continue
		}
		sure = append(sure, stretchOf{max(w.Start.To, end.To), w.End.From, 0})
		maybe = append(maybe, stretchOf{max(w.Start.From, end.From), w.End.To, 0})
	}
	for _, p := range e.pauses {
		sure, maybe = cutOut(sure, p.Widest), cutOut(maybe, p.Surest)
	}
	return Dur{total(sure), total(maybe)}
}

// lateEffects is UnownedWork of a system that is not ours: up to the last effect that its holder wrote when its lease had ended. Effects that
// may be of another count from above.
func (ix *Facts) lateEffects(e *Epoch) (d Dur) {
	end := e.Lease.Freed
	if end.From == Open {
		return Dur{}
	}
	for _, f := range ix.Keys[e.Key].Effects {
		mine := f.Epoch == e && f.by != ""
		if !f.Fresh() || !mine && (f.by != "" && !f.unsure || !f.mayBeOf(e) || f.Span.To < e.Granted.From) {
			continue
		}
		surely, maybe := f.unowned()
		if mine && f.named() && surely {
			d.Lo = max(d.Lo, f.Span.From-end.To)
		}
		if !mine || maybe {
			d.Hi = max(d.Hi, f.Span.To-end.From)
		}
	}
	d.Hi = max(d.Lo, d.Hi)
	return ix.lessStanding(e, d, end.From, Plus(end.From, d.Hi))
}

// LastWork is the event of the last stretch of e's work, or, where nobody tells of work, of its last effect; 0 = there is none.
func (e *Epoch) LastWork() int64 {
	if n := len(e.Works); n > 0 {
		return e.Works[n-1].N
	}
	for _, f := range slices.Backward(e.Effects) {
		if f.Foreign {
			return f.N
		}
	}
	return 0
}

// stoppedToGive reports work that surely ended before its own holder gave the key back, and so ended the lease. One process tells of both,
// and first of what came first, so their order is known however little its clock is.
func (e *Epoch) stoppedToGive(w *Stint) bool {
	gave := e.Lease.gave
	return w.exited() && gave != nil && gave.Outcome == history.OK && !e.Lease.lost && !e.Lease.loss && gave.Source == w.by && w.exit < gave.told && w.End.To <= gave.Sent.To
}

// lag is fence_lag: work stop - validity end; negative is early. hi is open where the stop was not seen.
type lag struct {
	Dur
	N int64
}

// FenceLag is the worst lag of e's stretches of work; ok is false where e has none whose stop or validity is known.
func (ix *Facts) FenceLag(e *Epoch) (worst lag, ok bool) {
	for _, w := range e.Works {
		l, known := ix.lagOf(e, w)
		if !known {
			continue
		}
		if !ok {
			worst, ok = l, true
			continue
		}
		if l.Hi > worst.Hi {
			worst.N = l.N
		}
		worst.Dur = worst.Dur.Worst(l.Dur)
	}
	return worst, ok
}

// lagOf holds the end of one stretch of work against the validity that the client had by then. It is computed from the stamps of the calls.
func (ix *Facts) lagOf(e *Epoch, w *Stint) (lag, bool) {
	valid, known := ix.validUntil(e, w)
	if !known {
		return lag{}, false
	}
	l := lag{N: w.N, Dur: e.running(valid, w.End).less(ix.grace(e, valid))}
	if w.exited() {
		l.N = w.exit
	}
	return l, true
}

// validUntil is the end of the validity that the client had when a stretch of work ended: send time of the last success + TTL - drift. One
// process tells of both, so of a success and a stop that its clock does not tell apart, the one that was told first came first.
func (ix *Facts) validUntil(e *Epoch, w *Stint) (valid history.Span, known bool) {
	p := ix.policy(e.Lock)
	for _, c := range slices.Concat(e.Acquires, e.Renewals) {
		late := c.Span.To > w.End.To
		if w.exited() {
			late = c.n > w.exit && c.Span.To > w.End.From
		}
		if c.Outcome != history.OK || late {
			continue
		}
		valid, known = later(valid, c.Sent.Add(cmp.Or(c.ttl, int64(p.TTL))-int64(p.Drift))), true
	}
	return valid, known
}

// checkValidity holds what workers say of their own validity against the one that their calls give. Of each epoch it tells the worst.
func (ix *Facts) checkValidity() {
	for _, e := range ix.allEpochs() {
		var worst *Stint
		var shown, said int64
		for _, w := range e.Works {
			valid, known := ix.validUntil(e, w)
			if !known || !w.exited() || !w.hasValid {
				continue
			}
			if x := w.End.From - valid.To; worst == nil || x+w.valid > shown-said {
				worst, shown, said = w, x, -w.valid
			}
		}
		if worst != nil && said < shown-lagTolerance {
			ix.find(fmt.Sprintf("key %s: the holder of epoch %s says that it stopped %s before its validity end, but its calls show %s later",
				e.Key, e.ID, figures.Short(-said), figures.Short(shown-said)), worst.exit)
		}
	}
}

// lagTolerance is how far a worker's own validity may be from the one that its calls give before it counts as a contradiction.
const lagTolerance = int64(10e6)
