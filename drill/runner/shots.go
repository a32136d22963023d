package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/drill/conductor"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// shots owns the goroutines of the shots in flight. Each ends with a fault.confirmed or a fault.void event, and once it was written
// down in the journal, its fault ends with fault.verified or a run.cleanup that is not ok.
type shots struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	live  []flown       // written down, and neither undone nor given up
	ended chan struct{} // closed when the next of them is; nil = nobody waits for that
}

// atStore reports whether a fault may keep the store away.
func (s *shots) atStore(store string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store == LocksStore && slices.ContainsFunc(s.live, func(f flown) bool {
		return f.shot.Fault.Victim == history.VictimStore || f.shot.Fault.Victim == "" && fault.Seen(f.shot.Fault.Kind, "", "").Traits().Elsewhere
	})
}

// confirmWithin is how long after its own limit a fault may take to be confirmed, unless it says otherwise.
const confirmWithin = 5 * time.Second

// fire resolves the victim at the store, now, and lets the injector do the rest beside the loop.
func (s *shots) fire(ctx context.Context, r *run, f *conductor.Fire) {
	shot := f.Event()
	shot.Source = source
	why, detail := r.c.Resolve(f, &shot, func() (string, bool, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
		defer cancel()
		return r.Holder(ctx, f.Key)
	})
	resolved := shot
	resolved.Kind = history.FaultResolve
	r.record(withFault(resolved, func(b *history.Fault) { b.Detail = detail }))
	if why != "" {
		void(r, shot, why, detail)
		return
	}
	s.wg.Go(func() { s.fly(ctx, r, f.Fault.Spec, shot, f.Fault.For) })
}

// fly is the life of one fault: written down, injected, confirmed, ended when its time is up, read back. fault.applied is recorded
// before the confirmation is awaited: it is the fault's time. A burst that is bounded by its count (lasts 0) is over once it is
// confirmed: what it may have left armed is not to strike any more.
func (s *shots) fly(ctx context.Context, r *run, spec fault.Spec, shot history.Event, lasts time.Duration) {
	shot.Kind = history.FaultIntent
	intent, err := r.Recorder.RecordNow(shot)
	if err != nil {
		return
	}
	f, err := s.writeDown(ctx, r, spec, intent)
	if err != nil {
		void(r, shot, voidWord(err), voidDetail(err))
		if len(f.parts) == 0 {
			return
		}
	}
	began := time.Now()
	if err == nil && s.strike(ctx, r, f) && lasts > 0 {
		left := time.NewTimer(time.Until(began.Add(lasts)))
		defer left.Stop()
		select {
		case <-left.C:
		case <-ctx.Done(): // the run is over: everything is reverted in order
			return
		}
	}
	for ctx.Err() == nil {
		next := s.nextEnd(f)
		err := s.revert(ctx, r, f)
		if err == nil {
			return
		}
		if next == nil {
			s.giveUp(r, f, err)
			return
		}
		select { // the other fault stood in the way, it may be: what stands still cannot be told anything
		case <-next:
		case <-ctx.Done():
		}
	}
}

// nextEnd is closed when another fault than f has ended; nil = no other is in effect.
func (s *shots) nextEnd(f flown) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.live, func(o flown) bool { return o.shot.Op != f.shot.Op }) {
		return nil
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

// drop takes note that nothing more is done about a fault.
func (s *shots) drop(f flown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = slices.DeleteFunc(s.live, func(o flown) bool { return o.shot.Op == f.shot.Op })
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// writeDown prepares the fault and puts it into the journal: what cannot be written down is not done. With an error it returns what was
// written down before.
func (s *shots) writeDown(ctx context.Context, r *run, spec fault.Spec, intent history.Event) (f flown, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	f.shot = intent
	for _, one := range apart(intent) {
		p := &part{}
		if p.Strike, err = r.Injectors.Prepare(ctx, spec, one); err != nil {
			break
		}
		p.rec = p.Record()
		p.rec.Ends = time.Now().UTC().Add(time.Duration(one.Fault.Declared))
		p.rec.Until = p.rec.Ends.Add(confirmWithin + within(p) + cleanupWithin + p.rec.Takes())
		if p.id, err = r.Journal.Intend(p.rec); err != nil {
			err = fmt.Errorf("not injected: %w", err)
			break
		}
		f.parts = append(f.parts, p)
	}
	if len(f.parts) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live = append(s.live, f)
	}
	return f, err
}

// strike injects and confirms; false = the fault is void.
func (s *shots) strike(ctx context.Context, r *run, f flown) bool {
	shot := f.shot
	ctx, cancel := context.WithTimeout(ctx, time.Duration(shot.Fault.Declared)+within(f.parts...))
	defer cancel()
	if r.Again != nil && shot.Lock != "" && shot.Epoch != "" {
		if err := r.Again(ctx, shot); err != nil {
			void(r, shot, voidWord(err), voidDetail(err))
			return false
		}
	}
	applied, err := inject(ctx, f.parts)
	if err != nil {
		void(r, shot, voidWord(err), voidDetail(err))
		return false
	}
	for _, p := range f.parts {
		if err := r.Journal.Mark(p.id, undo.Injected, ""); err != nil {
			void(r, shot, history.FaultFailed, err.Error())
			return false
		}
	}
	done := shot
	done.Kind, done.Span = history.FaultApplied, applied
	if _, err := r.Recorder.Record(done); err != nil {
		return false
	}
	window, seen, err := confirm(ctx, f.parts, applied)
	saw := func(b *history.Fault) {
		b.Hits, b.Baseline, b.Expected, b.Observed, b.Detail = seen.Hits, seen.Baseline, seen.Expected, seen.Observed, seen.Detail
		b.Death = seen.Death
	}
	if err != nil {
		void(r, withFault(shot, saw), voidWord(err), voidDetail(err))
		return false
	}
	confirmed := withFault(shot, saw)
	confirmed.Kind, confirmed.Span = history.FaultConfirmed, window
	_, _ = r.Recorder.Record(confirmed) // a failed recorder ends the run by itself
	return true
}

// revert ends one fault and reads back that it has ended, on a fresh context: whatever happened to the shot's. It may be called again
// after an error.
func (s *shots) revert(ctx context.Context, r *run, f flown) error {
	var span history.Span
	var failed error
	for _, p := range f.parts {
		at, err := p.revert(ctx, r)
		if failed = errors.Join(failed, err); err == nil {
			span = hull(span, at)
		}
	}
	if failed != nil {
		return failed
	}
	s.drop(f)
	ended := f.shot
	ended.Kind, ended.Span = history.FaultReverted, span
	if !r.hasReverted(ended) {
		r.recordSpan(ended)
	}
	ended.Kind = history.FaultVerified
	r.record(ended)
	for _, p := range f.parts {
		if err := r.Journal.Mark(p.id, undo.Undone, ""); err != nil {
			r.note("fault "+f.shot.Op, err)
			break
		}
	}
	return nil
}

// giveUp leaves a fault that cannot be ended: the run is dirty.
func (s *shots) giveUp(r *run, f flown, err error) {
	s.drop(f)
	for _, p := range f.parts {
		if p.err != nil {
			_ = r.Journal.Mark(p.id, undo.Dirty, p.err.Error())
		} else {
			_ = r.Journal.Mark(p.id, undo.Undone, "")
		}
	}
	r.note("fault "+f.shot.Op, err)
}

// hasReverted reports that the end of the fault is in the history already, from where it was done.
func (r *run) hasReverted(shot history.Event) bool {
	return r.Log.Any(int(shot.N), func(e history.Event) bool {
		return e.Kind == history.FaultReverted && e.Op == shot.Op
	})
}

// revertAll ends what may still be in effect, each on a context of its own: first what makes something stand still, since other faults
// may be ended by telling that something; else last first. What fails is tried again as long as others end. The shots in flight have
// been called back: their confirmation is of no use any more, and a fault may have hours to go.
func (s *shots) revertAll(ctx context.Context, r *run) {
	s.wg.Wait()
	for {
		live := s.inOrder()
		failed := map[string]error{}
		for _, f := range live {
			if err := s.revert(ctx, r, f); err != nil {
				failed[f.shot.Op] = err
			}
		}
		if len(failed) < len(live) {
			continue
		}
		for _, f := range live {
			s.giveUp(r, f, failed[f.shot.Op])
		}
		return
	}
}

// inOrder lists the faults that may be in effect as they are to be ended.
func (s *shots) inOrder() []flown {
	s.mu.Lock()
	defer s.mu.Unlock()
	var halts, others []flown
	for _, f := range slices.Backward(s.live) {
		if f.parts[0].rec.Halts() {
			halts = append(halts, f)
		} else {
			others = append(others, f)
		}
	}
	return append(halts, others...)
}

func void(r *run, shot history.Event, why history.VoidReason, detail string) {
	e := withFault(shot, func(b *history.Fault) { b.Why, b.Detail = why, detail })
	e.Kind = history.FaultVoid
	_, _ = r.Recorder.RecordNow(e)
}

// withFault copies the event's fault body and edits the copy: recorded events share their bodies with the log.
func withFault(e history.Event, edit func(*history.Fault)) history.Event {
	b := *e.Fault
	edit(&b)
	e.Fault = &b
	return e
}
