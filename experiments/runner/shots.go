package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/conductor"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/undo"
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

// flown is a fault that may be in effect.
type flown struct {
	id   int // in the journal
	rec  undo.Record
	shot history.Event
}

// atStore reports whether a fault may keep the store away.
func (s *shots) atStore(store string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store == LocksStore && slices.ContainsFunc(s.live, func(f flown) bool {
		return f.shot.Fault.Victim == history.VictimStore || f.shot.Fault.Victim == "" && fault.Seen(f.rec.Kind, "", "").Traits().Elsewhere
	})
}

// confirmWithin is how long after its own limit a fault may take to be confirmed, unless its injector is Patient.
const confirmWithin = 5 * time.Second

func within(inj Injector, shot history.Event) time.Duration {
	if p, ok := inj.(Patient); ok {
		return p.Within(shot)
	}
	return confirmWithin
}

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
	s.wg.Go(func() { s.fly(ctx, r, shot, f.Fault.For) })
}

// fly is the life of one fault: written down, injected, confirmed, ended when its time is up, read back. fault.applied is recorded
// before the confirmation is awaited: it is the fault's time. A burst that is bounded by its count (lasts 0) is over once it is
// confirmed: what it may have left armed is not to strike any more.
func (s *shots) fly(ctx context.Context, r *run, shot history.Event, lasts time.Duration) {
	inj := r.Injectors[shot.Fault.Kind]
	shot.Kind = history.FaultIntent
	intent, err := r.Recorder.RecordNow(shot)
	if err != nil {
		return
	}
	f, err := s.writeDown(ctx, r, inj, intent)
	if err != nil {
		void(r, shot, voidWord(err), voidDetail(err))
		return
	}
	began := time.Now()
	if s.strike(ctx, r, inj, f) && lasts > 0 {
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
	if !slices.ContainsFunc(s.live, func(o flown) bool { return o.id != f.id }) {
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
	s.live = slices.DeleteFunc(s.live, func(o flown) bool { return o.id == f.id })
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// writeDown prepares the fault and puts it into the journal: what cannot be written down is not done.
func (s *shots) writeDown(ctx context.Context, r *run, inj Injector, intent history.Event) (flown, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	rec, err := inj.Prepare(ctx, intent)
	if err != nil {
		return flown{}, err
	}
	rec.Kind, rec.Shot = intent.Fault.Kind, intent
	rec.Ends = time.Now().UTC().Add(time.Duration(intent.Fault.Declared))
	rec.Until = rec.Ends.Add(confirmWithin + within(inj, intent) + cleanupWithin + rec.Takes())
	f := flown{rec: rec, shot: intent}
	if f.id, err = r.Journal.Intend(rec); err != nil {
		return flown{}, fmt.Errorf("not injected: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, f)
	return f, nil
}

// strike injects and confirms; false = the fault is void.
func (s *shots) strike(ctx context.Context, r *run, inj Injector, f flown) bool {
	shot := f.shot
	ctx, cancel := context.WithTimeout(ctx, time.Duration(shot.Fault.Declared)+within(inj, shot))
	defer cancel()
	if r.Again != nil && shot.Lock != "" && shot.Epoch != "" {
		if err := r.Again(ctx, shot); err != nil {
			void(r, shot, voidWord(err), voidDetail(err))
			return false
		}
	}
	applied, err := inj.Inject(ctx, f.rec)
	if err != nil {
		void(r, shot, voidWord(err), voidDetail(err))
		return false
	}
	if err := r.Journal.Mark(f.id, undo.Injected, ""); err != nil {
		void(r, shot, history.FaultFailed, err.Error())
		return false
	}
	done := shot
	done.Kind, done.Span = history.FaultApplied, applied
	if _, err := r.Recorder.Record(done); err != nil {
		return false
	}
	window, seen, err := inj.Confirm(ctx, f.rec, applied)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin+f.rec.Takes())
	defer cancel()
	_ = r.Journal.Mark(f.id, undo.UndoIntent, "") // a journal that is lost ends the run, and keeps no fault alive
	span, err := r.Injectors[f.shot.Fault.Kind].Revert(ctx, f.rec)
	if err != nil {
		return err
	}
	s.drop(f)
	ended := f.shot
	ended.Kind, ended.Span = history.FaultReverted, span
	if !r.hasReverted(ended) {
		r.recordSpan(ended)
	}
	ended.Kind = history.FaultVerified
	r.record(ended)
	if err := r.Journal.Mark(f.id, undo.Undone, ""); err != nil {
		r.note("fault "+f.shot.Op, err)
	}
	return nil
}

// giveUp leaves a fault that cannot be ended: the run is dirty.
func (s *shots) giveUp(r *run, f flown, err error) {
	s.drop(f)
	_ = r.Journal.Mark(f.id, undo.Dirty, err.Error())
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
		failed := map[int]error{}
		for _, f := range live {
			if err := s.revert(ctx, r, f); err != nil {
				failed[f.id] = err
			}
		}
		if len(failed) < len(live) {
			continue
		}
		for _, f := range live {
			s.giveUp(r, f, failed[f.id])
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
		if f.rec.Halts() {
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
