package analysis

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// epoch is one acquisition of a key that succeeded or may have.
type epoch struct {
	id, lock, key string
	replica       string // incarnation; "" where nobody claims it
	named         string // the source that says so, where nobody claims it; "" = the lock itself
	fence         int64  // 0 = not known
	n             int64  // the event that tells of the grant best

	acquires, renewals, releases []*call // releases: gives-back of every kind, undo included
	refusals                     []*call // acquires of others that were told that this epoch holds the key
	looks                        []*stretch
	back                         *call // its release, where only a look shows it
	works                        []*work
	pauses                       []pause // of its holder
	effects                      []*effect
	fenced, unowned, abandoned   *history.Event
	skipped                      int64 // the event release.skipped; 0 = none
	whySkipped                   string

	sure     bool         // surely granted; otherwise only possibly
	granted  history.Span // the instant of the grant
	rank     int          // place in the key's order of grants, 1 is the first; 0 = not surely granted
	stranger bool         // a token that a fault of ours put there
	// unexplained: looks showed its token, and nobody claims to have been granted it.
	unexplained bool
	ghost       bool // its holder claims it, and looks show that the key never carried it
	reused      bool // its token came back after it had been gone
	unbegun     bool // a takeover ended with an effect of it that was no begin
	unfenced    bool // granted after the fence order of its key broke: ranked by time, not by fence
	life        lease
	belief      *held // nil: no acquire was answered ok
}

// call is one operation at the locks' store.
type call struct {
	source  string
	epoch   string
	sent    history.Span // stamp before the call
	span    history.Span // bracket of its effect, if it had one; To is open until it returned
	outcome history.Outcome
	said    history.Outcome // what its caller says, whatever a look says
	fence   int64           // acquire, ok
	// answered is when it returned, where it did: an instant on the one clock, wider on another.
	answered history.Span
	result   string
	holder   string // held, other: whom the key named
	fault    string // the shot that made it fail
	ttl      int64
	told     int64 // invoke
	n        int64 // return, else invoke
	exited   bool  // returned
	refuted  bool  // a look speaks against what it was claimed to have done
}

// applied is the bracket in which the call took effect, if it did. An operation whose reply was lost may reach the store
// until flight after its caller gave up, or would have, had it lived.
func (c *call) applied(flight int64) history.Span {
	if c.outcome == history.OK {
		return c.span
	}
	return history.Span{From: c.span.From, To: plus(max(c.span.To, plus(c.span.From, flight)), flight)}
}

// work is one stretch of work under an epoch: a job, or a tick.
type work struct {
	subject    string
	start, end history.Span
	why        string // of the exit; "" = none was seen
	exit       int64  // the event; 0 = it ended by death, or nobody saw it
	by         string // who told of the exit
	valid      int64  // likewise: ns that were left, as the worker says
	hasValid   bool
	n          int64
}

// exited reports that its end was told of.
func (w *work) exited() bool { return w.exit != 0 }

// skipped reports that the worker found the job done and did nothing.
func (w *work) skipped() bool { return w.why == history.AckSkipped }

// held is a stretch with uncertain ends: surely (start.To, end.From), possibly (start.From, end.To).
type held struct{ start, end history.Span }

// stretch is one state of a lock key as the probe saw it, until it changed.
type stretch struct {
	epoch string // "" = absent
	first history.Span
	prev  history.Span // last look that showed the state before; From is never where there was none
	again history.Span // a later look at the same state, in the final reads; From is never where there was none
	next  *stretch
	pttl  int64
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
func (s *stretch) last() history.Span {
	switch {
	case s.again.From != never:
		return s.again
	case s.next != nil:
		return s.next.prev
	}
	return s.first
}

// keyIndex is all that is known about one lock key.
type keyIndex struct {
	name, lock string
	loop       bool
	all        []*epoch
	byID       map[string]*epoch // where they are many
	epochs     []*epoch          // surely granted ones, in the order of grants
	attempts   []*call           // acquires
	waits      []*wait
	looks      []*stretch
	ids        map[string]string // epochs by the store's own ids, where its workers name them otherwise
	effects    []*effect         // in the ledger's order
	jobs       []*job

	regressions []regression
	broken      bool              // the fence order does not hold over the whole run
	doubts      []verdict.Missing // why nothing that leans on claims about it can pass
}

// fewEpochs is up to how many of a key are looked through: nearly every job's key has one or two.
const fewEpochs = 8

// find is the epoch with this id; nil where there is none.
func (k *keyIndex) find(id string) *epoch {
	if k.byID != nil {
		return k.byID[id]
	}
	for _, e := range k.all {
		if e.id == id {
			return e
		}
	}
	return nil
}

func (k *keyIndex) add(e *epoch) {
	k.all = append(k.all, e)
	switch {
	case k.byID != nil:
		k.byID[e.id] = e
	case len(k.all) > fewEpochs:
		k.byID = make(map[string]*epoch, 2*len(k.all))
		for _, e := range k.all {
			k.byID[e.id] = e
		}
	}
}

// byName are the key's epochs by their ids.
func (k *keyIndex) byName() []*epoch {
	slices.SortFunc(k.all, func(a, b *epoch) int { return cmp.Compare(a.id, b.id) })
	return k.all
}

// epoch finds or makes the epoch with this id.
func (k *keyIndex) epoch(id string) *epoch {
	e := k.find(id)
	if e == nil {
		e = &epoch{id: id, lock: k.lock, key: k.name}
		k.add(e)
	}
	return e
}

// rename lets looks and refusals name epochs as their workers do.
func (k *keyIndex) rename() {
	if k.ids == nil {
		return
	}
	own := func(id *string) { *id = cmp.Or(k.ids[*id], *id) }
	for _, s := range k.looks {
		own(&s.epoch)
	}
	for _, c := range k.attempts {
		own(&c.holder)
	}
	for _, w := range k.waits {
		own(&w.holder)
	}
}

// next is the epoch that was granted after e; nil where none was. A stranger's is none, nor is a ghost.
func (k *keyIndex) next(e *epoch) *epoch {
	if e.rank == 0 {
		return nil
	}
	for _, o := range k.epochs[e.rank:] {
		if !o.stranger && !o.ghost {
			return o
		}
	}
	return nil
}

// following is the epoch that had the key next after that at place i, whoever put it there; nil where none did.
func (k *keyIndex) following(i int) *epoch {
	for _, o := range k.epochs[i+1:] {
		if !o.ghost {
			return o
		}
	}
	return nil
}

// preceding is the epoch that had the key before that at place i; nil where none did.
func (k *keyIndex) preceding(i int) *epoch {
	for _, o := range slices.Backward(k.epochs[:i]) {
		if !o.ghost {
			return o
		}
	}
	return nil
}

// owner is the epoch that surely held the key throughout s; nil where that is not known.
func (k *keyIndex) owner(s history.Span) *epoch {
	i, _ := slices.BinarySearchFunc(k.epochs, s.From, func(e *epoch, t int64) int { return cmp.Compare(e.granted.To, t+1) })
	for i > 0 && k.epochs[i-1].ghost {
		i--
	}
	if i == 0 || k.epochs[i-1].life.end.From < s.To {
		return nil
	}
	return k.epochs[i-1]
}

// grant fixes the bracket of e's grant from the claims, and narrows it by what the probes saw.
func (ix *Facts) grant(k *keyIndex, e *epoch) {
	g := history.Span{From: 0, To: open}
	from := int64(open)
	for _, c := range e.acquires {
		switch c.outcome {
		case history.OK:
			e.sure, e.n = true, c.n
			g.To = min(g.To, c.span.To)
			from = min(from, c.span.From)
		case history.Unknown:
			from = min(from, c.span.From)
			if e.n == 0 {
				e.n = c.n
			}
		}
	}
	if from != open {
		g.From = from
	}
	later := func(to, n int64) { // a sign that it had been granted by then
		e.sure = true
		g.To = min(g.To, to)
		if e.n == 0 {
			e.n = n
		}
	}
	for _, c := range slices.Concat(e.renewals, e.releases) {
		if c.outcome == history.OK {
			later(c.span.To, c.n)
		}
	}
	for _, f := range e.effects {
		later(f.span.To, f.n)
	}
	if e.sure || e.announced() || len(e.looks) > 0 { // a holder that nobody knows of is hearsay
		for _, c := range e.refusals {
			later(c.span.To, c.n)
		}
	}
	if e.granted = g; ix.exp.Observed() && len(e.looks) == 0 && len(e.effects) > 0 {
		e.granted = k.hiddenGrant(e)
	}
	ix.narrowGrant(k, e)
}

// narrowGrant intersects the grant with the look that first named the epoch. Evidence wins over claims.
func (ix *Facts) narrowGrant(k *keyIndex, e *epoch) {
	if len(e.looks) == 0 {
		return
	}
	s := e.looks[0]
	e.sure = true
	if e.n == 0 {
		e.n = s.n
	}
	seen := history.Span{From: 0, To: s.first.To}
	if s.prev.From != never {
		seen.From = s.prev.From
	}
	narrow, ok := e.granted.Intersect(seen)
	if !ok && ix.cameBack(e) {
		return
	}
	if !ok {
		ix.findAs(verdict.FindingOutsideCall, "key "+k.name+": the probe saw epoch "+e.id+" outside the call that acquired it", e.n, s.n)
		narrow = seen
	}
	e.granted = narrow
}

// believe fixes from when until when the holder relied on the lock.
func (ix *Facts) believe(e *epoch) {
	for _, c := range e.acquires {
		if c.outcome != history.OK {
			continue
		}
		h := &held{start: history.Span{From: max(e.granted.From, c.span.From), To: c.span.To}}
		if h.start.From > h.start.To {
			h.start.From = c.span.From
		}
		h.end = ix.lastSign(e.replica)
		for _, r := range e.releases {
			h.end = first(h.end, r.sent)
		}
		for _, ev := range []*history.Event{e.fenced, e.unowned} {
			if ev != nil {
				h.end = first(h.end, ev.Span)
			}
		}
		h.end.From = max(h.end.From, h.start.From)
		e.belief = h
		return
	}
}

// lastSign brackets the end of an incarnation: its death, else from its last word on.
func (ix *Facts) lastSign(incarnation string) history.Span {
	if d, ok := ix.deaths[incarnation]; ok {
		return d.Span
	}
	return history.Span{From: ix.claims[incarnation], To: open}
}
