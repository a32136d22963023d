package sim

import (
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Truth is what really happened, to the nanosecond.
type Truth struct {
	Epochs []Epoch // one for each acquire that was sent, in that order
	Works  []Work
	Writes []Write // what the ledger applied or refused, in its order
	Stops  []*Stop
	Deaths map[string]int64 // by incarnation; a replica that ended by itself too
}

// Epoch is the truth about one acquire. Times are Never where it did not come to that.
type Epoch struct {
	Lock, Key, ID, Replica string
	token                  int

	Asked    int64
	Granted  int64 // at the store
	Freed    int64 // the key was free, for the first time
	Due      int64 // the end that the store owed it by the last renewal, had nobody cut it short
	Believed [2]int64
	Stopped  int64 // its holder had stopped relying on it, or its acquire was given up
	Orphan   bool  // its caller never learnt of the grant
	Reached  int64 // the first try to give it back came to the store
	Settled  bool  // a give-back was answered, or skipped
	Planned  bool  // left to its TTL
	Fence    int64
	Stranger bool // a fault put it there

	Abandoned int64 // work in progress was given up
	Reason    lockcore.Reason
}

// Work is one stretch of work. To is Never where it went on to the end of the world, else the exit or the death.
type Work struct {
	Epoch    int // index of Epochs
	Subject  string
	From, To int64
	Died     bool
}

// Write is one entry of the ledger.
type Write struct {
	At       int64
	Epoch    int
	Key      string
	Subject  string
	State    string
	Terminal bool
	Accepted bool
}

// Enters reports an effect that shows that its epoch works: begin, or a tick.
func (w *Write) Enters() bool { return w.State == history.StateBegin || w.State == history.StateTick }

// Stop is a stretch in which a process stood still.
type Stop struct {
	Replica  string
	From, To int64
}

// Truth is what has happened so far. It belongs to the world: it changes with it, and ends with Reset.
func (w *World) Truth() *Truth {
	for _, k := range w.sorted() {
		w.expire(k)
	}
	for i := range w.truth.Epochs {
		w.truth.Epochs[i].ID = w.epochOf(w.truth.Epochs[i].token)
	}
	return &w.truth
}

func (t *Truth) reset() {
	t.Epochs, t.Works, t.Writes, t.Stops = t.Epochs[:0], t.Works[:0], t.Writes[:0], t.Stops[:0]
	if t.Deaths == nil {
		t.Deaths = map[string]int64{}
	}
	clear(t.Deaths)
}

// epoch makes the record of a new token, and gives its number.
func (t *Truth) epoch(l *lease) int {
	n := len(t.Epochs) + 1
	t.Epochs = append(t.Epochs, Epoch{Lock: l.lock.Name, Key: l.key.name, Replica: l.r.Incarnation, token: n, Asked: l.w.now,
		Granted: Never, Freed: Never, Due: Never, Believed: [2]int64{Never, Never}, Stopped: Never, Reached: Never, Abandoned: Never})
	return n
}

func (t *Truth) of(token int) *Epoch { return &t.Epochs[token-1] }

func (t *Truth) storeGranted(token int, at, fence int64) {
	if e := t.of(token); e.Granted == Never {
		e.Granted, e.Fence = at, fence
	}
}

func (t *Truth) extended(token int, ends int64) {
	if token > 0 {
		t.of(token).Due = ends
	}
}

func (t *Truth) freed(token int, at int64) {
	if token > 0 {
		t.of(token).Freed = min(t.of(token).Freed, at)
	}
}

func (t *Truth) giveBackReached(token int, at int64) {
	if e := t.of(token); e.Granted != Never {
		e.Reached = min(e.Reached, at)
	}
}

// told is an answer at the caller: the belief begins with the grant's, and an acquire without one is an orphan.
func (t *Truth) told(c *call, r lockcore.Result) {
	e := t.of(c.token)
	switch {
	case c.Op != lockcore.OpAcquire:
		if c.Op != lockcore.OpRenew {
			e.Settled = true
		}
	case r == lockcore.OK:
		e.Believed[0] = c.lease.w.now
	case r == lockcore.Unknown:
		e.Orphan, e.Stopped = true, c.lease.w.now
	}
}

// fenced is the end of the belief, by the holder's own lights.
func (t *Truth) fenced(l *lease, a *lockcore.Action) {
	e := t.of(l.token)
	e.Believed[1] = min(e.Believed[1], l.w.now)
	if a.Kind == lockcore.ActFence && a.Working {
		e.Abandoned, e.Reason = l.w.now, a.Reason
	}
}

// stopped is the end of the holder's use. A key that is left to its TTL is relied on until then.
func (t *Truth) stopped(l *lease, kind lockcore.InputKind) {
	e := t.of(l.token)
	e.Stopped = min(e.Stopped, l.w.now)
	if kind == lockcore.Stop && l.lock.Policy.Release.Mode != lockcore.ReleaseNone {
		e.Believed[1] = min(e.Believed[1], l.w.now)
	}
}

// skipped is the end of a lease that is not given back.
func (t *Truth) skipped(l *lease, a *lockcore.Action) {
	e := t.of(l.token)
	e.Settled = true
	e.Planned = e.Planned || a.Reason == lockcore.ReasonTTLHold
}

func (t *Truth) entered(k *task) int {
	t.Works = append(t.Works, Work{Epoch: k.lease.token - 1, Subject: k.subject, From: k.r.w.now, To: Never})
	return len(t.Works) - 1
}

func (t *Truth) exited(k *task) { t.Works[k.stretch].To = k.r.w.now }

func (t *Truth) died(r *replica) {
	now := r.w.now
	t.Deaths[r.Incarnation] = now
	for i := range t.Works {
		if w := &t.Works[i]; w.To == Never && t.Epochs[w.Epoch].Replica == r.Incarnation {
			w.To, w.Died = now, true
		}
	}
	for i := range t.Epochs {
		if e := &t.Epochs[i]; e.Replica == r.Incarnation && e.Believed[0] != Never && e.Believed[1] == Never {
			e.Believed[1] = now
		}
	}
}

func (t *Truth) wrote(w *World, e *write) {
	t.Writes = append(t.Writes, Write{At: w.now, Epoch: e.token - 1, Key: e.Key, Subject: e.Subject, State: e.State,
		Terminal: e.Terminal, Accepted: e.receipt.Accepted})
}
