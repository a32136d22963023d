package analysis

import "github.com/lockdrill/lockdrill/history"

// pause is a stretch in which a process surely or possibly stood still.
type pause struct {
	widest, surest history.Span
	partly         bool // it went on in between
}

// pauseOf is the stretch in which a pause kept the incarnation standing: surely only where it was confirmed, and perhaps where it was
// not, as when the victim died in it.
func (s *shot) pauseOf(ix *Facts, incarnation string) (pause, bool) {
	if s.does.Stands == 0 || s.applied == nil {
		return pause{}, false
	}
	end := s.endIn(ix, incarnation)
	p := pause{partly: s.does.Stands < 1, widest: history.Span{From: s.applied.From, To: end.To}, surest: history.Span{From: s.applied.To, To: end.From}}
	if s.confirmed != nil && s.confirmed.From > s.applied.To { // it was seen to stand from here on
		p.surest.From = s.confirmed.From
	}
	p.surest.To = max(p.surest.To, p.surest.From)
	if !s.effective() || s.does.Stands < 1 { // of one that goes on in between nobody knows which instants were its
		p.surest.To = p.surest.From
	}
	return p, true
}

// takePausesOff says of each epoch which pauses its holder's doings are taken off by.
func (ix *Facts) takePausesOff() {
	for _, k := range ix.keyOrder {
		for _, e := range k.epochs {
			for _, p := range ix.pauses[e.replica] {
				if f := ix.workedOn(e, p); f != nil {
					ix.find(f.where()+"was issued while "+e.replica+", its writer, stood still: what went on was not stopped, so the pause excuses nothing of epoch "+e.id, f.n, f.claim.invoked)
					continue
				}
				e.pauses = append(e.pauses, p)
			}
		}
	}
}

// workedOn is an effect of e that was surely issued inside the pause, as by a child process that goes on; nil where there is none. What
// was on its way when its writer was stopped may be applied later.
func (ix *Facts) workedOn(e *epoch, p pause) *effect {
	for _, f := range e.effects {
		sent := f.span.From - ix.flight(ix.policy(e.lock).OpTimeout)
		if f.claim.entry == f {
			sent = max(sent, f.claim.sent)
		}
		if sent > p.surest.From && f.span.To < p.surest.To {
			return f
		}
	}
	return nil
}

// running is how long e's holder ran between two instants: pauses are taken off, surely the widest, perhaps the surest only.
func (e *epoch) running(from, to history.Span) dur {
	d := dur{to.From - from.To, open}
	if to.To != open {
		d.hi = to.To - from.From
	}
	for _, p := range e.pauses {
		d.lo -= common(p.widest, history.Span{From: from.To, To: to.From})
		if d.hi != open {
			d.hi -= common(p.surest, history.Span{From: from.From, To: to.To})
		}
	}
	return d
}

// grace is how long e's holder may go on past end because it was paused: after a resume one stop budget is allowed, and however many
// pauses there were, one in all.
func (ix *Facts) grace(e *epoch, end history.Span) dur {
	budget := int64(ix.policy(e.lock).StopBudget)
	allowed := func(resumed, end int64) int64 {
		if resumed == open || end == open {
			return budget
		}
		return min(budget, max(0, resumed+budget-end))
	}
	stop := e.stop()
	var g dur
	for _, p := range e.pauses {
		if p.widest.From < stop.To {
			g.hi = max(g.hi, allowed(p.widest.To, end.From))
		}
		if p.surest.Width() > 0 && p.surest.From < stop.From {
			g.lo = max(g.lo, allowed(p.surest.To, end.To))
		}
	}
	return g
}

// less takes off what is allowed.
func (d dur) less(allowed dur) dur {
	d.lo -= allowed.hi
	if d.hi != open {
		d.hi -= allowed.lo
	}
	return d
}
