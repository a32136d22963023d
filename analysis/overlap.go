package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// overlap is mutual exclusion of one lock at one level.
type overlap struct {
	dur            // excess holder-ns; effect: a count
	n              int
	stale, unowned int // effect: surely
	evidence       []int64
}

// timeOverlap integrates excess holders over all keys of the lock: lo by what was surely held, hi by what was possibly held.
func (ix *Facts) timeOverlap(lock, level string) overlap {
	var o overlap
	for _, k := range ix.keysOf(lock) {
		sure, maybe, n := ix.holds(k, level)
		o.n += n
		o.lo += excess(sure)
		h := excess(maybe)
		if h == open || o.hi == open {
			o.hi = open
		} else {
			o.hi += h
		}
		for _, ss := range [][]stretchOf{sure, maybe} {
			if a, b, found := collision(ss); found && len(o.evidence) < maxEvidence {
				o.evidence = cite(append(o.evidence, k.epochs[ss[a].holder].n, k.epochs[ss[b].holder].n)...)
			}
		}
	}
	if !ix.claimed[lock] { // a sampler cannot prove that nothing happened between its looks
		o.hi = open
	}
	return o
}

// holds lists what the epochs of k held at this level, surely and possibly, each epoch a holder by its place in k.epochs.
// An epoch that stopped and whose release was applied before the next grant cannot overlap it: the later one's possible
// beginning is put off to the earlier one's end.
func (ix *Facts) holds(k *keyIndex, level string) (sure, maybe []stretchOf, n int) {
	var free int64 // the key was surely released by its last holder not before this; 0 = not known
	for i, e := range k.epochs {
		hs := ix.heldAt(e, level)
		if len(hs) > 0 {
			n++
		}
		if e.unfenced { // another primary, or none that can be relied on
			free = 0
		}
		var m, M []stretchOf
		for _, h := range hs {
			m = append(m, stretchOf{h.start.To, h.end.From, i})
			M = append(M, stretchOf{max(h.start.From, free), h.end.To, i})
		}
		if level == verdict.LevelWork {
			for _, p := range ix.pauses[e.replica] {
				m, M = cutOut(m, p.widest), cutOut(M, p.surest)
			}
		}
		sure, maybe = append(sure, m...), append(maybe, M...)
		if c := e.life.gave; c != nil && c.outcome == history.OK && !e.unfenced && e.stoppedBefore(c) {
			for _, h := range hs {
				free = max(free, h.end.To)
			}
		}
	}
	return sure, maybe, n
}

// heldAt lists e's stretches at the level.
func (ix *Facts) heldAt(e *epoch, level string) []held {
	if level == verdict.LevelBelief {
		if e.belief == nil {
			return nil
		}
		return []held{*e.belief}
	}
	var hs []held
	for _, w := range e.works {
		hs = append(hs, held{w.start, w.end})
	}
	return hs
}

// stoppedBefore reports that all of e's work had surely ended when the release was sent.
func (e *epoch) stoppedBefore(c *call) bool {
	return !slices.ContainsFunc(e.works, func(w *work) bool { return !w.exited() || w.end.To > c.sent.To })
}

// cutOut removes p from the stretches.
func cutOut(ss []stretchOf, p history.Span) []stretchOf {
	var out []stretchOf
	for _, s := range ss {
		if s.to <= p.From || s.from >= p.To {
			out = append(out, s)
			continue
		}
		if s.from < p.From {
			out = append(out, stretchOf{s.from, p.From, s.holder})
		}
		if s.to > p.To {
			out = append(out, stretchOf{p.To, s.to, s.holder})
		}
	}
	return out
}

// fencing is what became of effects of epochs that had been superseded or had lost the key.
type fencing struct {
	overlap
	refused       int // stale writes that the ledger refused: fencing worked
	ownerRejected []*effect
}

// effectOverlap counts accepted effects that were stale (after an effect of a later-granted epoch of the key) or unowned (after
// their epoch had lost the key). Order comes from the ledger, not from a clock.
func (ix *Facts) effectOverlap(lock string) fencing {
	var f fencing
	for _, k := range ix.keysOf(lock) {
		var top *epoch // latest-granted epoch with an accepted effect so far
		for _, x := range k.effects {
			f.n++
			ix.countEffect(&f, x, top)
			if x.fresh() && x.epoch.rank > 0 && (top == nil || x.epoch.rank > top.rank) {
				top = x.epoch
			}
		}
	}
	return f
}

func (ix *Facts) countEffect(f *fencing, x *effect, top *epoch) {
	stale := top != nil && x.epoch.rank < top.rank
	surely := stale && top.surelyAfter(x.epoch)
	if !x.Accepted {
		switch {
		case x.Reason != history.ReasonFenced:
		case stale:
			f.refused++
		case (top == x.epoch || top == nil || x.epoch.surelyAfter(top)) && x.owned():
			f.ownerRejected = append(f.ownerRejected, x)
		}
		return
	}
	if !x.fresh() {
		return
	}
	unowned, maybe := x.unowned()
	if surely {
		f.stale++
	}
	if unowned {
		f.unowned++
	}
	switch {
	case surely || unowned:
		f.lo, f.hi = f.lo+1, f.hi+1
		f.evidence = cite(append(f.evidence, x.n)...)
	case stale || maybe:
		f.hi++
		f.evidence = cite(append(f.evidence, x.n)...)
	}
}

// owned reports that the effect's epoch surely had its key when the ledger answered.
func (f *effect) owned() bool {
	switch f.Named {
	case "self":
		return true
	case "other", "none":
		return false
	}
	return f.epoch.rank > 0 && f.span.From >= f.epoch.granted.From && f.span.To <= f.epoch.life.end.From
}

// unowned reports whether the effect was applied after its epoch had lost the key: by whom the lock named at that moment, else
// by brackets.
func (f *effect) unowned() (surely, maybe bool) {
	switch f.Named {
	case "self":
		return false, false
	case "other", "none":
		return true, true
	}
	end := f.epoch.life.end
	if f.epoch.rank == 0 || end.From == open {
		return false, false
	}
	return f.span.From > end.To, f.span.To > end.From && !f.beforeRelease()
}

// beforeRelease reports that the epoch's key was given back no sooner than by a release that its holder sent when it had the answer to
// this write: the order of one process's doings holds, however wide its clock makes their brackets.
func (f *effect) beforeRelease() bool {
	gave := f.epoch.life.gave
	return gave != nil && f.told.n != 0 && f.told.by == gave.source && f.told.n < gave.told && f.epoch.life.end.From >= gave.span.From
}
