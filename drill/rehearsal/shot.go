package rehearsal

import (
	"errors"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// shot is one fault from its firing to its end, as the runner and the injectors make it.
type shot struct {
	*drill
	f       *experiments.Fault
	e       history.Event // what all its events have in common
	intent  history.Span
	began   int64
	applied history.Span
	undo    func() // ends the effect; nil = nothing is left to end
	done    bool   // confirmed or void
	onExit  func() // a replica has died; nil = it does not matter
}

// fire resolves the victim at the store, now, and lets the fault take its course.
func (d *drill) fire(f *conductor.Fire) {
	s := &shot{drill: d, f: f.Fault, e: f.Event()}
	why, detail := d.c.Resolve(f, &s.e, func() (string, bool, error) {
		if !d.w.Answers() {
			return "", false, errors.New("the store does not answer")
		}
		epoch, held := d.w.Holder(f.Key)
		return epoch, held, nil
	})
	s.record(history.FaultResolve, func(b *history.Fault) { b.Detail = detail })
	if why != "" {
		s.void(why, detail)
		return
	}
	s.record(history.FaultIntent, nil)
	s.intent, s.began = history.At(d.w.Now()), d.w.Now()
	d.live = append(d.live, s)
	way, _ := simulationOf(fault.Of(s.f.Spec))
	way.do(s)
}

// record records an event of the shot at this instant.
func (s *shot) record(k history.Kind, edit func(*history.Fault)) {
	s.recordAt(k, history.At(s.w.Now()), edit)
}

func (s *shot) recordAt(k history.Kind, at history.Span, edit func(*history.Fault)) {
	e := s.e
	body := *s.e.Fault
	if edit != nil {
		edit(&body)
	}
	e.Kind, e.Span, e.Source, e.Fault = k, at, source, &body
	s.w.Say(e)
}

// apply does it, in the middle of a bracket; do says why it cannot be done, or "".
func (s *shot) apply(takes time.Duration, do func() string, then func()) {
	from := s.w.Now()
	s.w.After(takes/2, func() {
		if why := do(); why != "" {
			s.void(history.Moved, why)
			s.revert()
			return
		}
		s.w.After(takes-takes/2, func() {
			s.applied = history.Span{From: from, To: s.w.Now()}
			s.recordAt(history.FaultApplied, s.applied, nil)
			then()
		})
	})
}

// confirm says that the fault took effect, and ends it when its time is up.
func (s *shot) confirm(window history.Span, saw history.Fault) {
	if s.done || s.over {
		return
	}
	s.done = true
	s.recordAt(history.FaultConfirmed, window, func(b *history.Fault) {
		b.Hits, b.Baseline, b.Expected, b.Observed, b.Detail, b.Death = saw.Hits, saw.Baseline, saw.Expected, saw.Observed, saw.Detail, saw.Death
	})
	left := s.began + int64(s.f.For) - s.w.Now()
	if s.f.For <= 0 || left <= 0 {
		s.revert()
		return
	}
	s.w.After(time.Duration(left), s.revert)
}

// void says that the shot must not count, and ends what it may have done.
func (s *shot) void(why history.VoidReason, detail string) {
	if s.done {
		return
	}
	s.done = true
	s.record(history.FaultVoid, func(b *history.Fault) { b.Why, b.Detail = why, detail })
}

// unconfirmed is void, once the fault has been waited for in vain.
func (s *shot) unconfirmed(detail string) {
	if s.done || s.over {
		return
	}
	s.void(history.Unconfirmed, detail)
	s.revert()
}

// confirmWithin is how long after its own limit a fault may take to be confirmed.
const confirmWithin = 5 * time.Second

// giveUpAfter makes the shot void where it is not confirmed in time.
func (s *shot) giveUpAfter(detail func() string) {
	s.w.After(time.Duration(s.e.Fault.Declared)+confirmWithin, func() {
		if !s.done {
			s.unconfirmed(detail())
		}
	})
}

// revert ends the fault and says so, once.
func (s *shot) revert() {
	i := slices.Index(s.live, s)
	if i < 0 {
		return
	}
	if s.over && !s.done { // the run has ended before it was confirmed
		s.void(history.Unconfirmed, "the run ended first")
	}
	s.live = slices.Delete(s.live, i, i+1)
	if s.undo != nil {
		from := s.w.Now()
		s.undo()
		s.w.After(callTakes, func() { s.endedAt(history.Span{From: from, To: s.w.Now()}) })
		return
	}
	s.endedAt(s.intent)
}

func (s *shot) endedAt(at history.Span) {
	if !s.ended[s.e.Op] {
		s.recordAt(history.FaultReverted, at, nil)
	}
	s.record(history.FaultVerified, nil)
}
