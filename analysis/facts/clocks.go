package facts

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Stamps that evidence contradicts. An incarnation whose claim lies outside of what a witness saw has a clock that is off, or tells of its
// calls too soon or too late. By how much the others of its claims are off nobody knows, so all of them are as uncertain as the worst.

// offClock is how far claims of one incarnation are off.
type offClock struct {
	by       int64 // ns that bring each claim together with all of what was seen
	apart    int64 // ns that lie at least between a claim and what was seen
	claims   int
	evidence []int64
}

// offClocks are those of incarnations.
type offClocks map[string]*offClock

// hold holds a claim against the bracket in which a witness saw the same thing to have come about; cited are the events of both.
func (o offClocks) hold(who string, claimed, seen history.Span, cited ...int64) {
	if _, meet := claimed.Intersect(seen); meet || who == "" {
		return
	}
	c := o[who]
	if c == nil {
		c = &offClock{}
		o[who] = c
	}
	apart := max(seen.From-claimed.To, claimed.From-seen.To)
	by := apart + seen.Width() // a smaller shift cannot be seen
	if claimed.To != Open {
		by += claimed.Width()
	}
	c.by, c.apart = max(c.by, by), max(c.apart, apart)
	c.claims++
	if len(c.evidence) < maxEvidence {
		c.evidence = append(c.evidence, cited...)
	}
}

// tellClocks finds the incarnations whose stamps evidence contradicts, and widens all that they claim.
func (ix *Facts) tellClocks() {
	off := offClocks{}
	for _, f := range ix.effects {
		if c := f.claim; c.invoked != 0 {
			off.hold(c.who, c.bracket(), f.Span, f.N, c.invoked)
		}
	}
	for _, k := range ix.KeyOrder {
		for _, e := range k.All {
			ix.tellClock(off, e)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(off)) {
		o := off[who]
		ix.findAs(verdict.FindingOutsideCall, fmt.Sprintf("%s: %s at least %s away from what the ledger and the probe saw. Its claims are trusted to %s only",
			who, figures.Plural(o.claims, "claim")+map[bool]string{true: " lies", false: " lie"}[o.claims == 1], figures.Short(o.apart), figures.Short(o.by)), o.evidence...)
	}
	if len(off) > 0 {
		ix.widen(off)
	}
}

// tellClock holds what was claimed of e's grant, by its holder and by those who were refused because of it, against the first look at it.
func (ix *Facts) tellClock(off offClocks, e *Epoch) {
	if len(e.Looks) == 0 || len(e.Acquires)+len(e.refusals) == 0 || ix.cameBack(e) {
		return
	}
	s := e.Looks[0]
	seen := history.Span{From: max(0, s.prev.From), To: s.First.To}
	asked := int64(Open) // a grant that is told may be that of an earlier call, whose answer was lost
	for _, c := range e.Acquires {
		if c.Outcome == history.Unknown {
			asked = min(asked, c.Span.From)
		}
	}
	for _, c := range e.Acquires {
		switch c.Outcome {
		case history.OK:
			off.hold(c.Source, history.Span{From: min(asked, c.Span.From), To: c.Span.To}, seen, c.n, s.n)
		case history.Unknown:
			off.hold(c.Source, history.Span{From: c.Span.From, To: Open}, seen, c.n, s.n)
		}
	}
	for _, c := range e.refusals {
		if c.Span.To < seen.From { // it was not there yet
			off.hold(c.Source, c.Span, seen, c.n, s.n)
		}
	}
}

// widen makes each claim of the incarnations as uncertain as their clocks are.
func (ix *Facts) widen(off offClocks) {
	by := func(who string) int64 {
		if o := off[who]; o != nil {
			return o.by
		}
		return 0
	}
	for _, k := range ix.KeyOrder {
		for _, e := range k.All {
			for c := range e.calls() {
				c.widen(by(c.Source))
			}
			for _, w := range e.Works {
				w.Start, w.End = wider(w.Start, by(e.Replica)), wider(w.End, by(e.Replica))
			}
			for _, ev := range []**history.Event{&e.fenced, &e.unowned, &e.Abandoned} {
				widenEvent(ev, by)
			}
		}
		for _, w := range k.waits {
			w.begin, w.end = wider(w.begin, by(w.source)), wider(w.end, by(w.source))
		}
	}
	for _, c := range ix.writes {
		d := by(c.who)
		c.sent, c.ended, c.takenAt = c.sent-d, c.ended+d, c.takenAt+d
	}
	for _, s := range ix.Shots {
		for i := range s.hits {
			widenEvent(&s.hits[i], by)
		}
		for who, end := range s.ends {
			w := wider(*end, by(who))
			s.ends[who] = &w
		}
	}
	for who := range off {
		ix.LastWord[who] -= by(who)
		if ready, known := ix.Ready[who]; known {
			ix.Ready[who] = ready + by(who)
		}
	}
}

// wider is s with d more on both sides.
func wider(s history.Span, d int64) history.Span {
	return history.Span{From: s.From - d, To: Plus(s.To, d)}
}

func (c *Call) widen(d int64) {
	c.Sent, c.Span, c.answered = wider(c.Sent, d), wider(c.Span, d), wider(c.answered, d)
}

// widenEvent replaces an event, which is the history's, by a wider one.
func widenEvent(ev **history.Event, by func(string) int64) {
	if *ev == nil || by((*ev).Source) == 0 {
		return
	}
	w := **ev
	w.Span = wider(w.Span, by(w.Source))
	*ev = &w
}
