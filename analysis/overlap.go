package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
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
		o.hi = plus(o.hi, excess(maybe))
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
		if e.unfenced || e.ghost { // another primary, or none that can be relied on
			free = 0
		}
		var m, M []stretchOf
		for _, h := range hs {
			m = append(m, stretchOf{h.start.To, h.end.From, i})
			from := h.start.From
			if free <= h.start.To { // else the grant was before that release: nobody looks at the store
				from = max(from, free)
			}
			M = append(M, stretchOf{from, h.end.To, i})
		}
		if level == verdict.LevelWork {
			for _, p := range e.pauses {
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
			if x.fresh() && x.epoch.rank > 0 && !x.epoch.ghost && (top == nil || x.epoch.rank > top.rank) {
				top = x.epoch
			}
		}
	}
	return f
}

func (ix *Facts) countEffect(f *fencing, x *effect, top *epoch) {
	stale := top != nil && x.epoch.rank < top.rank
	// Of two holds by one token nobody knows which wrote, nor who wrote what only the key's holder at that time is told by.
	surely := stale && top.surelyAfter(x.epoch) && !x.epoch.reused && !top.reused && (!x.Foreign || x.named())
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
	switch {
	case f.Named == "self":
		return false, false
	case f.Named == "other", f.Named == "none", f.epoch.ghost:
		return true, true
	}
	if f.unsure { // its writer may have had the key again, between two looks
		return false, true
	}
	end := f.epoch.life.end
	if f.epoch.rank == 0 || end.From == open {
		return false, false
	}
	return f.span.From > end.To && !f.epoch.reused, f.span.To > end.From && !f.beforeRelease()
}

// beforeRelease reports that the epoch's key was given back no sooner than by a release that its holder sent when it had the answer to
// this write: the order of one process's doings holds, however wide its clock makes their brackets.
func (f *effect) beforeRelease() bool {
	gave := f.epoch.life.gave
	return gave != nil && f.claim.told() && f.claim.by == gave.source && f.claim.ret < gave.told && f.epoch.life.end.From >= gave.span.From
}

// stretchOf is a stretch of time in which holder held.
type stretchOf struct {
	from, to int64 // to is open where it never ended
	holder   int
}

// excess is the integral of max(0, holders - 1) over time, in ns: holder-seconds that mutual exclusion would not have allowed.
// It is open where two hold for ever. It is what all held, each for itself, less what was held at all; stretches of one holder
// may overlap one another without counting twice. O(n log n).
func excess(ss []stretchOf) int64 {
	ss = slices.DeleteFunc(slices.Clone(ss), func(s stretchOf) bool { return s.from >= s.to })
	var last int64 // from here on, at most one holds
	for _, s := range ss {
		last = max(last, s.from)
		if s.to != open {
			last = max(last, s.to)
		}
	}
	endless := -1
	for i, s := range ss {
		if s.to != open {
			continue
		}
		if endless >= 0 && endless != s.holder {
			return open
		}
		endless, ss[i].to = s.holder, last
	}
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(a.from, b.from)) })
	var each int64
	for i := 0; i < len(ss); {
		n := i + 1
		for n < len(ss) && ss[n].holder == ss[i].holder {
			n++
		}
		each += covered(ss[i:n])
		i = n
	}
	slices.SortFunc(ss, func(a, b stretchOf) int { return cmp.Compare(a.from, b.from) })
	return each - covered(ss)
}

// covered is how much time lies in at least one of the stretches, which are in the order of their beginnings.
func covered(ss []stretchOf) int64 {
	sum, until := int64(0), int64(math.MinInt64)
	for _, s := range ss {
		if from := max(s.from, until); s.to > from {
			sum += s.to - from
			until = s.to
		}
	}
	return sum
}

// collision finds two stretches of different holders at the same time. There is none iff the history of these epochs is
// linearizable to a mutex that knows its owner: each epoch can then be placed at its surely held stretch. O(n log n).
func collision(ss []stretchOf) (a, b int, found bool) {
	order := make([]int, len(ss))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(ss[i].from, ss[j].from), cmp.Compare(ss[i].to, ss[j].to))
	})
	last := -1 // the one that holds longest so far
	for _, i := range order {
		if ss[i].from > ss[i].to {
			continue
		}
		if last >= 0 && ss[i].from < ss[last].to && ss[i].holder != ss[last].holder {
			return last, i, true
		}
		if last < 0 || ss[i].to > ss[last].to {
			last = i
		}
	}
	return 0, 0, false
}

// overlapped is for how long more than one believed to hold the lock, or worked under it.
func overlapped(j *judging, l *experiments.Limit) figure {
	o := j.ix.timeOverlap(l.Lock, l.Part)
	f := figure{value: value{dur: o.dur}, n: o.n, evidence: o.evidence}
	if o.n == 0 {
		f.hi = open
	}
	if who := j.ix.unseenEnd(l.Lock); who != "" {
		f.closer = "Follow the pods' logs from before the kill, or use form: crash. Nobody saw the process of " + who + " end, so it may have gone on."
	}
	if l.Part == verdict.LevelBelief && j.paused(l.Lock) {
		f.unfit = "A holder was paused. No lock can keep a paused process from believing that it holds the lock, so overlap of belief is not judged."
		f.next = "Under a pause, judge overlap at level work or effect."
	}
	return f
}

// paused reports a pause that struck somebody who believed to hold the lock.
func (j *judging) paused(lock string) bool {
	for _, s := range j.ix.shots {
		if s.does.Stands == 0 || s.applied == nil {
			continue
		}
		for _, e := range s.mayHit(j.ix) {
			if b := e.belief; e.lock == lock && b != nil && b.start.From <= s.over.To && b.end.To >= s.applied.From {
				return true
			}
		}
	}
	return false
}

// fenced counts stale and unowned effects.
func fenced(j *judging, l *experiments.Limit) figure {
	x := j.fencings[l.Lock]
	f := figure{value: value{dur: x.dur}, n: x.n, evidence: x.evidence}
	f.saw = fmt.Sprintf("%s stale and %s unowned of %s", figures.Count(x.stale), figures.Count(x.unowned), figures.Plural(x.n, "effect"))
	if x.refused > 0 {
		f.saw += fmt.Sprintf("; the fence refused %d stale ones", x.refused)
	}
	if x.stale == 0 && x.unowned > 0 {
		f.next = "Renew more often, so that a lost lease is noticed sooner: no fence refuses a holder that is not yet superseded."
	}
	if f.unlessRead(j.ix); x.n == 0 {
		f.hi = open
	}
	f.refusedOwner(x)
	for _, k := range j.ix.keysOf(l.Lock) {
		if k.broken {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingOrder, k.name))
			break
		}
	}
	return f
}

// refusedOwner breaks the promise where the resource refused the one who rightfully held the lock: there the fence did not work.
func (f *figure) refusedOwner(x fencing) {
	if len(x.ownerRejected) == 0 {
		return
	}
	first := x.ownerRejected[0]
	f.broken = fmt.Sprintf("The ledger refused %s of the rightful owner, first of epoch %s with fence %d", figures.Plural(len(x.ownerRejected), "write"), first.epoch.id, first.fence)
	f.next = adviceOnFences
	for _, w := range x.ownerRejected {
		f.evidence = append(f.evidence, w.n)
	}
}
