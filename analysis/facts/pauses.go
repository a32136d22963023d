package facts

import (
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// Pause is a stretch in which a process surely or possibly stood still.
type Pause struct {
	Widest, Surest history.Span
}

// pauseOf is the stretch in which a pause kept the incarnation standing: surely only where it was confirmed, and perhaps where it was
// not, as when the victim died in it.
func (s *Shot) pauseOf(ix *Facts, incarnation string) (Pause, bool) {
	if s.Does.Stands == 0 || s.Applied == nil {
		return Pause{}, false
	}
	end := s.endIn(ix, incarnation)
	p := Pause{Widest: history.Span{From: s.Applied.From, To: end.To}, Surest: history.Span{From: s.Applied.To, To: end.From}}
	if s.confirmed != nil && s.confirmed.From > s.Applied.To { // it was seen to stand from here on
		p.Surest.From = s.confirmed.From
	}
	p.Surest.To = max(p.Surest.To, p.Surest.From)
	if !s.Effective() || s.Does.Stands < 1 { // of one that goes on in between nobody knows which instants were its
		p.Surest.To = p.Surest.From
	}
	return p, true
}

// takePausesOff says of each epoch which pauses its holder's doings are taken off by.
func (ix *Facts) takePausesOff() {
	for _, e := range ix.allEpochs() {
		for _, p := range ix.Pauses[e.Replica] {
			if f := ix.workedOn(e, p); f != nil {
				ix.find(f.where()+"was issued while "+e.Replica+", its writer, stood still: what went on was not stopped, so the pause excuses nothing of epoch "+e.ID, f.N, f.claim.invoked)
				continue
			}
			e.pauses = append(e.pauses, p)
		}
	}
}

// workedOn is an effect of e that was surely issued inside the pause, as by a child process that goes on; nil where there is none. What
// was on its way when its writer was stopped may be applied later.
func (ix *Facts) workedOn(e *Epoch, p Pause) *effect {
	for _, f := range e.Effects {
		if f.by == verdict.ByHolder { // that it is this replica's is taken for granted, and a pause is where it may not be
			continue
		}
		sent := f.Span.From - ix.flight(ix.policy(e.Lock).OpTimeout)
		if f.claim.entry == f {
			sent = max(sent, f.claim.sent)
		}
		if sent > p.Surest.From && f.Span.To < p.Surest.To {
			return f
		}
	}
	return nil
}

// running is how long e's holder ran between two instants: pauses are taken off, surely the widest, perhaps the surest only.
func (e *Epoch) running(from, to history.Span) Dur {
	d := Dur{to.From - from.To, Open}
	if to.To != Open {
		d.Hi = to.To - from.From
	}
	for _, p := range e.pauses {
		d.Lo -= common(p.Widest, history.Span{From: from.To, To: to.From})
		if d.Hi != Open {
			d.Hi -= common(p.Surest, history.Span{From: from.From, To: to.To})
		}
	}
	return d
}

// grace is how long e's holder may go on past end because it was paused: after a resume one stop budget is allowed, and however many
// pauses there were, one in all.
func (ix *Facts) grace(e *Epoch, end history.Span) Dur {
	budget := int64(ix.policy(e.Lock).StopBudget)
	allowed := func(resumed, end int64) int64 {
		if resumed == Open || end == Open {
			return budget
		}
		return min(budget, max(0, resumed+budget-end))
	}
	stop := e.stop()
	var g Dur
	for _, p := range e.pauses {
		if p.Widest.From < stop.To {
			g.Hi = max(g.Hi, allowed(p.Widest.To, end.From))
		}
		if p.Surest.Width() > 0 && p.Surest.From < stop.From {
			g.Lo = max(g.Lo, allowed(p.Surest.To, end.To))
		}
	}
	return g
}

// less takes off what is allowed.
func (d Dur) less(allowed Dur) Dur {
	d.Lo -= allowed.Hi
	if d.Hi != Open {
		d.Hi -= allowed.Lo
	}
	return d
}
