package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/experiments/conductor"
	"github.com/lockdrill/lockdrill/history"
)

// shots owns the goroutines of the shots in flight. Each ends with a fault.confirmed or a fault.void event.
type shots struct {
	wg       sync.WaitGroup
	mu       sync.Mutex
	injected []history.Event // to be reverted in reverse order
}

// confirmWithin is how long after its own limit a fault may take to be confirmed.
const confirmWithin = 5 * time.Second

// fire resolves the victim at the store, now, and lets the injector do the rest beside the loop.
func (s *shots) fire(ctx context.Context, r *run, f *conductor.Fire) {
	shot := history.Event{
		Source: source, Lock: f.Fault.Lock(), Key: f.Key, Op: fmt.Sprintf("%s#%d", f.Fault.ID, f.Shot),
		Fault: &history.Fault{ID: f.Fault.ID, Shot: f.Shot, Kind: f.Fault.Kind(), Form: form(f), Timing: f.Timing, Declared: int64(f.For)},
	}
	if f.Fault.RenewFailures != nil {
		shot.Fault.Want = int64(f.Fault.RenewFailures.Count)
	}
	why, detail := r.resolve(ctx, f, &shot)
	resolved := shot
	resolved.Kind = history.FaultResolve
	r.record(withFault(resolved, func(b *history.Fault) { b.Detail = detail }))
	if why != "" {
		void(r, shot, why, detail)
		return
	}
	s.wg.Go(func() { s.fly(ctx, r, shot) })
}

func form(f *conductor.Fire) string {
	if f.Fault.Kill != nil {
		return f.Fault.Kill.Form
	}
	return f.Fault.RenewFailures.Mode
}

// resolve asks the store whom the key names, and the claims who that is. It fills in the victim, or says why there is none.
func (r *run) resolve(ctx context.Context, f *conductor.Fire, shot *history.Event) (why, detail string) {
	if f.Key == "" {
		return "no_target", f.Why
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

// fly injects and confirms one shot. fault.applied is recorded before the confirmation is awaited: it is the fault's time.
func (s *shots) fly(ctx context.Context, r *run, shot history.Event) {
	inj := r.Injectors[shot.Fault.Kind]
	shot.Kind = history.FaultIntent
	intent, err := r.Recorder.RecordNow(shot)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.injected = append(s.injected, intent)
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, time.Duration(shot.Fault.Declared)+confirmWithin)
	defer cancel()
	applied, err := inj.Inject(ctx, intent)
	if err != nil {
		void(r, shot, voidWord(err), err.Error())
		return
	}
	done := shot
	done.Kind, done.Span = history.FaultApplied, applied
	if _, err := r.Recorder.Record(done); err != nil {
		return
	}
	window, hits, err := inj.Confirm(ctx, intent, applied)
	if err != nil {
		void(r, withFault(shot, func(b *history.Fault) { b.Hits = hits }), voidWord(err), err.Error())
		return
	}
	confirmed := withFault(shot, func(b *history.Fault) { b.Hits = hits })
	confirmed.Kind, confirmed.Span = history.FaultConfirmed, window
	_, _ = r.Recorder.Record(confirmed) // a failed recorder ends the run by itself
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

// revertAll ends every injected fault, last first, each on a context of its own. The shots in flight have been called back: their
// confirmation is of no use any more, and a burst may have hours to go.
func (s *shots) revertAll(ctx context.Context, r *run) {
	s.wg.Wait()
	for i := len(s.injected) - 1; i >= 0; i-- {
		shot := s.injected[i]
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupWithin)
		err := r.Injectors[shot.Fault.Kind].Revert(ctx, shot)
		cancel()
		if err != nil {
			r.note("fault "+shot.Op, err)
			continue
		}
		shot.Kind = history.FaultVerified
		r.record(shot)
	}
}
