package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/conductor"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/history"
)

// shots owns the goroutines of the shots in flight. Each ends with a fault.confirmed or a fault.void event, and once it was written
// down in the journal, its fault ends with fault.verified or a run.cleanup that is not ok.
type shots struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	live []flown // injected and not yet reverted
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
	return store == LocksStore && slices.ContainsFunc(s.live, func(f flown) bool { return f.shot.Fault.Victim == history.VictimStore })
}

// confirmWithin is how long after its own limit a fault may take to be confirmed.
const confirmWithin = 5 * time.Second

// fire resolves the victim at the store, now, and lets the injector do the rest beside the loop.
func (s *shots) fire(ctx context.Context, r *run, f *conductor.Fire) {
	shot := history.Event{
		Source: source, Lock: f.Fault.Lock(), Key: f.Key, Op: fmt.Sprintf("%s#%d", f.Fault.ID, f.Shot),
		Fault: &history.Fault{
			ID: f.Fault.ID, Shot: f.Shot, Kind: f.Fault.Kind(), Form: f.Fault.Form(), Timing: f.Timing, Victims: f.Victims,
			Declared: int64(f.For), Configured: f.Fault.Magnitude(),
		},
	}
	if b := f.Fault.Failures(); b != nil {
		shot.Fault.Want, shot.Fault.Via = int64(b.Count), b.Via
	}
	why, detail := r.resolve(ctx, f, &shot)
	resolved := shot
	resolved.Kind = history.FaultResolve
	r.record(withFault(resolved, func(b *history.Fault) { b.Detail = detail }))
	if why != "" {
		void(r, shot, why, detail)
		return
	}
	s.wg.Go(func() { s.fly(ctx, r, shot, f.Fault.For) })
}

// resolve asks the store whom the key names, and the claims who that is. It fills in the victim, or says why there is none.
func (r *run) resolve(ctx context.Context, f *conductor.Fire, shot *history.Event) (why, detail string) {
	switch {
	case f.Why != "":
		return "no_target", f.Why
	case f.Fault.Lock() == "" && len(f.Victims) == 0:
		shot.Fault.Victim = history.VictimStore
		return "", ""
	case f.Fault.Lock() == "":
		if len(f.Victims) == 1 {
			shot.Fault.Victim = f.Victims[0]
		}
		return "", ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	epoch, ok, err := r.Holder(ctx, f.Key)
	switch {
	case err != nil:
		return "no_target", "the lock key could not be read: " + err.Error()
	case !ok:
		return "moved", "the lock key was free at the moment of firing"
	}
	victim, alive := r.c.Owner(epoch)
	switch {
	case victim == "":
		return "no_target", fmt.Sprintf("the lock key names epoch %s, which no replica has claimed", epoch)
	case !alive:
		return "no_target", fmt.Sprintf("the lock key still names %s, which is dead", victim)
	case f.Epoch != "" && f.Epoch != epoch:
		detail = fmt.Sprintf("the claims named epoch %s, the store names %s", f.Epoch, epoch)
	}
	shot.Epoch, shot.Fault.Victim = epoch, victim
	return "", detail
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
		void(r, shot, voidWord(err), err.Error())
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
	if ctx.Err() == nil {
		s.revert(ctx, r, f)
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
	rec.Until = time.Now().UTC().Add(time.Duration(intent.Fault.Declared) + 2*confirmWithin + cleanupWithin)
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
	ctx, cancel := context.WithTimeout(ctx, time.Duration(shot.Fault.Declared)+confirmWithin)
	defer cancel()
	applied, err := inj.Inject(ctx, f.rec)
	if err != nil {
		void(r, shot, voidWord(err), err.Error())
		return false
	}
	if err := r.Journal.Mark(f.id, undo.Injected, ""); err != nil {
		void(r, shot, "error", err.Error())
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
	}
	if err != nil {
		void(r, withFault(shot, saw), voidWord(err), err.Error())
		return false
	}
	confirmed := withFault(shot, saw)
	confirmed.Kind, confirmed.Span = history.FaultConfirmed, window
	_, _ = r.Recorder.Record(confirmed) // a failed recorder ends the run by itself
	return true
}

// revert ends one fault and reads back that it has ended, on a fresh context: whatever happened to the shot's.
func (s *shots) revert(ctx context.Context, r *run, f flown) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin)
	defer cancel()
	s.mu.Lock()
	s.live = slices.DeleteFunc(s.live, func(o flown) bool { return o.id == f.id })
	s.mu.Unlock()
	early := r.Journal.Mark(f.id, undo.UndoIntent, "")
	span, err := r.Injectors[f.shot.Fault.Kind].Revert(ctx, f.rec)
	if err = errors.Join(err, early); err != nil {
		_ = r.Journal.Mark(f.id, undo.Dirty, err.Error())
		r.note("fault "+f.shot.Op, err)
		return
	}
	ended := f.shot
	ended.Kind, ended.Span = history.FaultReverted, span
	if !r.tells(ended) {
		r.recordSpan(ended)
	}
	ended.Kind = history.FaultVerified
	r.record(ended)
	if err := r.Journal.Mark(f.id, undo.Undone, ""); err != nil {
		r.note("fault "+f.shot.Op, err)
	}
}

// tells reports that the end of the fault is in the history already, from where it was done.
func (r *run) tells(shot history.Event) bool {
	return slices.ContainsFunc(r.Log.Since(int(shot.N)), func(e history.Event) bool {
		return e.Kind == history.FaultReverted && e.Op == shot.Op
	})
}

// revertAll ends what may still be in effect, last first, each on a context of its own. The shots in flight have been called back:
// their confirmation is of no use any more, and a fault may have hours to go.
func (s *shots) revertAll(ctx context.Context, r *run) {
	s.wg.Wait()
	s.mu.Lock()
	live := slices.Clone(s.live)
	s.mu.Unlock()
	for _, f := range slices.Backward(live) {
		s.revert(ctx, r, f)
	}
}

func void(r *run, shot history.Event, why, detail string) {
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
