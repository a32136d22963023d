package facts

import (
	"fmt"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Tally is a count that lies surely in [lo, hi].
type Tally struct{ Lo, Hi int }

// count adds one that surely, or perhaps, is to be counted.
func (t *Tally) count(surely, perhaps bool) {
	if surely {
		t.Lo++
	}
	if surely || perhaps {
		t.Hi++
	}
}

func (t Tally) Value() Value { return t.Belated(0) }

// Belated is t where a late machine may have made so many of those that are sure.
func (t Tally) Belated(n int) Value { return Value{Dur{int64(t.Lo), int64(t.Hi)}, int64(n)} }

// GiveUps is what became of one lock's epochs that were given up, or should have been.
type GiveUps struct {
	List                   []verdict.Abandonment
	Raw                    int
	Jeopardies             Tally
	Missed, Late, Needless Tally
	Worked                 int // epochs with work
	// Belated is how many of Raw a late machine may have made, and BelatedNeedless of the needless ones.
	Belated, BelatedNeedless int
	Evidence                 []int64
}

func (ix *Facts) GiveUpsOf(lock string) GiveUps {
	var g GiveUps
	for _, e := range ix.EpochsOf(lock) {
		if len(e.Works) == 0 {
			continue
		}
		g.Worked++
		if a, ok := ix.GiveUp(e); ok {
			g.add(a)
			if a.Reason == "" || !ix.belated(e) {
				continue
			}
			g.Belated++
			if a.Need == verdict.Needless {
				g.BelatedNeedless++
			}
		}
	}
	return g
}

func (g *GiveUps) add(a verdict.Abandonment) {
	g.List = append(g.List, a)
	g.Evidence = append(g.Evidence, a.Evidence...)
	given := a.Reason != ""
	if given {
		g.Raw++
	}
	unsure := a.Timing == verdict.Undetermined
	g.Late.count(a.Timing == verdict.Late, unsure && given)
	g.Missed.count(a.Timing == verdict.Missed, unsure && !given)
	g.Needless.count(a.Need == verdict.Needless, a.Need == verdict.Undetermined)
	g.Jeopardies.count(a.Timing == verdict.Late || a.Timing == verdict.Missed || a.Need == verdict.Needed || a.Timing == verdict.Timely && !given,
		unsure || a.Need == verdict.Undetermined)
}

// GiveUp judges one epoch: given up or not, in time or not, with need or not. ok is false where there is nothing to tell:
// not given up, and its work surely stopped before the lease ended. Past the lease's end counts what ran: pauses are taken off.
func (ix *Facts) GiveUp(e *Epoch) (verdict.Abandonment, bool) {
	given := e.Abandoned != nil && !ix.AfterRun(e.Abandoned)
	unowned := ix.UnownedWork(e)
	past := unowned.less(ix.grace(e, e.Lease.Freed))
	surely, maybe := past.Lo > 0, past.Hi > 0
	if paused := e.stop().From > e.Lease.Freed.To; !given && !maybe && !paused { // across a lease's end: in jeopardy, whatever came of it
		return verdict.Abandonment{}, false
	}
	a := verdict.Abandonment{Lock: e.Lock, Key: e.Key, Epoch: e.ID, Replica: e.Replica, Timing: verdict.Undetermined, Unowned: unowned.Range()}
	switch {
	case !maybe:
		a.Timing = verdict.Timely
	case surely && given:
		a.Timing = verdict.Late
	case surely:
		a.Timing = verdict.Missed
	}
	w := e.Works[len(e.Works)-1]
	evidence := []int64{w.N}
	if w.exited() {
		evidence = append(evidence, w.exit)
	}
	if given {
		a.Reason = e.Abandoned.Abandon.Reason
		a.Need = ix.need(e)
		evidence = append([]int64{e.Abandoned.N}, evidence...)
	}
	if l, ok := ix.FenceLag(e); ok {
		lag := l.Range()
		a.FenceLag = &lag
	}
	a.Evidence = Cite(evidence...)
	return a, true
}

// stop is when the last work of e ended.
func (e *Epoch) stop() history.Span {
	s := history.Span{}
	for _, w := range e.Works {
		s = later(s, w.End)
	}
	return s
}

// AfterRun reports what happened while the run was being taken down: it says nothing about the lock.
func (ix *Facts) AfterRun(ev *history.Event) bool { return ix.takenDown(ev.From) }

// takenDown reports that by t the final reads had begun.
func (ix *Facts) takenDown(t int64) bool {
	p := ix.Phases[history.PhaseFinal]
	return p != nil && t >= p.From
}

// need says whether e had to be given up: the key was gone, or what cut its client off lasted to the lease's end; needless if
// a renewal could still have been applied.
func (ix *Facts) need(e *Epoch) string {
	at := e.Abandoned.Span
	end := e.Lease.Freed
	if end.To <= at.From {
		return verdict.Needed
	}
	if e.Lease.gave != nil && !e.Lease.lost { // it was given back because it was given up: ask for the end it would have had
		end.To = e.Lease.Expires.To
		if !e.Lease.loss { // else the store may have forgotten it sooner
			end.From = e.Lease.Expires.From
		}
	}
	if s := ix.cutOff(e); s != nil {
		over := s.Over
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
	for _, c := range e.Renewals {
		failed = failed || c.Outcome != history.OK && c.Span.From <= at.To
	}
	if !failed || ix.reached(e.Replica, at.To, end.From) {
		return verdict.Needless
	}
	return verdict.Undetermined
}

// reached reports a call of the incarnation that the store surely answered within (from, to).
func (ix *Facts) reached(incarnation string, from, to int64) bool {
	for _, e := range ix.Epochs[incarnation] {
		for c := range e.calls() {
			if c.Outcome == history.OK && c.Span.From > from && c.Span.To < to {
				return true
			}
		}
	}
	return false
}

// FirstOf describes the first epoch that was missed, late or needless.
func (g GiveUps) FirstOf(name string) string {
	for _, a := range g.List {
		if a.Timing == name || a.Need == name {
			text := "Key " + a.Key + ", " + a.Replica
			if a.FenceLag != nil {
				text += fmt.Sprintf(": the work stopped %s after the validity end", figures.Short(figures.Nanoseconds(a.FenceLag.Lo)))
				switch {
				case a.Timing != verdict.Timely && a.FenceLag.Lo < 0: // a pause, or a key that was taken away
					text = fmt.Sprintf("Key %s, %s: the work went on for %s after the lease had ended", a.Key, a.Replica, figures.Short(figures.Nanoseconds(a.Unowned.Lo)))
				case a.FenceLag.Lo < 0:
					text = fmt.Sprintf("Key %s, %s: the work stopped %s before the validity end", a.Key, a.Replica, figures.Short(figures.Nanoseconds(-a.FenceLag.Lo)))
				}
			}
			return text
		}
	}
	return ""
}

// LossToFence is how long the holder of e relied on a key that had been taken from it before its time; ok is false where none was. A pause
// is taken off: who stands still can notice nothing.
func (ix *Facts) LossToFence(e *Epoch) (d Value, ok bool) {
	if e.Belief == nil || !e.Lease.lost || e.Stranger || e.Ghost || ix.takenDown(e.Lease.Freed.From) {
		return Value{}, false
	}
	from, end := e.Lease.Freed, e.Belief.End
	late := ix.lateness(from.From, max(end.From, from.To), ix.wayOf(ix.Keys[e.Key].Loop, e.Replica)...)
	return ix.Valued(ix.lessStanding(e, between(from, end), from.From, end.To), late), true
}

// lessStanding takes pauses of e's holder off a time between from and to.
func (ix *Facts) lessStanding(e *Epoch, d Dur, from, to int64) Dur {
	who, _ := ix.HolderOf(e)
	for _, p := range ix.Pauses[who] {
		d.Lo = max(0, d.Lo-common(p.Widest, history.Span{From: from, To: to}))
		if d.Hi != Open {
			d.Hi = max(d.Lo, d.Hi-common(p.Surest, history.Span{From: from, To: to}))
		}
	}
	return d
}

// Of words a count of n things: those that surely did it, and those that only may have.
func (t Tally) Of(n int, thing, did, may string) string {
	switch {
	case t.Lo == t.Hi:
		return fmt.Sprintf("%s of %s %s", figures.Count(t.Hi), figures.Plural(n, thing), did)
	case t.Lo == 0:
		return fmt.Sprintf("%s of %s %s", figures.Count(t.Hi), figures.Plural(n, thing), may)
	}
	return fmt.Sprintf("%s of %s %s and %s more %s", figures.Count(t.Lo), figures.Plural(n, thing), did, figures.Count(t.Hi-t.Lo), may)
}
