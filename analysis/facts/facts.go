// Package facts reads a history once and says what happened: epochs with their brackets, leases, effects, jobs, shots and their trials, what the
// probes covered, what replicas claim and what refutes it, and from these whatever can be counted or timed. It is pure: no I/O, no clock, no
// randomness. It knows no promise and gives no verdict.
//
// Its one invariant: every range that it gives contains the truth, as far as the history tells. What was read is not changed afterwards.
package facts

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
	file       *experiments.Experiment // as loaded
	Exp        *experiments.Experiment // scaled
	head       history.Header
	Torn       string
	Cal        history.Calibration
	env        *history.Environment
	standby    bool           // the experiment has a fault that makes one the store
	ownCalls   bool           // the replicas are lockdrill's own, and say what they ask for
	prediction *history.Event // what rehearsals gave before the drill; nil = none recorded

	Keys     map[string]*Key
	KeyOrder []*Key // in the order of their first event
	byLock   map[string][]*Key
	jobs     map[string]*job
	jobOrder []*job
	Epochs   map[string][]*Epoch // epochs by incarnation

	effects  []*effect // all keys, in the ledger's order
	writes   map[opKey]*claim
	Deaths   map[string]death
	Exits    []*history.Event  // replica.exit, one a life
	Starts   []*history.Event  // replica.start
	Ready    map[string]int64  // incarnations, and by when each was
	heard    map[string]bool   // incarnations that lifeOrder has
	Called   map[string]string // their owner's words for incarnations
	Lives    []firstHeard      // in the order in which they were first heard of
	Gone     []*history.Event  // objects of lives
	LastWord map[string]int64  // last word of an incarnation
	Pauses   map[string][]Pause
	Shots    []*Shot
	Probes   map[string]*Coverage
	Samples  signals.Samples
	raised   []Raised
	late     []lateStretch    // in their order
	longest  map[string]int64 // how long an answered call of a replica took at most, where a machine was late; see timeCalls
	Lines    signals.Lines

	told        history.Numbers  // streams of events, while they are read
	unreadUntil map[string]int64 // when the last of these were read
	Unread      map[string]int64 // records that nobody could read, by the probe of their source: each may say anything about its time
	Ledgered    map[string]bool  // locks of which the ledger has entries
	asked       map[string]bool  // locks of which an acquire was announced
	idsLate     map[string]bool  // locks whose epochs have ids of the store that are known only with the grant
	claimed     map[string]bool  // locks whose acquires somebody claims: without, no demand cannot be told from no witness

	vanishings map[*Epoch]vanishing        // grants whose keys ended before their leases did
	beliefs    map[string][]*history.Event // by lock: what replicas of somebody's own say of whether they lead
	cutLines   map[string][]history.Span   // by probe of belief: when lines were written that could not be read

	within       *history.Span // what replicas say of themselves is only told of this stretch; nil = of all
	Only         *Consequence  // these are part of the facts, those of one shot at one lock; nil = all
	Last         int64         // stamp of the last event
	Phases       map[string]*history.Event
	losses       []history.Span   // the locks' store lost its data, or may have
	Incarnations []*history.Event // its new incarnations, which say so
	LostLedger   []string         // why the ledger cannot be relied on
	Damage       several          // where the record contradicts itself
	Aborts       []*history.Event
	cleanups     []*history.Event
	End          *history.Event
	Findings     []verdict.Finding
	Monitor      *verdict.MonitorCost
	HoldersBy    map[string]int // epochs of observed keys, by the source that named their holder
}

// opKey names an operation of somebody, or at a key.
type opKey struct{ of, op string }

// job is one piece of work under a lock key of its own.
type job struct {
	ID, lock, key string
	class         string
	offered       history.Span // first offer
	due           history.Span // it is owed from here on, and not before; zero = from the offer on
	hold          int64        // ns of work that it needs
	n             int64
	Terminals     []*effect // accepted, new
	states        []*effect // accepted, new, neither begin nor tick
}

type death struct {
	history.Span
	n    int64
	exit string // as replica.exit says
}

// firstHeard is what was first heard of an incarnation.
type firstHeard struct {
	Incarnation string
	Start       history.Span
}

// wait is one bounded wait for a key, by its refusal and its end.
type wait struct {
	source     string
	begin, end history.Span
	outcome    history.Outcome
	holder     string
	n          int64
}

// Read takes in a history in one pass. file is the experiment as loaded, and scaled what experiments.Scale makes of it. An error is h's:
// its line that is no event.
func Read(file, scaled *experiments.Experiment, h history.Source) (*Facts, error) {
	ix := &Facts{
		file: file, Exp: scaled, head: h.Header(),
		Keys: map[string]*Key{}, byLock: map[string][]*Key{}, jobs: map[string]*job{}, Epochs: map[string][]*Epoch{},
		writes: map[opKey]*claim{}, Deaths: map[string]death{}, LastWord: map[string]int64{}, Pauses: map[string][]Pause{},
		Ready: map[string]int64{}, heard: map[string]bool{}, Called: map[string]string{}, Probes: map[string]*Coverage{}, Samples: signals.Samples{},
		Ledgered: map[string]bool{}, asked: map[string]bool{}, idsLate: map[string]bool{}, claimed: map[string]bool{}, told: history.Numbers{}, Unread: map[string]int64{}, unreadUntil: map[string]int64{}, vanishings: map[*Epoch]vanishing{}, beliefs: map[string][]*history.Event{}, cutLines: map[string][]history.Span{}, Phases: map[string]*history.Event{},
	}
	ix.standby = slices.ContainsFunc(scaled.Faults, func(f experiments.Fault) bool { return f.Traits().FailsOver })
	ix.ownCalls = scaled.LockCalls() != "" && scaled.Kubernetes == nil
	if err := ix.read(h); err != nil {
		return nil, err
	}
	return ix, nil
}

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
		if ix.head.Schema >= history.SchemaNumbered && ix.head.Mode == history.Live { // what is in memory has lost nothing
			ix.told.See(ev, ix.hole)
		}
		if !r.again(ev) {
			r.read(ev)
		}
		ix.Last = max(ix.Last, ev.To)
	}
	ix.Torn = h.Torn()
	ix.derive()
	return nil
}

// Experiment is the one that was run, as loaded.
func (ix *Facts) Experiment() *experiments.Experiment { return ix.file }

// Header is the history's.
func (ix *Facts) Header() history.Header { return ix.head }

// AsLive are the same facts as of a live run.
func (ix *Facts) AsLive() *Facts {
	live := *ix
	live.head.Mode = history.Live
	return &live
}

// Environment is what the run stood on; nil where it does not say.
func (ix *Facts) Environment() *history.Environment { return ix.env }

// derive fixes the brackets, in the order in which they lean on one another.
func (ix *Facts) derive() {
	for _, s := range ix.Shots {
		s.noteDeath(ix)
	}
	for _, k := range ix.KeyOrder {
		ix.rename(k)
		ix.attach(k)
	}
	for _, s := range ix.Shots {
		ix.nameHits(s)
	}
	ix.tellClocks()
	ix.closeDead()
	ix.placeEffects()
	ix.checkShots()
	if len(ix.LostLedger) == 0 && !ix.Exp.Observed() {
		ix.replay()
	}
	for _, k := range ix.KeyOrder {
		ix.refute(k)
		ix.order(k)
		for i, e := range k.Epochs {
			if !e.Ghost {
				ix.leaseOf(k, e, k.following(i))
			}
			ix.believe(e)
			ix.endWorks(e)
			if e.Replica != "" {
				ix.Epochs[e.Replica] = append(ix.Epochs[e.Replica], e)
			}
		}
		ix.markStrangers(k)
		ix.attribute(k)
		ix.equalFences(k)
		ix.checkCalls(k)
	}
	ix.checkWrites()
	ix.endless()
	for _, k := range ix.KeyOrder {
		ix.renewedAfterWork(k)
		if ix.announces(k.Lock) {
			ix.explain(k)
		}
	}
	for _, s := range ix.Shots {
		s.conclude(ix)
	}
	kills := map[string]*Shot{}
	for _, s := range ix.Shots {
		s.afterDeath(kills)
	}
	for _, s := range ix.Shots {
		s.settle(ix)
	}
	ix.takePausesOff()
	ix.checkValidity()
	ix.findVanished()
	ix.timeCalls()
}

// attach gives the epochs of k what others saw of them.
func (ix *Facts) attach(k *Key) {
	for _, c := range k.Attempts {
		if c.holder != "" {
			e := k.epoch(c.holder)
			e.refusals = append(e.refusals, c)
		}
	}
	for _, s := range k.Looks {
		if s.epoch != "" {
			ix.seen(k, s)
		}
	}
}

// key finds or makes the index of the event's key.
func (ix *Facts) key(ev *history.Event) *Key {
	k := ix.Keys[ev.Key]
	if k == nil {
		k = &Key{Name: ev.Key, Lock: ev.Lock}
		if l := ix.Exp.Lock(ev.Lock); l != nil {
			k.Loop = l.Loop()
		}
		ix.Keys[ev.Key] = k
		ix.KeyOrder = append(ix.KeyOrder, k)
		ix.byLock[k.Lock] = append(ix.byLock[k.Lock], k)
	}
	return k
}

// KeysOf lists the keys of a lock.
func (ix *Facts) KeysOf(lock string) []*Key { return ix.byLock[lock] }

// policy of the lock; the zero policy where it is not declared.
func (ix *Facts) policy(lock string) lockcore.Policy {
	if l := ix.Exp.Lock(lock); l != nil {
		return l.Policy
	}
	return lockcore.Policy{}
}

// find notes a contradiction between two ways to know the same thing.
func (ix *Facts) find(what string, evidence ...int64) { ix.findAs("", what, evidence...) }

// findAs is find of a contradiction that others decide by.
func (ix *Facts) findAs(code verdict.FindingCode, what string, evidence ...int64) {
	ix.Findings = append(ix.Findings, Finding(code, what, evidence...))
}

func Finding(code verdict.FindingCode, what string, evidence ...int64) verdict.Finding {
	return verdict.Finding{Code: code, What: what, Evidence: Cite(evidence...)}
}

// closeDead ends the calls that their callers took to the grave: what was not sent by then never was.
func (ix *Facts) closeDead() {
	for _, k := range ix.KeyOrder {
		for _, e := range k.All {
			for c := range e.calls() {
				if d, ok := ix.Deaths[c.Source]; ok && !c.Returned {
					c.Span.To = max(c.Span.From, d.To)
				}
			}
		}
	}
}

// endWorks ends work that has no exit with its holder's death, or leaves it open. It surely went on to the holder's last word, or to the
// last effect of the epoch that the ledger shows: the line of its exit may have died with the holder.
func (ix *Facts) endWorks(e *Epoch) {
	for _, w := range e.Works {
		if w.exited() {
			continue
		}
		sure := max(w.Start.From, ix.LastWord[e.Replica])
		for _, f := range e.Effects {
			sure = max(sure, f.Span.From)
		}
		w.End = ix.lastSign(e.Replica)
		w.End.From = max(w.Start.From, min(w.End.From, sure))
		w.End.To = max(w.End.To, w.End.From)
	}
}

// cutShort reports work of e that nobody saw the end of.
func (e *Epoch) cutShort() bool {
	return slices.ContainsFunc(e.Works, func(w *Stint) bool { return !w.exited() })
}

// FinalAt is the earliest instant of the final reads, by the ledger's probe, or, where nobody writes to a ledger, by those of the locks;
// ok is false where they were not completed.
func (ix *Facts) FinalAt() (int64, bool) {
	p := ix.Phases[history.PhaseFinal]
	if p == nil {
		return 0, false
	}
	at := int64(Open)
	for _, probe := range ix.witnesses() {
		c := ix.Probes[probe]
		if c == nil || c.Final == nil {
			return 0, false
		}
		at = min(at, max(c.Final.From, p.From))
	}
	if at == Open { // nobody looks for ends: only signals are read
		at = p.From
	}
	return at, true
}

// witnesses are the probes that see the ends of trials: the ledger's, or those of the locks of an observed system, and of its effects.
func (ix *Facts) witnesses() []string {
	if !ix.Exp.Observed() {
		return []string{ProbeLedger}
	}
	var ps []string
	for i := range ix.Exp.System.Locks {
		for _, p := range []string{ix.Looker(ix.Exp.System.Locks[i].Name), ix.LedgerOf(ix.Exp.System.Locks[i].Name)} {
			if p != "" && !slices.Contains(ps, p) {
				ps = append(ps, p)
			}
		}
		if l := &ix.Exp.System.Locks[i]; l.Belief != nil {
			ps = append(ps, history.BeliefProbe(l.Name))
		}
	}
	for i := range ix.Exp.System.Effects { // also under no lock
		if p := ix.Exp.System.Effects[i].Probe(); !slices.Contains(ps, p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// Looker is the probe that looks at the keys of the lock.
func (ix *Facts) Looker(lock string) string {
	if l := ix.Exp.Lock(lock); l != nil && l.Lease != "" {
		return probeLeases
	}
	return probeKeys
}

// maxEvidence bounds the event numbers that one row cites.
const maxEvidence = 20

// Cite lists event numbers without zeros and repeats, at most maxEvidence of them.
func Cite(ns ...int64) []int64 {
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
