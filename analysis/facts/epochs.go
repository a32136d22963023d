package facts

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Epoch is one acquisition of a key that succeeded or may have.
type Epoch struct {
	ID, Lock, Key string
	Replica       string // incarnation; "" where nobody claims it
	named         string // the source that says so, where nobody claims it; "" = the lock itself
	Fence         int64  // 0 = not known
	N             int64  // the event that tells of the grant best

	Acquires, Renewals, Releases []*Call // releases: gives-back of every kind, undo included
	refusals                     []*Call // acquires of others that were told that this epoch holds the key
	Looks                        []*keyState
	back                         *Call // its release, where only a look shows it
	Works                        []*Stint
	pauses                       []Pause // of its holder
	Effects                      []*effect
	fenced, unowned, Abandoned   *history.Event
	skipped                      int64 // the event release.skipped; 0 = none
	whySkipped                   string

	sure     bool         // surely granted; otherwise only possibly
	nth      int32        // of the grants of one value under the key: 0 is the first
	Granted  history.Span // the instant of the grant
	Rank     int          // place in the key's order of grants, 1 is the first; 0 = not surely granted
	Stranger bool         // a token that a fault of ours put there, or a roll-back of the store
	looked   bool         // observed: a look showed it
	goesOn   bool         // observed: another life of its holder's name went on with the lease of the epoch before
	// unexplained: looks showed its token, and nobody claims to have been granted it.
	unexplained bool
	Ghost       bool // its holder claims it, and looks show that the key never carried it
	reused      bool // its token came back after it had been gone
	unbegun     bool // a takeover ended with an effect of it that was no begin
	unfenced    bool // granted after the fence order of its key broke: ranked by time, not by fence
	Lease       lease
	Belief      *held // nil: no acquire was answered ok
}

// Call is one operation at the locks' store.
type Call struct {
	Source  string
	Of      *Epoch
	Sent    history.Span // stamp before the call
	Span    history.Span // bracket of its effect, if it had one; To is open until it returned
	Outcome history.Outcome
	fence   int64 // acquire, ok
	// answered is when it returned, where it did: an instant on the one clock, wider on another.
	answered history.Span
	Result   string
	holder   string // held, other: whom the key named
	fault    string // the shot that made it fail
	ttl      int64
	told     int64 // invoke
	n        int64 // return, else invoke
	Returned bool  // returned
	Refuted  bool  // it was claimed to have succeeded, and a look speaks against that
}

// saidOK reports that its caller says that it succeeded, whatever a look says.
func (c *Call) saidOK() bool { return c.Refuted || c.Outcome == history.OK }

// applied is the bracket in which the call took effect, if it did. An operation whose reply was lost may reach the store
// until flight after its caller gave up, or would have, had it lived.
func (c *Call) applied(flight int64) history.Span {
	if c.Outcome == history.OK {
		return c.Span
	}
	return history.Span{From: c.Span.From, To: Plus(max(c.Span.To, Plus(c.Span.From, flight)), flight)}
}

// Stint is one stretch of work under an epoch: a job, or a tick.
type Stint struct {
	subject    string
	Start, End history.Span
	why        string // of the exit; "" = none was seen
	exit       int64  // the event; 0 = it ended by death, or nobody saw it
	by         string // who told of the exit
	valid      int64  // likewise: ns that were left, as the worker says
	hasValid   bool
	N          int64
}

// exited reports that its end was told of.
func (w *Stint) exited() bool { return w.exit != 0 }

// skipped reports that the worker found the job done and did nothing.
func (w *Stint) skipped() bool { return w.why == history.AckSkipped }

// held is a stretch with uncertain ends: surely (start.To, end.From), possibly (start.From, end.To).
type held struct{ Start, End history.Span }

// keyState is one state of a lock key as the probe saw it, until it changed.
type keyState struct {
	epoch string // "" = absent
	of    *Epoch // observed: the grant that it shows; nil = absent, or the one that goes by that name
	First history.Span
	prev  history.Span // last look that showed the state before; From is never where there was none
	again history.Span // a later look at the same state, in the final reads; From is never where there was none
	next  *keyState
	pttl  int64
	hash  bool  // without expiry
	slack int64 // by which pttl may be too much
	// What was left of the lease that prev and again show; 0 where they do not say.
	prevLeft, againLeft int64
	// extended: an observed lease surely lasts longer than by the look before.
	extended bool
	direct   bool // it came right after the state before: nothing lies between
	n        int64
}

// never is the beginning of a stretch of time that was not.
const never = math.MinInt64

// last is the latest look that surely showed the state.
func (s *keyState) last() history.Span {
	switch {
	case s.again.From != never:
		return s.again
	case s.next != nil:
		return s.next.prev
	}
	return s.First
}

// shownLast is the last state of the key that shows e; nil where none does.
func (e *Epoch) shownLast() *keyState {
	if len(e.Looks) == 0 {
		return nil
	}
	return e.Looks[len(e.Looks)-1]
}

// shownGone is the state that showed that e's key was not e's any more; nil where none did.
func (e *Epoch) shownGone() *keyState {
	if last := e.shownLast(); last != nil {
		return last.next
	}
	return nil
}

// Key is all that is known about one lock key.
type Key struct {
	Name, Lock string
	Loop       bool
	All        []*Epoch
	byID       map[string]*Epoch // where they are many
	Epochs     []*Epoch          // surely granted ones, in the order of grants
	Attempts   []*Call           // acquires
	waits      []*wait
	Looks      []*keyState
	ids        map[string][]*Call // epochs by the store's own ids, where its workers name them otherwise
	Effects    []*effect          // in the ledger's order
	Jobs       []*job
	taken      *history.Span // when a fault of ours last took it, and it was seen to be gone

	Regressions []regression
	Broken      bool              // the fence order does not hold over the whole run
	Doubts      []verdict.Missing // why nothing that leans on claims about it can pass
}

// fewEpochs is up to how many of a key are looked through: nearly every job's key has one or two.
const fewEpochs = 8

// Find is the epoch with this id, the last one where there are several; nil where there is none.
func (k *Key) Find(id string) *Epoch {
	if k.byID != nil {
		return k.byID[id]
	}
	for _, e := range slices.Backward(k.All) {
		if e.ID == id {
			return e
		}
	}
	return nil
}

func (k *Key) add(e *Epoch) {
	k.All = append(k.All, e)
	switch {
	case k.byID != nil:
		k.byID[e.ID] = e
	case len(k.All) > fewEpochs:
		k.byID = make(map[string]*Epoch, 2*len(k.All))
		for _, e := range k.All {
			k.byID[e.ID] = e
		}
	}
}

// byName are the key's epochs by their ids, those of one value in the order of their grants.
func (k *Key) byName() []*Epoch {
	slices.SortFunc(k.All, func(a, b *Epoch) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.nth, b.nth)) })
	return k.All
}

// epoch finds or makes the epoch with this id.
func (k *Key) epoch(id string) *Epoch {
	e := k.Find(id)
	if e == nil {
		e = &Epoch{ID: id, Lock: k.Lock, Key: k.Name}
		k.add(e)
	}
	return e
}

// rename lets looks and refusals name epochs as their workers do.
func (ix *Facts) rename(k *Key) {
	if !ix.idsLate[k.Lock] {
		return
	}
	ix.nameUnanswered(k)
	ix.joinRepeated(k)
	for _, s := range k.Looks {
		s.epoch = k.own(s.epoch, s.First.To)
	}
	for _, c := range k.Attempts {
		c.holder = k.own(c.holder, c.Span.To)
	}
	for _, w := range k.waits {
		w.holder = k.own(w.holder, w.end.To)
	}
}

// own is what its worker calls the epoch that was known by id at a time.
func (k *Key) own(id string, at int64) string {
	name := id
	for i, c := range k.ids[id] { // a store that has lost its data may use an id again: the last that was asked for by then
		if i == 0 || c.Span.From <= at {
			name = c.Of.ID
		}
	}
	return name
}

// nameHits lets what a burst hit name epochs as their workers do. An acquire that was hit has no id yet: it is the one that its caller had
// under way.
func (ix *Facts) nameHits(s *Shot) {
	for i, h := range s.hits {
		k := ix.Keys[h.Key]
		if k == nil || !ix.idsLate[k.Lock] {
			continue
		}
		named := *h
		named.Epoch = k.own(h.Epoch, h.To)
		for _, c := range k.Attempts {
			if h.Epoch == "" && s.Does.Fails == lockcore.OpAcquire && c.Source == h.Fault.Victim && c.Span.From <= h.To && c.Span.To >= h.From {
				named.Epoch = c.Of.ID
			}
		}
		s.hits[i] = &named
	}
}

// nameUnanswered finds the acquires whose answers would have said the ids that looks show, and never came. An id that several of them may
// have stays nobody's.
func (ix *Facts) nameUnanswered(k *Key) {
	named := map[*Epoch]bool{} // epochs whose ids are known
	for _, calls := range k.ids {
		for _, c := range calls {
			named[c.Of] = true
		}
	}
	flight := ix.flight(ix.policy(k.Lock).Acquire.Timeout)
	for _, s := range k.Looks {
		if s.epoch == "" || k.ids[s.epoch] != nil || k.Find(s.epoch) != nil {
			continue
		}
		of, several := ix.unanswered(k, s, flight, func(c *Call) bool { return !named[c.Of] })
		if of == nil || several {
			continue
		}
		if k.ids == nil {
			k.ids = map[string][]*Call{}
		}
		k.ids[s.epoch], named[of.Of] = []*Call{of}, true
	}
}

// joinRepeated finds acquires that were told the id of a key which looks had shown before they were sent: the same process had put it there
// by an acquire whose answer never came, as etcd's Mutex and Election do, whose key is named by their session. Both calls are of one epoch.
func (ix *Facts) joinRepeated(k *Key) {
	flight := ix.flight(ix.policy(k.Lock).Acquire.Timeout)
	for _, s := range k.Looks {
		calls := k.ids[s.epoch]
		if len(calls) != 1 || s.First.To >= calls[0].Span.From {
			continue
		}
		again := calls[0]
		of, several := ix.unanswered(k, s, flight, func(c *Call) bool {
			return c.Source == again.Source && c.Span.From < again.Span.From && c.Of != again.Of
		})
		if of == nil || several {
			continue
		}
		of.Of.Acquires = slices.DeleteFunc(of.Of.Acquires, func(c *Call) bool { return c == of })
		again.Of.Acquires = append(again.Of.Acquires, of)
		of.Of = again.Of
	}
}

// unanswered is an acquire of unknown outcome that may have been granted when looks began to show s, and whether there are several.
func (ix *Facts) unanswered(k *Key, s *keyState, flight int64, may func(*Call) bool) (of *Call, several bool) {
	within := history.Span{From: max(0, s.prev.From), To: s.First.To}
	for _, c := range k.Attempts {
		if c.Outcome != history.Unknown || !may(c) {
			continue
		}
		if _, fits := within.Intersect(c.applied(flight)); fits {
			of, several = c, of != nil
		}
	}
	return of, several
}

// owner is the epoch that surely held the key throughout s; nil where that is not known.
func (k *Key) owner(s history.Span) *Epoch {
	i, _ := slices.BinarySearchFunc(k.Epochs, s.From, func(e *Epoch, t int64) int { return cmp.Compare(e.Granted.To, t+1) })
	for i > 0 && k.Epochs[i-1].Ghost {
		i--
	}
	if i == 0 || k.Epochs[i-1].Lease.Freed.From < s.To {
		return nil
	}
	return k.Epochs[i-1]
}

// grant fixes the bracket of e's grant from the claims, and narrows it by what the probes saw.
func (ix *Facts) grant(k *Key, e *Epoch) {
	g := history.Span{From: 0, To: Open}
	from := int64(Open)
	for _, c := range e.Acquires {
		switch c.Outcome {
		case history.OK:
			e.sure, e.N = true, c.n
			g.To = min(g.To, c.Span.To)
			from = min(from, c.Span.From)
		case history.Unknown:
			from = min(from, c.Span.From)
			if e.N == 0 {
				e.N = c.n
			}
		}
	}
	if from != Open {
		g.From = from
	}
	later := func(to, n int64) { // a sign that it had been granted by then
		e.sure = true
		g.To = min(g.To, to)
		if e.N == 0 {
			e.N = n
		}
	}
	for _, c := range slices.Concat(e.Renewals, e.Releases) {
		if c.Outcome == history.OK {
			later(c.Span.To, c.n)
		}
	}
	for _, f := range e.Effects {
		later(f.Span.To, f.N)
	}
	if e.sure || e.announced() || len(e.Looks) > 0 { // a holder that nobody knows of is hearsay
		for _, c := range e.refusals {
			later(c.Span.To, c.n)
		}
	}
	if e.Granted = g; ix.Exp.Observed() && len(e.Looks) == 0 && len(e.Effects) > 0 {
		e.Granted = k.hiddenGrant(e)
	}
	ix.narrowGrant(k, e)
}

// narrowGrant intersects the grant with the look that first named the epoch. Evidence wins over claims.
func (ix *Facts) narrowGrant(k *Key, e *Epoch) {
	if len(e.Looks) == 0 {
		return
	}
	s := e.Looks[0]
	e.sure = true
	if e.N == 0 {
		e.N = s.n
	}
	seen := history.Span{From: 0, To: s.First.To}
	if s.prev.From != never {
		seen.From = s.prev.From
	}
	narrow, ok := e.Granted.Intersect(seen)
	if !ok && ix.cameBack(e) {
		return
	}
	if !ok {
		ix.findAs(verdict.FindingOutsideCall, "key "+k.Name+": the probe saw epoch "+e.ID+" outside the call that acquired it", e.N, s.n)
		narrow = seen
	}
	e.Granted = narrow
}

// believe fixes from when until when the holder relied on the lock.
func (ix *Facts) believe(e *Epoch) {
	for _, c := range e.Acquires {
		if c.Outcome != history.OK {
			continue
		}
		h := &held{Start: history.Span{From: max(e.Granted.From, c.Span.From), To: c.Span.To}}
		if h.Start.From > h.Start.To {
			h.Start.From = c.Span.From
		}
		h.End = ix.lastSign(e.Replica)
		for _, r := range e.Releases {
			h.End = first(h.End, r.Sent)
		}
		for _, ev := range []*history.Event{e.fenced, e.unowned} {
			if ev != nil {
				h.End = first(h.End, ev.Span)
			}
		}
		h.End.From = max(h.End.From, h.Start.From)
		e.Belief = h
		return
	}
}
