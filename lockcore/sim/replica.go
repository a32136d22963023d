package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/work"
)

// replica is one life of a replica.
type replica struct {
	w           *World
	Name        string // "r1": stays over its lives
	Incarnation string // "r1.2"
	dead        bool
	paused      bool
	stopping    bool
	stopped     bool // it has ended by itself
	ahead       time.Duration
	leases      []*lease // that have not ended
	tasks       []*task
	armed       []*armed
	later       []moment // what came due while it stood still
	ops         int64
	token       int   // of its last acquire
	stop        *Stop // the pause under way
	gone        func()
}

// Start begins a life of a replica: it polls its loops, and takes offers.
func (w *World) Start(name, incarnation string) {
	r := w.lives.Get()
	*r = replica{w: w, Name: name, Incarnation: incarnation, leases: r.leases[:0], tasks: r.tasks[:0]}
	w.replicas[incarnation] = r
	w.order = append(w.order, r)
	for i := range w.cfg.Locks {
		if l := &w.cfg.Locks[i]; l.Policy.Loop != nil {
			r.begin(l, l.Key, l.Name, Offer{})
		}
	}
}

// Alive reports whether an incarnation lives.
func (w *World) Alive(incarnation string) bool {
	r := w.replicas[incarnation]
	return r != nil && !r.dead && !r.stopped
}

// Kill ends a process at this instant, wherever it is; what it has sent is on its way.
func (w *World) Kill(incarnation string) bool {
	r := w.replicas[incarnation]
	if r == nil || r.dead || r.stopped {
		return false
	}
	r.dead = true
	if r.paused {
		r.stop.To = w.now
	}
	w.truth.died(r)
	r.later = nil
	return true
}

// Pause makes a process stand still until Resume.
func (w *World) Pause(incarnation string) bool {
	r := w.replicas[incarnation]
	if r == nil || r.dead || r.stopped || r.paused {
		return false
	}
	r.paused = true
	w.truth.Stops = append(w.truth.Stops, &Stop{Replica: incarnation, From: w.now, To: Never})
	r.stop = w.truth.Stops[len(w.truth.Stops)-1]
	return true
}

// Resume ends Pause: what came due meanwhile happens at once, in its order.
func (w *World) Resume(incarnation string) {
	r := w.replicas[incarnation]
	if r == nil || !r.paused || r.dead {
		return
	}
	r.paused = false
	r.stop.To = w.now
	later := r.later
	r.later = nil
	for _, m := range later {
		m.at = w.now + w.rng.within(0, 20*time.Microsecond)
		w.plan(m)
	}
}

// hold keeps a moment of a process that stands still; a dead one has none any more.
func (r *replica) hold(m *moment) {
	if r.paused && !r.dead {
		r.later = append(r.later, *m)
	}
}

// SetClock puts a replica's wall clock off by so much more; it is seen to be off by the result.
func (w *World) SetClock(incarnation string, by time.Duration) (time.Duration, bool) {
	r := w.replicas[incarnation]
	if r == nil || r.dead {
		return 0, false
	}
	r.ahead += by
	return r.ahead, true
}

// StopAll tells every replica to finish; gone is called for each when it has ended.
func (w *World) StopAll(gone func(incarnation string)) {
	for _, r := range w.order {
		w.Stop(r.Incarnation, func() { gone(r.Incarnation) })
	}
}

// Stop tells a replica to finish, as SIGTERM does: its work stops, its locks are given back as their policies say, and it ends. gone is
// called when it has; false = it is gone already.
func (w *World) Stop(incarnation string, gone func()) bool {
	r := w.replicas[incarnation]
	if r == nil || r.dead || r.stopped {
		return false
	}
	r.gone = gone
	if r.stopping {
		return true
	}
	r.stopping = true
	for _, t := range slices.Clone(r.tasks) {
		t.step(work.Input{Kind: work.Quit})
	}
	w.After(stopWithin, r.leave)
	r.left()
	return true
}

// stopWithin is how long a replica that was told to stop takes at most.
const stopWithin = 9 * time.Second

// left ends the replica once its work has stopped and its machines are done.
func (r *replica) left() {
	if !r.stopping || r.stopped || len(r.tasks) > 0 {
		return
	}
	for _, l := range slices.Clone(r.leases) {
		if !l.ended {
			l.giveUp()
		}
	}
	if len(r.leases) == 0 {
		r.w.After(time.Millisecond, r.leave)
	}
}

func (r *replica) leave() {
	if r.dead || r.stopped {
		return
	}
	r.stopped = true
	r.dead = true
	r.w.truth.died(r)
	if r.gone != nil {
		r.gone()
	}
}

func (r *replica) forget(l *lease) {
	if i := slices.Index(r.leases, l); i >= 0 {
		r.leases = slices.Delete(r.leases, i, i+1)
	}
	if r.stopping && len(r.tasks) == 0 && len(r.leases) == 0 {
		r.w.After(time.Millisecond, r.leave)
	}
}

// effectOp names an effect, uniquely over all replicas and lives.
func (r *replica) effectOp() string {
	w := r.w
	if w.recording() {
		return r.op(r.Incarnation, "/write-")
	}
	w.ops++
	return w.opName("", "", w.ops)
}

// op names an operation of something that the replica has or does.
func (r *replica) op(of, what string) string {
	r.ops++
	return r.w.opName(of, what, r.ops)
}

// opName makes each name once: worlds that are played again use the same ones.
func (w *World) opName(of, what string, n int64) string {
	key := [2]string{of, what}
	names := w.opNames[key]
	if n >= int64(len(names)) {
		names = append(names, make([]string, n+1-int64(len(names)))...)
		w.opNames[key] = names
	}
	if names[n] == "" {
		names[n] = of + what + strconv.FormatInt(n, 10)
	}
	return names[n]
}

func (r *replica) event(k history.Kind) history.Event {
	return history.Event{Kind: k, Span: history.At(r.w.now), Source: r.Incarnation, Clock: history.ClockShared}
}
