package analysis

import (
	"io"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/signals"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Facts are a history turned once into what judging, pictures and comparisons ask for: epochs with their brackets, effects in the
// ledger's order, shots of faults, coverage of the probes. They conclude nothing about SLOs, and hold no event of the kinds that a
// history is full of.
type Facts struct {
	judger      *Judger
	exp         *experiments.Experiment // scaled
	header      history.Header
	torn        string
	cal         history.Calibration
	environment *history.Environment
	prediction  *history.Event // what rehearsals gave before the drill; nil = none recorded

	keys     map[string]*keyIndex
	keyOrder []*keyIndex // in the order of their first event
	byLock   map[string][]*keyIndex
	jobs     map[string]*job
	jobOrder []*job
	replicas map[string][]*epoch // epochs by incarnation

	effects   []*effect // all keys, in the ledger's order
	writes    map[opKey]*claim
	deaths    map[string]death
	exits     []*history.Event // replica.exit, one a life
	starts    []*history.Event // replica.start
	ready     map[string]int64 // incarnations, and by when each was
	heard     map[string]bool  // incarnations that lifeOrder has
	lifeOrder []firstHeard     // in the order in which they were first heard of
	gone      []*history.Event // objects of lives
	claims    map[string]int64 // last word of an incarnation
	pauses    map[string][]pause
	shots     []*shot
	probes    map[string]*coverage
	samples   signals.Samples
	raised    []raised
	late      []lateStretch // in their order
	lines     signals.Lines

	ledgered map[string]bool // locks of which the ledger has entries
	asked    map[string]bool // locks of which an acquire was announced
	idsLate  map[string]bool // locks whose epochs have ids of the store that are known only with the grant
	claimed  map[string]bool // locks whose acquires somebody claims: without, no demand cannot be told from no witness

	only           *consequence // these are part of the facts, those of one shot at one lock; nil = all
	last           int64        // stamp of the last event
	phases         map[string]*history.Event
	losses         []history.Span   // the locks' store lost its data, or may have
	lives          []*history.Event // its new incarnations, which say so
	lostLedger     []string         // why the ledger cannot be relied on
	damage         several          // where the record contradicts itself
	aborts         []*history.Event
	cleanups       []*history.Event
	end            *history.Event
	findings       []verdict.Finding
	monitor        *verdict.MonitorCost
	holdersBy      map[string]int // epochs of observed keys, by the source that named their holder
	contradictions int            // of these, found while it was read
}

// opKey names an operation of somebody, or at a key.
type opKey struct{ of, op string }

// job is one piece of work under a lock key of its own.
type job struct {
	id, lock, key string
	class         string
	offered       history.Span // first offer
	hold          int64        // ns of work that it needs
	n             int64
	terminals     []*effect // accepted, new
	states        []*effect // accepted, new, neither begin nor tick
}

type death struct {
	history.Span
	n    int64
	exit string // as replica.exit says
}

// firstHeard is what was first heard of an incarnation.
type firstHeard struct {
	incarnation string
	start       history.Span
}

// wait is one bounded wait for a key, by its refusal and its end.
type wait struct {
	source     string
	begin, end history.Span
	outcome    history.Outcome
	holder     string
	n          int64
}

// Read takes in a history in one pass. e is the experiment as loaded (not scaled). An error is h's: its line that is no event.
func Read(e *experiments.Experiment, h history.Source) (*Facts, error) { return NewJudger(e).Read(h) }

// FactsOf is Read of what is in memory.
func FactsOf(e *experiments.Experiment, h *history.History) *Facts { return NewJudger(e).whole(h) }

// read takes in all of h.
func (ix *Facts) read(h history.Source) error {
	r := newReader(ix)
	for {
		ev, err := h.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if !r.again(ev) {
			r.read(ev)
		}
		ix.last = max(ix.last, ev.To)
	}
	ix.torn = h.Torn()
	ix.derive()
	ix.contradictions = len(ix.findings)
	return nil
}

// Experiment is the one that was run, as loaded.
func (ix *Facts) Experiment() *experiments.Experiment { return ix.judger.file }

// Header is the history's.
func (ix *Facts) Header() history.Header { return ix.header }

// AsLive are the same facts as of a live run.
func (ix *Facts) AsLive() *Facts {
	live := *ix
	live.header.Mode = history.Live
	return &live
}

// Environment is what the run stood on; nil where it does not say.
func (ix *Facts) Environment() *history.Environment { return ix.environment }

// derive fixes the brackets, in the order in which they lean on one another.
func (ix *Facts) derive() {
	for _, s := range ix.shots {
		s.noteDeath(ix)
	}
	for _, k := range ix.keyOrder {
		ix.rename(k)
		ix.attach(k)
	}
	for _, s := range ix.shots {
		ix.nameHits(s)
	}
	ix.tellClocks()
	ix.closeDead()
	ix.placeEffects()
	ix.checkShots()
	if len(ix.lostLedger) == 0 && !ix.exp.Observed() {
		ix.replay()
	}
	for _, k := range ix.keyOrder {
		ix.refute(k)
		ix.order(k)
		for i, e := range k.epochs {
			if !e.ghost {
				ix.leaseOf(k, e, k.following(i))
			}
			ix.believe(e)
			ix.endWorks(e)
			if e.replica != "" {
				ix.replicas[e.replica] = append(ix.replicas[e.replica], e)
			}
		}
		ix.attribute(k)
		ix.checkCalls(k)
	}
	ix.checkWrites()
	ix.markStrangers()
	ix.endless()
	for _, k := range ix.keyOrder {
		ix.renewedAfterWork(k)
		if ix.announces(k.lock) {
			ix.explain(k)
		}
	}
	for _, s := range ix.shots {
		s.conclude(ix)
	}
	kills := map[string]*shot{}
	for _, s := range ix.shots {
		s.afterDeath(kills)
	}
	for _, s := range ix.shots {
		s.settle(ix)
	}
	ix.takePausesOff()
}

// attach gives the epochs of k what others saw of them.
func (ix *Facts) attach(k *keyIndex) {
	for _, c := range k.attempts {
		if c.holder != "" {
			e := k.epoch(c.holder)
			e.refusals = append(e.refusals, c)
		}
	}
	for _, s := range k.looks {
		if s.epoch != "" {
			ix.seen(k, s)
		}
	}
}

// key finds or makes the index of the event's key.
func (ix *Facts) key(ev *history.Event) *keyIndex {
	k := ix.keys[ev.Key]
	if k == nil {
		k = &keyIndex{name: ev.Key, lock: ev.Lock}
		if l := ix.exp.Lock(ev.Lock); l != nil {
			k.loop = l.Loop()
		}
		ix.keys[ev.Key] = k
		ix.keyOrder = append(ix.keyOrder, k)
		ix.byLock[k.lock] = append(ix.byLock[k.lock], k)
	}
	return k
}

// keysOf lists the keys of a lock.
func (ix *Facts) keysOf(lock string) []*keyIndex { return ix.byLock[lock] }

// policy of the lock; the zero policy where it is not declared.
func (ix *Facts) policy(lock string) lockcore.Policy {
	if l := ix.exp.Lock(lock); l != nil {
		return l.Policy
	}
	return lockcore.Policy{}
}

// find notes a contradiction between two ways to know the same thing.
func (ix *Facts) find(what string, evidence ...int64) { ix.findAs("", what, evidence...) }

// findAs is find of a contradiction that others decide by.
func (ix *Facts) findAs(code verdict.FindingCode, what string, evidence ...int64) {
	ix.findings = append(ix.findings, verdict.Finding{Code: code, What: what, Evidence: cite(evidence...)})
}

// closeDead ends the calls that their callers took to the grave: what was not sent by then never was.
func (ix *Facts) closeDead() {
	for _, k := range ix.keyOrder {
		for _, e := range k.all {
			for c := range e.calls() {
				if d, ok := ix.deaths[c.source]; ok && !c.exited {
					c.span.To = max(c.span.From, d.To)
				}
			}
		}
	}
}

// endWorks ends work that has no exit with its holder's death, or leaves it open. It surely went on to the holder's last word, or to the
// last effect of the epoch that the ledger shows: the line of its exit may have died with the holder.
func (ix *Facts) endWorks(e *epoch) {
	for _, w := range e.works {
		if w.exited() {
			continue
		}
		sure := max(w.start.From, ix.claims[e.replica])
		for _, f := range e.effects {
			sure = max(sure, f.span.From)
		}
		w.end = ix.lastSign(e.replica)
		w.end.From = max(w.start.From, min(w.end.From, sure))
		w.end.To = max(w.end.To, w.end.From)
	}
}

// cutShort reports work of e that nobody saw the end of.
func (e *epoch) cutShort() bool {
	return slices.ContainsFunc(e.works, func(w *work) bool { return !w.exited() })
}

// finalAt is the earliest instant of the final reads, by the ledger's probe, or, where nobody writes to a ledger, by those of the locks;
// ok is false where they were not completed.
func (ix *Facts) finalAt() (int64, bool) {
	p := ix.phases[history.PhaseFinal]
	if p == nil {
		return 0, false
	}
	at := int64(open)
	for _, probe := range ix.witnesses() {
		c := ix.probes[probe]
		if c == nil || c.final == nil {
			return 0, false
		}
		at = min(at, max(c.final.From, p.From))
	}
	return at, true
}

// witnesses are the probes that see the ends of trials: the ledger's, or those of the locks of an observed system, and of its effects.
func (ix *Facts) witnesses() []string {
	if !ix.exp.Observed() {
		return []string{probeLedger}
	}
	var ps []string
	for i := range ix.exp.System.Locks {
		for _, p := range []string{ix.looker(ix.exp.System.Locks[i].Name), ix.ledgerOf(ix.exp.System.Locks[i].Name)} {
			if p != "" && !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// looker is the probe that looks at the keys of the lock.
func (ix *Facts) looker(lock string) string {
	if l := ix.exp.Lock(lock); l != nil && l.Lease != "" {
		return probeLeases
	}
	return probeKeys
}

// maxEvidence bounds the event numbers that one row cites.
const maxEvidence = 20

// cite lists event numbers without zeros and repeats, at most maxEvidence of them.
func cite(ns ...int64) []int64 {
	out := make([]int64, 0, min(len(ns), maxEvidence))
	seen := make(map[int64]bool, len(ns))
	for _, n := range ns {
		if n == 0 || seen[n] || len(out) == maxEvidence {
			continue
		}
		seen[n] = true
		out = append(out, n)
	}
	return out
}
