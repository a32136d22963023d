package injectors

import (
	"context"
	"syscall"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// stepping strikes step by step: each takes the record that the test has by then, and what is learned on the way stays.
type stepping struct {
	*Reach
	spec fault.Spec
	hits map[string]*Hit // by the shot's name
}

func steps(f fault.Spec, r *Reach) *stepping { return &stepping{r, f, map[string]*Hit{}} }

func (s *stepping) hit(r undo.Record) *Hit {
	if k, is := s.spec.(*fault.Kill); is {
		k.How = r.Shot.Fault.Form
	}
	h := s.hits[r.Shot.Op+r.Shot.Fault.Form]
	if h == nil {
		var err error
		if h, err = s.begin(s.spec, r.Shot); err != nil {
			panic(err)
		}
		s.hits[r.Shot.Op+r.Shot.Fault.Form] = h
	}
	h.Rec = r
	h.Rec.Kind = s.spec.Kind()
	return h
}

func (s *stepping) Prepare(ctx context.Context, shot history.Event) (undo.Record, error) {
	if k, is := s.spec.(*fault.Kill); is {
		k.How = shot.Fault.Form
	}
	h, err := s.Reach.Prepare(ctx, s.spec, shot)
	s.hits[shot.Op+shot.Fault.Form] = h
	return h.Record(), err
}

func (s *stepping) Within(shot history.Event) time.Duration {
	return s.hit(undo.Record{Shot: shot}).Within()
}

func (s *stepping) Inject(ctx context.Context, r undo.Record) (history.Span, error) {
	return s.hit(r).Inject(ctx)
}

func (s *stepping) Confirm(ctx context.Context, r undo.Record, applied history.Span) (history.Span, history.Fault, error) {
	return s.hit(r).Confirm(ctx, applied)
}

func (s *stepping) Revert(ctx context.Context, r undo.Record) (history.Span, error) {
	return s.hit(r).Revert(ctx)
}

// elsewhere undoes as a process does that has nothing but the record.
func elsewhere(ctx context.Context, r undo.Record) error {
	return (&Reach{Open: RedisFromOutside(dial)}).Reverters(true)[r.Kind](ctx, r)
}

func untold(string, protocol.Command) error { return nil }

func unsent(string, syscall.Signal) (history.Span, error) { return history.Span{}, nil }
