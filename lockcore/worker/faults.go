package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/monotime"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/lockcore/protocol"
)

// kindRenewFailures is the experiment's name of the fault that these are shots of.
const kindRenewFailures = "renew_failures"

// faultyStore is the locks' store as one lock sees it: armed faults make its calls fail before they are sent.
type faultyStore struct {
	lockcore.Store
	lock   string
	faults *faults
}

// Renew implements lockcore.Store.
func (s *faultyStore) Renew(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := s.faults.hit(s.lock, key, token); err != nil {
		return err
	}
	return s.Store.Renew(ctx, key, token, ttl)
}

// faultError is the failure of a call that a fault has hit. The call was not sent.
type faultError struct{ shot string }

func (e *faultError) Error() string { return "made to fail by " + e.shot }
func (e *faultError) Unwrap() error { return lockcore.ErrNotSent }

// Fault names the shot.
func (e *faultError) Fault() string { return e.shot }

// faults are the armed faults of this replica. Each ends by itself: its count is spent, its time is up, or the worker ends. Events
// are written under the mutex, so that no hit is told after the end.
type faults struct {
	who  string
	emit func(history.Event)

	mu     sync.Mutex
	armed  []*armed
	closed bool
}

type armed struct {
	protocol.Arm
	hits  int64
	timer *time.Timer // nil = not bounded by time
}

func newFaults(who string, emit func(history.Event)) *faults {
	return &faults{who: who, emit: emit}
}

// arm makes operations fail from now on. What this worker cannot do is reverted at once, with the reason.
func (f *faults) arm(p protocol.Arm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &armed{Arm: p}
	switch {
	case f.closed || slices.ContainsFunc(f.armed, func(o *armed) bool { return o.shot() == a.shot() }):
		return
	case p.Op != "renew" || p.Mode != "error":
		f.tell(history.FaultReverted, a, history.Event{}, fmt.Sprintf("op %q with mode %q is not supported", p.Op, p.Mode))
		return
	case p.Count <= 0 && p.For <= 0:
		f.tell(history.FaultReverted, a, history.Event{}, "neither count nor time bounds it")
		return
	}
	f.armed = append(f.armed, a)
	if p.For > 0 {
		a.timer = time.AfterFunc(p.For, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.revert(a, "its time was up")
		})
	}
}

// disarm ends a shot early.
func (f *faults) disarm(d protocol.Disarm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.armed {
		if a.Fault == d.Fault && a.Shot == d.Shot {
			f.revert(a, "disarmed")
			return
		}
	}
}

// close ends all shots.
func (f *faults) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for len(f.armed) > 0 {
		f.revert(f.armed[0], "the replica ended")
	}
}

// hit returns the error that a renewal must fail with, or nil.
func (f *faults) hit(lock, key, token string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.armed {
		if a.Lock != "" && a.Lock != lock || a.Key != "" && a.Key != key {
			continue
		}
		a.hits++
		f.tell(history.FaultHit, a, history.Event{Lock: lock, Key: key, Epoch: lockcore.Fingerprint(token)}, "")
		if a.Count > 0 && a.hits >= int64(a.Count) {
			f.revert(a, "its count was spent")
		}
		return &faultError{shot: a.shot()}
	}
	return nil
}

// revert ends a shot that is still armed; a timer may come late.
func (f *faults) revert(a *armed, why string) {
	i := slices.Index(f.armed, a)
	if i < 0 {
		return
	}
	f.armed = slices.Delete(f.armed, i, i+1)
	if a.timer != nil {
		a.timer.Stop()
	}
	f.tell(history.FaultReverted, a, history.Event{Lock: a.Lock, Key: a.Key}, why)
}

func (f *faults) tell(k history.Kind, a *armed, e history.Event, detail string) {
	e.Kind, e.Span, e.Op = k, history.At(monotime.Now()), a.shot()
	e.Fault = &history.Fault{
		ID: a.Fault, Shot: a.Shot, Kind: kindRenewFailures, Form: a.Mode, Victim: f.who,
		Detail: detail, Declared: int64(a.For), Want: int64(a.Count), Hits: a.hits,
	}
	f.emit(e)
}

func (a *armed) shot() string { return fmt.Sprintf("%s#%d", a.Fault, a.Shot) }
