package analysis

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// tally is a count that lies surely in [lo, hi].
type tally struct{ lo, hi int }

// giveUps is what became of one lock's epochs that were given up, or should have been.
type giveUps struct {
	list                   []verdict.Abandonment
	raw                    int
	jeopardies             tally
	missed, late, needless tally
	worked                 int // epochs with work
	evidence               []int64
}

func (ix *Facts) giveUpsOf(lock string) giveUps {
	var g giveUps
	for _, k := range ix.keysOf(lock) {
		for _, e := range k.epochs {
			if len(e.works) == 0 {
				continue
			}
			g.worked++
			if a, ok := ix.giveUp(e); ok {
				g.add(a)
			}
		}
	}
	return g
}

func (g *giveUps) add(a verdict.Abandonment) {
	g.list = append(g.list, a)
	g.evidence = append(g.evidence, a.Evidence...)
	given := a.Reason != ""
	if given {
		g.raw++
	}
	switch {
	case a.Timing == verdict.Late:
		g.late.lo, g.late.hi = g.late.lo+1, g.late.hi+1
	case a.Timing == verdict.Missed:
		g.missed.lo, g.missed.hi = g.missed.lo+1, g.missed.hi+1
	case a.Timing == verdict.Undetermined && given:
		g.late.hi++
	case a.Timing == verdict.Undetermined:
		g.missed.hi++
	}
	switch a.Need {
	case verdict.Needless:
		g.needless.lo, g.needless.hi = g.needless.lo+1, g.needless.hi+1
	case verdict.Undetermined:
		g.needless.hi++
	}
	switch {
	case a.Timing == verdict.Late || a.Timing == verdict.Missed || a.Need == verdict.Needed:
		g.jeopardies.lo, g.jeopardies.hi = g.jeopardies.lo+1, g.jeopardies.hi+1
	case a.Timing == verdict.Undetermined || a.Need == verdict.Undetermined:
		g.jeopardies.hi++
	}
}

// giveUp judges one epoch: given up or not, in time or not, with need or not. ok is false where there is nothing to tell:
// not given up, and its work surely stopped before the lease ended.
func (ix *Facts) giveUp(e *epoch) (verdict.Abandonment, bool) {
	stop := e.stop()
	end := e.life.end
	given := e.abandoned != nil && !ix.afterRun(e.abandoned)
	surely, maybe := stop.From > end.To, stop.To > end.From
	if !given && !maybe {
		return verdict.Abandonment{}, false
	}
	a := verdict.Abandonment{Lock: e.lock, Key: e.key, Epoch: e.id, Replica: e.replica, Timing: verdict.Undetermined, Unowned: ix.unownedWork(e).Range()}
	switch {
	case !maybe:
		a.Timing = verdict.Timely
	case surely && given:
		a.Timing = verdict.Late
	case surely:
		a.Timing = verdict.Missed
	}
	w := e.works[len(e.works)-1]
	evidence := []int64{w.n}
	if w.exited() {
		evidence = append(evidence, w.exit)
	}
	if given {
		a.Reason = e.abandoned.Abandon.Reason
		a.Need = ix.need(e)
		evidence = append([]int64{e.abandoned.N}, evidence...)
	}
	if l, ok := ix.fenceLag(e); ok {
		lag := lagRange(l)
		a.FenceLag = &lag
	}
	a.Evidence = cite(evidence...)
	return a, true
}

// stop is when the last work of e ended.
func (e *epoch) stop() history.Span {
	s := history.Span{}
	for _, w := range e.works {
		s = history.Span{From: max(s.From, w.end.From), To: max(s.To, w.end.To)}
	}
	return s
}

// afterRun reports what happened while the run was being taken down: it says nothing about the lock.
func (ix *Facts) afterRun(ev *history.Event) bool { return ix.takenDown(ev.From) }

// takenDown reports that by t the final reads had begun.
func (ix *Facts) takenDown(t int64) bool {
	p := ix.phases[history.PhaseFinal]
	return p != nil && t >= p.From
}

// need says whether e had to be given up: the key was gone, or what cut its client off lasted to the lease's end; needless if
// a renewal could still have been applied.
func (ix *Facts) need(e *epoch) string {
	at := e.abandoned.Span
	end := e.life.end
	if end.To <= at.From {
		return verdict.Needed
	}
	if e.life.gave != nil && !e.life.lost { // it was given back because it was given up: ask for the end it would have had
		end.To = e.life.due.To
		if !e.life.loss { // else the store may have forgotten it sooner
			end.From = e.life.due.From
		}
	}
	if s := ix.cutOff(e); s != nil {
		over := s.ended()
		switch {
		case over.From >= end.To:
			return verdict.Needed
		case over.To < end.From && at.To < end.From:
			return verdict.Needless
		}
		return verdict.Undetermined
	}
	if at.To >= end.From {
		return verdict.Undetermined
	}
	failed := false
	for _, c := range e.renewals {
		failed = failed || c.outcome != history.OK && c.span.From <= at.To
	}
	if !failed || ix.reached(e.replica, at.To, end.From) {
		return verdict.Needless
	}
	return verdict.Undetermined
}

// reached reports a call of the incarnation that the store surely answered within (from, to).
func (ix *Facts) reached(incarnation string, from, to int64) bool {
	for _, e := range ix.replicas[incarnation] {
		for _, cs := range [][]*call{e.acquires, e.renewals, e.releases} {
			for _, c := range cs {
				if c.outcome == history.OK && c.span.From > from && c.span.To < to {
					return true
				}
			}
		}
	}
	return false
}
