package analysis

import (
	"fmt"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// tally is a count that lies surely in [lo, hi].
type tally struct{ lo, hi int }

// count adds one that surely, or perhaps, is to be counted.
func (t *tally) count(surely, perhaps bool) {
	if surely {
		t.lo++
	}
	if surely || perhaps {
		t.hi++
	}
}

func (t tally) value() value { return value{dur: dur{int64(t.lo), int64(t.hi)}} }

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
	for _, e := range ix.epochsOf(lock) {
		if len(e.works) == 0 {
			continue
		}
		g.worked++
		if a, ok := ix.giveUp(e); ok {
			g.add(a)
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
	unsure := a.Timing == verdict.Undetermined
	g.late.count(a.Timing == verdict.Late, unsure && given)
	g.missed.count(a.Timing == verdict.Missed, unsure && !given)
	g.needless.count(a.Need == verdict.Needless, a.Need == verdict.Undetermined)
	g.jeopardies.count(a.Timing == verdict.Late || a.Timing == verdict.Missed || a.Need == verdict.Needed || a.Timing == verdict.Timely && !given,
		unsure || a.Need == verdict.Undetermined)
}

// giveUp judges one epoch: given up or not, in time or not, with need or not. ok is false where there is nothing to tell:
// not given up, and its work surely stopped before the lease ended. Past the lease's end counts what ran: pauses are taken off.
func (ix *Facts) giveUp(e *epoch) (verdict.Abandonment, bool) {
	given := e.abandoned != nil && !ix.afterRun(e.abandoned)
	unowned := ix.unownedWork(e)
	past := unowned.less(ix.grace(e, e.life.end))
	surely, maybe := past.lo > 0, past.hi > 0
	if paused := e.stop().From > e.life.end.To; !given && !maybe && !paused { // across a lease's end: in jeopardy, whatever came of it
		return verdict.Abandonment{}, false
	}
	a := verdict.Abandonment{Lock: e.lock, Key: e.key, Epoch: e.id, Replica: e.replica, Timing: verdict.Undetermined, Unowned: unowned.Range()}
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
		lag := l.Range()
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
		over := s.over
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
		for c := range e.calls() {
			if c.outcome == history.OK && c.span.From > from && c.span.To < to {
				return true
			}
		}
	}
	return false
}

// reasons counts abandonments by their reason: "count 3, deadline 1".
func reasons(as []verdict.Abandonment) string {
	n := map[string]int{}
	for _, a := range as {
		n[a.Reason]++
	}
	var parts []string
	for _, r := range []string{"count", "deadline", "not_owned", "context"} {
		if n[r] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, n[r]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "By reason: " + strings.Join(parts, ", ")
}

// firstOf describes the first epoch that was missed, late or needless.
func (g giveUps) firstOf(name string) string {
	for _, a := range g.list {
		if a.Timing == name || a.Need == name {
			text := "Key " + a.Key + ", epoch " + a.Epoch
			if a.FenceLag != nil {
				text += fmt.Sprintf(": the work stopped %s after the validity end", figures.Short(figures.Nanoseconds(a.FenceLag.Lo)))
				switch {
				case a.Timing != verdict.Timely && a.FenceLag.Lo < 0: // a pause, or a key that was taken away
					text = fmt.Sprintf("Key %s, epoch %s: the work went on for %s after the lease had ended", a.Key, a.Epoch, figures.Short(figures.Nanoseconds(a.Unowned.Lo)))
				case a.FenceLag.Lo < 0:
					text = fmt.Sprintf("Key %s, epoch %s: the work stopped %s before the validity end", a.Key, a.Epoch, figures.Short(figures.Nanoseconds(-a.FenceLag.Lo)))
				}
			}
			return text
		}
	}
	return ""
}

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

// abandoned is how often a lock was given up, whatever the reason.
func abandoned(j *judging, l *experiments.Limit) figure {
	g := j.giveups[l.Lock]
	return figure{value: tally{g.raw, g.raw}.value(), n: g.worked, evidence: g.evidence, hints: hints{why: reasons(g.list)}}
}

// gaveUp counts the epochs that were given up too late, without need, or not at all.
func gaveUp(j *judging, l *experiments.Limit) figure {
	g := j.giveups[l.Lock]
	t := map[string]tally{verdict.Missed: g.missed, verdict.Late: g.late, verdict.Needless: g.needless}[l.Part]
	saw := fmt.Sprintf("%s, with %s in jeopardy", figures.Plural(t.lo, l.Part+" abandonment"), figures.Plural(g.jeopardies.lo, "epoch"))
	return figure{value: t.value(), n: g.jeopardies.lo, evidence: g.evidence, hints: hints{saw: saw, why: g.firstOf(l.Part)}}
}

// longest is the longest of a time that epochs have.
func longest(of func(*Facts, *epoch) (dur, bool)) func(*judging, *experiments.Limit) figure {
	return func(j *judging, l *experiments.Limit) figure {
		var f figure
		for _, e := range j.ix.epochsOf(l.Lock) {
			d, ok := of(j.ix, e)
			if !ok {
				continue
			}
			if f.n++; f.n == 1 || d.lo > f.lo || d.lo == f.lo && d.hi > f.hi {
				f.evidence, f.why = []int64{e.n}, epochTook(e, d)
			}
			f.dur = f.dur.worst(d)
		}
		if f.n == 0 {
			f.hi = open
		}
		return f
	}
}
