package conductor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Replicas in pods. A slot is free again when the pod's object is gone or the life in it has ended, whichever is seen first: what
// replaces the pod comes when the object goes, and the old process may live on for seconds. Of an observed system nothing is started
// and nothing claimed: who lives is known from the fleet's events, and who holds from the looks at the locks.

// notePod notes which pod an incarnation lives in; of an observed system, also that it is there.
func (w *world) notePod(e history.Event) {
	inc := e.Replica.Incarnation
	if w.observed {
		w.appear(e)
	}
	r := w.byInc[inc]
	if r == nil || r.inc != inc {
		return
	}
	r.pod, r.startedA = e.Replica.Pod, e.To
	if r.pod != nil {
		w.pods[r.pod.UID] = inc
	}
}

// appear gives a life that nobody here asked for its slot.
func (w *world) appear(e history.Event) {
	i := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.name == e.Replica.Name })
	if i < 0 {
		i = len(w.replicas)
		w.replicas = append(w.replicas, &replica{name: e.Replica.Name})
	}
	r := w.replicas[i]
	w.leave(r, "another took its place", 0)
	r.inc, r.alive, r.vacated = e.Replica.Incarnation, true, false
	w.byInc[r.inc] = r
}

// object notes what a pod waits for, and frees the slot of one that is gone.
func (w *world) object(e history.Event, restart time.Duration) {
	if o := e.Object; o.Gone {
		delete(w.waiting, o.Name)
	} else {
		w.waiting[o.Name] = o.Waiting
	}
	r := w.byInc[w.pods[e.Object.UID]]
	if !e.Object.Gone || r == nil || !r.alive || r.pod == nil || r.pod.UID != e.Object.UID {
		return
	}
	w.leave(r, "its pod is gone", e.At+int64(restart))
	r.vacated = true
}

// mostWaiting bounds how many pods a sentence names.
const mostWaiting = 3

// waits says what the pods wait for that are not ready, for the end of a sentence; "" = none says.
func (c *Conductor) waits() string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(c.world.waiting)) {
		if what := c.world.waiting[name]; what != "" {
			said = append(said, fmt.Sprintf("; pod %s waits: %s", name, what))
		}
	}
	if more := len(said) - mostWaiting; more > 0 {
		said = append(said[:mostWaiting], fmt.Sprintf("; %d more wait", more))
	}
	return strings.Join(said, "")
}

// isAlive reports an incarnation that is in its slot.
func (w *world) isAlive(incarnation string) bool {
	r := w.byInc[incarnation]
	return r != nil && r.inc == incarnation && r.alive
}

// look takes note of whom a lock of an observed system names.
func (c *Conductor) look(e history.Event) {
	w, l := c.world, e.Look
	over := w.ends.Over(e)
	extended := w.ends.Extended(e)
	ep, last := w.epoch(e.Key, e.Epoch), w.shown[e.Key]
	switch delete(w.unnamed, e.Key); {
	case !l.Present || ep == nil && l.Holder == "":
		delete(w.shown, e.Key) // should the value come back, it is of another grant
	case ep == nil, l.Holder != "" && l.Holder != ep.inc: // or another life of its holder's name goes on with its lease
		ep = w.pool.New(epoch{id: e.Epoch, lock: e.Lock, key: e.Key, inc: l.Holder})
		w.shown[e.Key] = ep
	}
	if l.Present && ep == nil {
		w.unnamed[e.Key] = unnamed{e.Lock, l.Disputed}
	}
	if !l.Present || ep == nil || !w.isAlive(ep.inc) || e.From < ep.lost {
		delete(w.held, e.Key)
		return
	}
	w.held[e.Key], w.named[e.Lock] = ep, e.To
	anew := ep.granted == 0
	if anew {
		ep.granted = e.To
	}
	switch {
	case anew && (over || !extended || last == nil || last.inc != ep.inc): // else its holder renews by another value
		e.Kind = history.AcquireReturn
		c.moment(ep, e)
	case extended:
		w.renewed[e.Lock] = true
		e.Kind = history.RenewReturn
		c.moment(ep, e)
	}
	for _, s := range c.series {
		if !w.begun[e.Lock] { // else an effect ends the takeover, and not the grant
			s.effect(e, ep)
		}
	}
}

// missingObserved is the first thing that the steady state of an observed system lacks: enough pods that are ready, and a holder of
// every lock among them, that has renewed it where the policy renews.
func (c *Conductor) missingObserved(now int64) unmet {
	w, ready := c.world, 0
	for _, r := range w.replicas {
		if r.ready {
			ready++
		}
	}
	if ready < c.e.System.Replicas {
		few := unmet{text: "too few replicas are ready: %s", who: fmt.Sprintf("%d of %d", ready, c.e.System.Replicas)}
		if why := c.unfound(); why != "" {
			few.who, few.code = few.who+why, history.CannotLook
		}
		return few
	}
	for i := range c.e.System.Locks {
		l := &c.e.System.Locks[i]
		switch {
		case !l.Loop(), c.freeForNow(l, now):
		case !c.isHeld(l.Name, now):
			_, why := w.unnamedHolder(l.Name)
			if cannot := c.unlooked(l); cannot != "" {
				return unmet{text: "no replica that is known holds lock %s", who: l.Name + ": " + cannot, code: history.CannotLook}
			}
			if why == "" {
				why = "nobody holds " + cmp.Or(l.Lease, "key "+l.Key)
				if w.observed && l.Lease == "" && c.e.InRedis() {
					why += ", as far as can be read: no text stands there, and no hash that expires"
				}
			}
			return unmet{text: "no replica that is known holds lock %s", who: l.Name + ": " + why, code: history.NoKnownHolder}
		case l.Policy.Loop.Mode == lockcore.LoopRenewed && l.Policy.RenewEvery > 0 && !w.renewed[l.Name]:
			return unmet{text: "no renewal of lock %s has been seen yet", who: l.Name}
		}
	}
	return unmet{}
}

// Replicas is, beside the probes, what the looks for replicas are called that nobody starts.
const Replicas = "replicas"

// unfound is what is said beside "no replica" where that is not known, because they cannot be looked for at present; else "".
func (c *Conductor) unfound() string {
	if why := c.world.unseen[Replicas]; why != "" {
		return ", as far as is known: they cannot be looked for: " + why
	}
	return ""
}

// unnamed is a key of an observed system that somebody holds of whom nobody said who that is.
type unnamed struct{ lock, disputed string }

// unnamedHolder says why it is not known who holds a lock, where somebody does; word is "" where nobody holds it without a name.
func (w *world) unnamedHolder(lock string) (word history.VoidReason, why string) {
	for _, key := range slices.Sorted(maps.Keys(w.unnamed)) {
		switch u := w.unnamed[key]; {
		case u.lock != lock:
		case u.disputed != "":
			return history.HolderDisputed, fmt.Sprintf("who holds key %s is disputed: %s", key, u.disputed)
		case word == "":
			word, why = history.HolderUnknown, fmt.Sprintf("key %s is held, and no source says by which replica", key)
		}
	}
	return word, why
}

// isHeld reports that a lease of the lock may not have run out: a Lease object goes on naming a holder that hangs.
func (c *Conductor) isHeld(lock string, now int64) (held bool) {
	for _, ep := range c.world.held {
		if end, ends := c.world.ends[ep.key]; ep.lock == lock {
			held = !ends || !c.due(now, end+1) || held
		}
	}
	return held
}

// freeForNow reports a key that its loop gives up after each tick, or leaves to its TTL, and that a known replica held so lately that the
// next tick is not overdue.
func (c *Conductor) freeForNow(l *experiments.Lock, now int64) bool {
	p := l.Policy.Loop
	next := l.Policy.TTL + p.Poll + time.Duration(float64(p.Poll)*p.Jitter) + l.Policy.Acquire.Timeout
	at, named := c.world.named[l.Name]
	return p.Mode != lockcore.LoopRenewed && named && !c.due(now, at+int64(next)+1)
}

// besides are the incarnations that live on the node of this one, in the order of their names.
func (w *world) besides(inc string) []string {
	at := w.byInc[inc]
	if at == nil || at.pod == nil || at.pod.Node == "" {
		return []string{inc}
	}
	var all []string
	for _, r := range w.replicas {
		if r.alive && r.pod != nil && r.pod.Node == at.pod.Node {
			all = append(all, r.inc)
		}
	}
	return all
}
