package analysis

import (
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/arena"
	"github.com/lockdrill/lockdrill/lockcore"
)

// index is the history turned once into what every measure asks for: epochs with their brackets, effects in the ledger's
// order, shots of faults, coverage of the probes. It concludes nothing about SLOs.
type index struct {
	exp        *experiments.Experiment // scaled
	h          *history.History
	cal        history.Calibration
	prediction *history.Event // what rehearsals gave before the drill; nil = none recorded

	keys     map[string]*keyIndex
	keyOrder []*keyIndex // in the order of their first event
	jobs     map[string]*job
	jobOrder []*job
	replicas map[string][]*epoch // epochs by incarnation

	effects []*effect // all keys, in the ledger's order
	writes  map[opKey]*claim
	deaths  map[string]death
	exits   []*history.Event // replica.exit, one a life
	claims  map[string]int64 // last word of an incarnation
	pauses  map[string][]pause
	shots   []*shot
	probes  map[string]*coverage

	ledgered map[string]bool // locks of which the ledger has entries
	claimed  map[string]bool // locks whose acquires somebody claims: without, no demand cannot be told from no witness

	last       int64 // stamp of the last event
	phases     map[string]*history.Event
	losses     []history.Span   // the locks' store lost its data, or may have
	lives      []*history.Event // its new incarnations, which say so
	lostLedger []string         // why the ledger cannot be relied on
	aborts     []*history.Event
	cleanups   []*history.Event
	end        *history.Event
	findings   []verdict.Finding

	memory memory
}

// opKey names an operation of somebody, or at a key.
type opKey struct{ of, op string }

// memory is what an index is made of. It is used again by the next index of a Judger.
type memory struct {
	keys      arena.Of[keyIndex]
	epochs    arena.Of[epoch]
	calls     arena.Of[call]
	works     arena.Of[work]
	stretches arena.Of[stretch]
	effects   arena.Of[effect]
	claims    arena.Of[claim]
	jobs      arena.Of[job]
	held      arena.Of[held]
	reader    reader
}

func (m *memory) reset() {
	m.keys.Reset()
	m.epochs.Reset()
	m.calls.Reset()
	m.works.Reset()
	m.stretches.Reset()
	m.effects.Reset()
	m.claims.Reset()
	m.jobs.Reset()
	m.held.Reset()
}

// empty is m without its content, or a new map.
func empty[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	clear(m)
	return m
}

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
	n int64
}

// wait is one bounded wait for a key, by its refusal and its end.
type wait struct {
	source     string
	begin, end history.Span
	outcome    history.Outcome
	holder     string
	n          int64
}

// newIndex reads h once and derives brackets, orders and findings. exp is scaled.
func newIndex(exp *experiments.Experiment, h *history.History) *index {
	ix := &index{}
	ix.read(exp, h)
	return ix
}

// read makes ix the index of h, in the memory of whatever it was before.
func (ix *index) read(exp *experiments.Experiment, h *history.History) {
	ix.memory.reset()
	*ix = index{
		exp: exp, h: h, memory: ix.memory,
		keys: empty(ix.keys), jobs: empty(ix.jobs), replicas: empty(ix.replicas),
		writes: empty(ix.writes), deaths: empty(ix.deaths), claims: empty(ix.claims), pauses: empty(ix.pauses),
		probes: empty(ix.probes), ledgered: empty(ix.ledgered), claimed: empty(ix.claimed), phases: empty(ix.phases),
		keyOrder: ix.keyOrder[:0], jobOrder: ix.jobOrder[:0], effects: ix.effects[:0], exits: ix.exits[:0], shots: ix.shots[:0],
		cleanups: ix.cleanups[:0],
	}
	r := &ix.memory.reader
	r.begin(ix)
	for i := range h.Events {
		r.read(&h.Events[i])
		ix.last = max(ix.last, h.Events[i].To)
	}
	ix.derive()
}

// derive fixes the brackets, in the order in which they lean on one another.
func (ix *index) derive() {
	for _, s := range ix.shots {
		s.noteDeath(ix)
	}
	ix.closeDead()
	ix.placeEffects()
	for _, k := range ix.keyOrder {
		for _, c := range k.attempts {
			if c.holder != "" {
				e := k.epoch(c.holder)
				e.refusals = append(e.refusals, c)
			}
		}
		for _, s := range k.looks {
			if s.epoch != "" {
				e := k.epoch(s.epoch)
				e.looks = append(e.looks, s)
			}
		}
		ix.order(k)
		for i, e := range k.epochs {
			var next *epoch
			if i+1 < len(k.epochs) {
				next = k.epochs[i+1]
			}
			ix.leaseOf(k, e, next)
			ix.believe(e)
			ix.endWorks(e)
			if e.replica != "" {
				ix.replicas[e.replica] = append(ix.replicas[e.replica], e)
			}
		}
		ix.checkCalls(k)
	}
	ix.checkWrites()
	ix.markStrangers()
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
}

// key finds or makes the index of the event's key.
func (ix *index) key(ev *history.Event) *keyIndex {
	k := ix.keys[ev.Key]
	if k == nil {
		k = ix.memory.keys.Get()
		*k = keyIndex{name: ev.Key, lock: ev.Lock, mem: &ix.memory, byID: empty(k.byID), epochs: k.epochs[:0], attempts: k.attempts[:0],
			waits: k.waits[:0], looks: k.looks[:0], effects: k.effects[:0], jobs: k.jobs[:0]}
		if l := ix.lock(ev.Lock); l != nil {
			k.loop = l.Loop()
		}
		ix.keys[ev.Key] = k
		ix.keyOrder = append(ix.keyOrder, k)
	}
	return k
}

// keysOf lists the keys of a lock.
func (ix *index) keysOf(lock string) []*keyIndex {
	var ks []*keyIndex
	for _, k := range ix.keyOrder {
		if k.lock == lock {
			ks = append(ks, k)
		}
	}
	return ks
}

// lock is the experiment's lock of that name; nil where it declares none.
func (ix *index) lock(name string) *experiments.Lock {
	for i := range ix.exp.System.Locks {
		if ix.exp.System.Locks[i].Name == name {
			return &ix.exp.System.Locks[i]
		}
	}
	return nil
}

// policy of the lock; the zero policy where it is not declared.
func (ix *index) policy(lock string) lockcore.Policy {
	if l := ix.lock(lock); l != nil {
		return l.Policy
	}
	return lockcore.Policy{}
}

// find notes a contradiction between two ways to know the same thing.
func (ix *index) find(what string, evidence ...int64) {
	ix.findings = append(ix.findings, verdict.Finding{What: what, Evidence: cite(evidence...)})
}

// closeDead ends the calls that their callers took to the grave: what was not sent by then never was.
func (ix *index) closeDead() {
	for _, k := range ix.keyOrder {
		for _, e := range k.byID {
			for _, cs := range [][]*call{e.acquires, e.renewals, e.releases} {
				for _, c := range cs {
					if d, ok := ix.deaths[c.source]; ok && !c.exited {
						c.span.To = max(c.span.From, d.To)
					}
				}
			}
		}
	}
}

// endWorks ends work that has no exit with its holder's death, or leaves it open.
func (ix *index) endWorks(e *epoch) {
	for _, w := range e.works {
		if w.exit == nil {
			w.end = ix.lastSign(e.replica)
			w.end.From = max(w.end.From, w.start.From)
			w.end.To = max(w.end.To, w.end.From)
		}
	}
}

// finalAt is the earliest instant of the final reads, by the ledger's probe, or, where nobody writes to a ledger, by those of the locks;
// ok is false where they were not completed.
func (ix *index) finalAt() (int64, bool) {
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

// witnesses are the probes that see the ends of trials: the ledger's, or those of the locks of an observed system.
func (ix *index) witnesses() []string {
	if !ix.exp.Observed() {
		return []string{probeLedger}
	}
	var ps []string
	for i := range ix.exp.System.Locks {
		if p := ix.looker(ix.exp.System.Locks[i].Name); !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// looker is the probe that looks at the keys of the lock.
func (ix *index) looker(lock string) string {
	if ix.outlivesLease(lock) {
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
