package conductor

import (
	"cmp"
	"fmt"
	"sort"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/arena"
	"github.com/lockdrill/lockdrill/lockcore"
)

// failedStarts in a row after which a replica counts as one that cannot start.
const failedStarts = 3

// readyWithin is how long a replica may take from its start to ready. In a pod there may be an image to fetch and a node to find, and a
// container that has died several times is started again after up to five minutes.
const (
	readyWithin    = 20 * time.Second
	podReadyWithin = 6 * time.Minute
)

// restartWithin is how much of system.restart a shot waits for before the next one: a fleet that is meant to stay one short is no
// reason to wait for ever.
const restartWithin = 5 * time.Second

// podBackWithin is how long a shot waits for the pod that replaces its victim before the next one: that is its controller's business.
const podBackWithin = 30 * time.Second

// world is what the claims and the ledger say about the system at this moment.
type world struct {
	pool      arena.Of[epoch]
	replicas  []*replica
	byInc     map[string]*replica
	epochs    map[string]*epoch  // by fingerprint; of an observed system none
	shown     map[string]*epoch  // observed: by key, what its last look showed. A value that comes back is another epoch
	held      map[string]*epoch  // by key: granted, not given back, holder alive
	unnamed   map[string]unnamed // observed: by key
	unseen    map[string]string  // by probe whose looks fail at present: what they get
	loops     map[string]*loop   // by lock name
	finished  map[string]bool    // jobs, by id
	done      map[string]int     // how many of those, by lock name
	lastDone  map[string]int64   // when the last of those finished, by lock name
	terminal  map[string]int     // accepted terminal writes by job
	open      map[string]int64   // jobs of an observed system that have shown no end yet, and since when they are known
	renewed   map[string]bool    // by lock name: a renewal was seen to work
	begun     map[string]bool    // observed: by lock name: its effects show holders at work
	named     map[string]int64   // by lock name, observed: when a look last said which replica holds it
	pods      map[string]string  // last incarnation in each pod, by UID
	waiting   map[string]string  // what each pod that is there waits for, by name; "" = for nothing
	ends      history.Ends       // observed: of leases, by key
	fixed     int                // replicas that the experiment declares; of an observed system there may be more
	observed  bool               // replicas are somebody's own: they come and go by themselves
	ready     time.Duration      // within which a replica is to be ready
	storeLost string             // "" or why
	extra     int                // accepted terminal writes beyond the first
	abandoned int                // locks given up by their holders
}

type replica struct {
	name     string
	lives    []string // names of its incarnations
	life     int      // number of the last one
	inc      string   // its name
	ready    bool
	alive    bool
	startAt  int64 // when to start the next incarnation, 0 = not due
	startedA int64
	failed   int // starts in a row that did not get ready
	lastExit string
	pod      *history.Pod // where this incarnation lives in one
	vacated  bool         // its pod is gone; its process may live on
}

type epoch struct {
	id, lock, key, inc string
	granted            int64 // ns; 0 = not yet
	lost               int64 // observed: a fault had taken its key by then; 0 = none has
}

type loop struct{ lastTick int64 }

func newWorld(e *experiments.Experiment) *world {
	w := &world{
		byInc: map[string]*replica{}, epochs: map[string]*epoch{}, shown: map[string]*epoch{}, held: map[string]*epoch{}, unnamed: map[string]unnamed{}, unseen: map[string]string{}, loops: map[string]*loop{},
		finished: map[string]bool{}, done: map[string]int{}, lastDone: map[string]int64{}, terminal: map[string]int{}, open: map[string]int64{}, renewed: map[string]bool{}, begun: map[string]bool{}, named: map[string]int64{},
		pods: map[string]string{}, waiting: map[string]string{}, ends: history.Ends{}, fixed: e.System.Replicas, observed: e.Observed(), ready: readyWithin,
	}
	if e.Kubernetes != nil {
		w.ready = podReadyWithin
	}
	for _, name := range e.ReplicaNames() {
		w.replicas = append(w.replicas, &replica{name: name})
	}
	for i := range e.System.Locks {
		if e.System.Locks[i].Loop() {
			w.loops[e.System.Locks[i].Name] = &loop{}
		}
	}
	return w
}

// reset forgets what was seen: nothing runs, and every replica is to be started.
func (w *world) reset() {
	w.pool.Reset()
	w.replicas = w.replicas[:w.fixed]
	for _, r := range w.replicas {
		*r = replica{name: r.name, lives: r.lives}
		if !w.observed {
			r.startAt = 1
		}
	}
	for _, l := range w.loops {
		*l = loop{}
	}
	clear(w.byInc)
	clear(w.epochs)
	clear(w.shown)
	clear(w.held)
	clear(w.unnamed)
	clear(w.unseen)
	clear(w.finished)
	clear(w.done)
	clear(w.lastDone)
	clear(w.terminal)
	clear(w.open)
	clear(w.renewed)
	clear(w.begun)
	clear(w.named)
	clear(w.pods)
	clear(w.waiting)
	clear(w.ends)
	w.storeLost, w.extra, w.abandoned = "", 0, 0
}

// Observe takes note of a recorded event.
func (c *Conductor) Observe(e history.Event) {
	w := c.world
	c.wake = 0
	switch e.Kind {
	case history.ReplicaStart:
		if c.e.Kubernetes != nil || w.observed {
			w.notePod(e)
		}
	case history.ObjectKind:
		w.object(e, c.e.System.Restart)
	case history.LookKind:
		if w.observed {
			c.look(e)
		}
	case history.ReplicaReady:
		if r := w.byInc[e.Replica.Incarnation]; r != nil && r.inc == e.Replica.Incarnation && !r.vacated {
			r.ready, r.failed = true, 0
		}
	case history.ReplicaExit:
		w.exit(e, c.e.System.Restart)
	case history.AcquireInvoke:
		w.epochs[e.Epoch] = w.pool.New(epoch{id: e.Epoch, lock: e.Lock, key: e.Key, inc: e.Source})
	case history.AcquireReturn:
		ep := w.epochs[e.Epoch]
		if ep != nil && e.Call != nil && e.Call.ID != "" { // as the store calls it
			w.epochs[e.Call.ID] = ep
		}
		if ep != nil && e.Outcome == history.OK && (c.e.Kubernetes == nil || w.isAlive(ep.inc)) { // one whose pod is gone may live on, and is no victim
			ep.granted = e.To
			w.held[e.Key] = ep
			c.moment(ep, e)
		}
	case history.RenewReturn:
		if ep := w.epochs[e.Epoch]; ep != nil && e.Outcome == history.OK {
			w.renewed[e.Lock] = true
			c.moment(ep, e)
		}
	case history.ReleaseInvoke, history.FenceObserved:
		w.drop(e.Key, e.Epoch, e.To)
		if e.Kind == history.ReleaseInvoke {
			c.gaveBack(e.Epoch)
		}
	case history.JobAck:
		if e.Job.Ack != history.AckBusy {
			w.finish(e.Lock, e.Job.ID, e.To)
		}
	case history.LedgerEntry:
		c.entry(e)
	case history.AbandonKind:
		c.abandoned()
	case history.SampleKind:
		if e.Sample.Metric == history.AlertsFiring {
			c.alert(e.Sample)
		}
		c.abortSample(e.To, e.Sample)
	case history.LogMatch:
		c.abortLine(e)
	case history.FaultConfirmed, history.FaultVoid, history.FaultReverted, history.FaultVerified:
		c.landed(e)
	}
}

// Unseen takes note that the looks of a probe fail at present, and with what; "" = they do not. It changes no decision, but what is said of
// a lock of which no holder is known: who cannot look does not know that nobody holds it.
func (c *Conductor) Unseen(probe, why string) {
	if why == "" {
		delete(c.world.unseen, probe)
	} else {
		c.world.unseen[probe] = why
	}
}

// unlooked says why it is not known whether somebody holds a lock of an observed system; "" = its key was looked at.
func (c *Conductor) unlooked(l *experiments.Lock) string {
	probe, what := experiments.ProbeKeys, cmp.Or(l.Key, l.Pattern())
	if l.Lease != "" {
		probe, what = experiments.ProbeLeases, l.Lease
	}
	if why := c.world.unseen[probe]; c.world.observed && why != "" {
		return fmt.Sprintf("it is not known who holds %s, because it cannot be looked at: %s", what, why)
	}
	return ""
}

// finish notes that nothing is owed for a job any more.
func (w *world) finish(lock, job string, now int64) {
	if !w.finished[job] {
		w.lastDone[lock] = max(w.lastDone[lock], now)
		w.finished[job] = true
		w.done[lock]++
	}
}

// epoch is the last one of this name under the key; nil where none is known.
func (w *world) epoch(key, name string) *epoch {
	if !w.observed {
		return w.epochs[name]
	}
	if ep := w.shown[key]; ep != nil && ep.id == name {
		return ep
	}
	return nil
}

// drop notes that an epoch had lost its key by an instant: a look that was begun before, and is told later, does not say that it is held.
func (w *world) drop(key, epoch string, by int64) {
	ep := w.epoch(key, epoch)
	if ep == nil {
		return
	}
	if ep.lost = by; w.held[ep.key] == ep {
		delete(w.held, ep.key)
	}
}

func (w *world) exit(e history.Event, restart time.Duration) {
	r := w.byInc[e.Replica.Incarnation]
	if r == nil || r.inc != e.Replica.Incarnation || r.vacated {
		return
	}
	w.leave(r, e.Replica.Exit, e.At+int64(restart))
}

// leave ends the incarnation in a slot; the next is due at next.
func (w *world) leave(r *replica, how string, next int64) {
	if !r.ready && !w.observed {
		r.failed++
	}
	r.alive, r.ready, r.lastExit = false, false, how
	if !w.observed {
		r.startAt = next
	}
	for key, ep := range w.held {
		if ep.inc == r.inc {
			delete(w.held, key)
		}
	}
}

// entry takes note of an effect: ticks of loops, terminal states of jobs, and the x of exposed keys.
func (c *Conductor) entry(e history.Event) {
	w := c.world
	if !e.Entry.Accepted || e.Entry.Reason == history.ReasonReplay {
		return
	}
	if l := w.loops[e.Lock]; l != nil && e.Entry.Loop {
		l.lastTick = e.To
	}
	if source := c.e.EffectsOf(e.Lock); w.observed && (e.Entry.Loop || source != nil && source.Map.Begins(e.Entry.State)) {
		w.begun[e.Lock] = true
	}
	if w.observed && !e.Entry.Loop && !w.finished[e.Entry.Subject] {
		if _, known := w.open[e.Entry.Subject]; !known {
			w.open[e.Entry.Subject] = e.To
		}
	}
	if e.Entry.Terminal {
		delete(w.open, e.Entry.Subject)
		w.finish(e.Lock, e.Entry.Subject, e.To)
		w.terminal[e.Entry.Subject]++
		if w.terminal[e.Entry.Subject] > 1 {
			w.extra++
		}
		for _, a := range c.e.AbortWhen {
			if a.DuplicateTerminalStatesAbove != nil && w.extra > *a.DuplicateTerminalStatesAbove {
				c.Abort(history.AbortCondition, fmt.Sprintf("abort_when: %d duplicate terminal states are above %d", w.extra, *a.DuplicateTerminalStatesAbove))
			}
		}
	}
	for _, s := range c.series {
		s.effect(e, w.shown[e.Key])
	}
}

// abandoned counts locks that were given up by their holders.
func (c *Conductor) abandoned() {
	c.world.abandoned++
	for _, a := range c.e.AbortWhen {
		if a.AbandonmentsAbove != nil && c.world.abandoned > *a.AbandonmentsAbove {
			c.Abort(history.AbortCondition, fmt.Sprintf("abort_when: %d abandonments are above %d", c.world.abandoned, *a.AbandonmentsAbove))
		}
	}
}

// restart starts what is due.
func (c *Conductor) restart(now int64) {
	for _, r := range c.world.replicas {
		if r.startAt == 0 || r.failed >= failedStarts || !c.due(now, r.startAt) {
			continue
		}
		r.life++
		r.inc, r.alive, r.ready, r.startAt, r.startedA = r.incarnation(r.life), true, false, 0, now
		r.vacated, r.pod = false, nil
		c.world.byInc[r.inc] = r
		c.note(c.world.hungAt(r))
		c.out = append(c.out, Action{Start: &Start{Name: r.name, Incarnation: r.inc}})
	}
}

// incarnation names a life.
func (r *replica) incarnation(life int) string {
	for len(r.lives) < life {
		r.lives = append(r.lives, fmt.Sprintf("%s.%d", r.name, len(r.lives)+1))
	}
	return r.lives[life-1]
}

// lost says what cannot come back, as a word of run.abort and a sentence, or "".
func (w *world) lost() (what, why string) {
	for _, r := range w.replicas {
		if r.failed >= failedStarts {
			return history.AbortReplicasLost, fmt.Sprintf("replica %s cannot start: %d starts in a row failed, the last: %s", r.name, r.failed, r.lastExit)
		}
	}
	if w.storeLost != "" {
		return history.AbortStoreLost, w.storeLost
	}
	return "", ""
}

// unmet is something that the steady state lacks; the zero unmet is nothing. It is put into words only where somebody reads them: it is
// looked for at every step.
type unmet struct {
	text string // with the place of who
	who  string
	time time.Duration // without it; 0 = not said
	code history.Unsteady
}

func (l unmet) String() string {
	s := fmt.Sprintf(l.text, l.who)
	if l.time > 0 {
		s += " for " + l.time.Round(time.Millisecond).String()
	}
	return s
}

// missing is the first thing that the steady state lacks.
func (c *Conductor) missing(now int64) unmet {
	w := c.world
	if w.observed {
		return c.missingObserved(now)
	}
	for _, r := range w.replicas {
		if !r.ready {
			return unmet{text: "replica %s is not ready", who: r.name, code: history.NotReady}
		}
	}
	for i := range c.e.System.Locks {
		l := &c.e.System.Locks[i]
		if !l.Loop() {
			continue
		}
		loop := w.loops[l.Name]
		switch {
		case loop.lastTick == 0:
			return unmet{text: "no tick of loop %s has been accepted yet", who: l.Name}
		case c.due(now, loop.silentAt(l)):
			return unmet{text: "no tick of loop %s", who: l.Name, time: time.Duration(now - loop.lastTick)}
		case l.Policy.Loop.Mode == lockcore.LoopRenewed && l.Policy.RenewEvery > 0 && !w.renewed[l.Name]:
			return unmet{text: "no renewal of loop %s has worked yet", who: l.Name}
		}
	}
	for _, s := range c.streams {
		if s.done() == 0 {
			return unmet{text: "no job of %s has finished yet", who: s.work.Lock}
		}
		if l := s.lock; l.Policy.RenewEvery > 0 && s.work.Shortest() > 2*l.Policy.RenewEvery && !w.renewed[l.Name] {
			return unmet{text: "no renewal of %s has worked yet", who: l.Name}
		}
	}
	return unmet{}
}

// silentAt is when a loop that has not ticked again has been silent for too long: it ticks at the latest one lease and two polls after
// its last tick, whoever leads.
func (l *loop) silentAt(lock *experiments.Lock) int64 {
	p := lock.Policy.Loop
	return l.lastTick + int64(lock.Policy.TTL+time.Duration(2*(1+p.Jitter)*float64(p.Poll))+p.Tick+time.Second/4) + 1
}

// owner maps an epoch of a key to the incarnation that asked for it, and says whether that incarnation is alive.
func (c *Conductor) owner(key, epoch string) (incarnation string, alive bool) {
	ep := c.world.epoch(key, epoch)
	if ep == nil {
		return "", false
	}
	r := c.world.byInc[ep.inc]
	return ep.inc, r != nil && r.inc == ep.inc && r.alive
}

// heldKeys lists the keys of a lock that are held now, sorted: a seeded choice among them is repeatable.
func (w *world) heldKeys(lock string) []string {
	var keys []string
	for key, ep := range w.held {
		if ep.lock == lock {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}
