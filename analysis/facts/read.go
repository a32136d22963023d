package facts

import (
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// reader pairs the lines of a history: invoke with return, enter with exit, the events of one shot.
type reader struct {
	ix    *Facts
	calls map[callKey]*Call // until they return
	works map[opKey]*Stint  // by source and op
	waits map[opKey]*wait   // likewise
	shots map[string]*Shot
	ends  history.Ends     // observed systems: of leases, by key
	seen  map[uint64]int64 // numbers of events, by identity

	disputed map[string]bool // by key and epoch
}

// callKey names a call: of its source and op there may also be another of another verb.
type callKey struct{ verb, source, op string }

func newReader(ix *Facts) *reader {
	return &reader{ix: ix, calls: map[callKey]*Call{}, works: map[opKey]*Stint{}, waits: map[opKey]*wait{}, shots: map[string]*Shot{}, ends: history.Ends{},
		seen: map[uint64]int64{}, disputed: map[string]bool{}}
}

func (r *reader) read(ev *history.Event) {
	ix := r.ix
	switch {
	case ev.Phase != nil, ev.Note != nil, ev.Calibration != nil, ev.Prediction != nil, ev.Environment != nil:
		r.run(ev)
	case ev.Fault != nil:
		r.fault(ev)
	case ev.Call != nil:
		r.call(ev)
	case ev.Work != nil:
		r.work(ev)
	case ev.Write != nil:
		ix.claimWrite(ev)
	case ev.Entry != nil:
		ix.readEntry(ix.key(ev), ev)
	case ev.Look != nil:
		r.look(ix.key(ev), ev)
	case ev.Coverage != nil:
		ix.Watch(ev)
	case ev.Job != nil:
		r.job(ev)
	case ev.Abandon != nil:
		r.abandon(ev)
	case ev.Replica != nil:
		r.replica(ev)
	case ev.Incarnation != nil && ev.Incarnation.Life > 1:
		r.loss(ev)
	case ev.Sample != nil:
		ix.Samples.Take(ev)
	case ev.Unread != nil:
		ix.unread(ev.Unread.Source, ev.Unread.Count, ev.To)
		if strings.HasPrefix(ev.Unread.Source, history.BeliefProbe("")) {
			ix.cutLines[ev.Unread.Source] = append(ix.cutLines[ev.Unread.Source], ev.Span)
		}
	case ev.Belief != nil:
		ix.beliefs[ev.Lock] = append(ix.beliefs[ev.Lock], ev)
	case ev.Late != nil:
		ix.late = append(ix.late, lateStretch{ev.Span, *ev.Late})
	case ev.Match != nil:
		ix.Lines.Take(ev)
	case ev.Object != nil && ev.Object.Gone && ev.Object.Incarnation != "":
		ix.Gone = append(ix.Gone, ev)
	}
	if ev.Source != "runner" && !strings.HasPrefix(ev.Source, "probe:") {
		ix.LastWord[ev.Source] = max(ix.LastWord[ev.Source], ev.From)
	}
}

// hear notes the first that was heard of an incarnation, and since when it may have lived.
func (ix *Facts) hear(incarnation string, start history.Span) {
	if !ix.heard[incarnation] {
		ix.heard[incarnation] = true
		ix.Lives = append(ix.Lives, firstHeard{incarnation, start})
	}
}

func (r *reader) replica(ev *history.Event) {
	ix, who := r.ix, ev.Replica.Incarnation
	if ev.Replica.Called != "" {
		ix.Called[who] = ev.Replica.Called
	}
	switch ev.Kind {
	case history.ReplicaStart:
		ix.hear(who, ev.Span)
		ix.Starts = append(ix.Starts, ev)
	case history.ReplicaReady:
		if _, known := ix.Ready[who]; !known {
			ix.Ready[who] = ev.To
		}
	case history.ReplicaExit:
		if _, known := ix.Deaths[who]; !known {
			ix.Deaths[who] = death{Span: ev.Span, n: ev.N, exit: ev.Replica.Exit}
			ix.Exits = append(ix.Exits, ev)
			ix.unheard(ev)
		}
	}
}

func (r *reader) run(ev *history.Event) {
	ix := r.ix
	switch ev.Kind {
	case history.RunCalibration:
		ix.Cal = *ev.Calibration
	case history.RunEnvironment:
		if ix.env == nil {
			ix.env = ev.Environment
		}
	case history.RunPrediction:
		ix.prediction = ev
	case history.RunPhase:
		if ix.Phases[ev.Phase.Name] == nil {
			ix.Phases[ev.Phase.Name] = ev
		}
	case history.RunAbort:
		ix.Aborts = append(ix.Aborts, ev)
	case history.RunCleanup:
		ix.cleanups = append(ix.cleanups, ev)
	case history.RunEnd:
		ix.End = ev
	}
}

// loss notes that a store has forgotten what it held.
func (r *reader) loss(ev *history.Event) {
	if IsLedger(ev.Incarnation.Store) {
		what := "its data"
		if ev.Incarnation.Why == history.EntriesLost {
			what = "entries"
		}
		r.ix.LostLedger = append(r.ix.LostLedger, "the "+lostOf(ev.Incarnation.Store)+" lost "+what+" at "+figures.Clock(ev.From))
		return
	}
	r.ix.losses, r.ix.Incarnations = append(r.ix.losses, ev.Span), append(r.ix.Incarnations, ev)
}

// lostOf is what has lost something, in words.
func lostOf(store string) string {
	if name, ok := strings.CutPrefix(store, "effects:"); ok {
		return "source of effects " + name
	}
	return store
}

func (r *reader) call(ev *history.Event) {
	k := r.ix.key(ev)
	r.ix.hear(ev.Source, history.Span{To: ev.To})
	switch ev.Kind {
	case history.WaitBegin:
		w := &wait{source: ev.Source, begin: ev.Span, end: history.Span{From: ev.From, To: Open}, outcome: history.Unknown, holder: ev.Call.Holder, n: ev.N}
		r.waits[opKey{ev.Source, ev.Op}] = w
		k.waits = append(k.waits, w)
		return
	case history.WaitEnd:
		if w := r.waits[opKey{ev.Source, ev.Op}]; w != nil {
			w.end, w.outcome, w.n = ev.Span, ev.Outcome, ev.N
			if ev.Call.Holder != "" {
				w.holder = ev.Call.Holder
			}
		}
		return
	case history.ReleaseSkipped:
		e := k.epoch(ev.Epoch)
		e.skipped, e.whySkipped = ev.N, ev.Call.Why
		return
	}
	verb, half, _ := strings.Cut(string(ev.Kind), ".")
	pair := callKey{verb, ev.Source, ev.Op}
	c := r.calls[pair]
	if half == "return" && verb == "renew" && ev.Outcome != history.OK {
		r.ix.raise(ev, "")
	}
	if c == nil {
		c = &Call{Source: ev.Source, Of: k.epoch(ev.Epoch), Sent: ev.Span, Span: history.Span{From: ev.From, To: Open}, Outcome: history.Unknown, told: ev.N, n: ev.N}
		k.addCall(verb, c)
		r.ix.claimed[k.Lock] = true
		r.ix.asked[k.Lock] = r.ix.asked[k.Lock] || verb == "acquire"
		r.calls[pair] = c
	}
	if ev.Call.TTL != 0 {
		c.ttl = ev.Call.TTL
	}
	if half == "return" {
		c.finish(ev)
		delete(r.calls, pair)
	}
	e := c.Of
	if e.ID != ev.Epoch {
		e = k.epoch(ev.Epoch)
	}
	if e.Replica == "" {
		e.Replica = ev.Source
	} else if e.Replica != ev.Source && verb == "acquire" {
		r.ix.findAs(verdict.FindingSharedToken, "key "+k.Name+": epoch "+ev.Epoch+" is claimed by "+e.Replica+" and by "+ev.Source, ev.N)
	}
	if ev.Fence != 0 && e.Fence == 0 {
		e.Fence = ev.Fence
	}
	if id := ev.Call.ID; id != "" && id != ev.Epoch {
		if k.ids == nil {
			k.ids = map[string][]*Call{}
		}
		k.ids[id], r.ix.idsLate[k.Lock] = append(k.ids[id], c), true
	}
}

func (k *Key) addCall(verb string, c *Call) {
	e := c.Of
	switch verb {
	case "acquire":
		e.Acquires = append(e.Acquires, c)
		k.Attempts = append(k.Attempts, c)
	case "renew":
		e.Renewals = append(e.Renewals, c)
	case "release", "undo":
		e.Releases = append(e.Releases, c)
	}
}

func (c *Call) finish(ev *history.Event) {
	c.Returned = true
	c.Span.To = max(c.Span.From, ev.To)
	c.answered = history.At(c.Span.To)
	if ev.Clock == history.ClockBounds {
		c.answered.From = min(max(c.Span.From, ev.Call.Answered), c.Span.To)
	}
	c.fence = ev.Fence
	c.Outcome, c.Result, c.holder, c.fault, c.n = ev.Outcome, ev.Call.Result, ev.Call.Holder, ev.Call.Fault, ev.N
}

func (r *reader) work(ev *history.Event) {
	k := r.ix.key(ev)
	r.ix.hear(ev.Source, history.Span{To: ev.To})
	pair := opKey{ev.Source, ev.Op}
	if ev.Kind == history.WorkEnter {
		w := &Stint{subject: ev.Work.Subject, Start: ev.Span, End: history.Span{From: ev.From, To: Open}, N: ev.N}
		e := k.epoch(ev.Epoch)
		e.Works = append(e.Works, w)
		if e.Replica == "" {
			e.Replica = ev.Source
		}
		r.works[pair] = w
		return
	}
	if w := r.works[pair]; w != nil {
		w.End, w.why, w.exit, w.by, w.valid, w.hasValid = ev.Span, ev.Work.Why, ev.N, ev.Source, ev.Work.Valid, ev.Work.HasValid
		delete(r.works, pair)
	}
}

func (r *reader) look(k *Key, ev *history.Event) {
	s := &keyState{epoch: ev.Epoch, First: ev.Span, prev: history.Span{From: never}, again: history.Span{From: never}, pttl: ev.Look.PTTL, direct: ev.Look.Direct, hash: ev.Look.Hash, n: ev.N}
	if ev.Look.Prev != nil {
		s.prev, s.prevLeft = *ev.Look.Prev, ev.Look.PrevPTTL
	}
	if s.slack = ev.Look.Slack; !ev.Look.Present {
		s.epoch = ""
	}
	var last *keyState
	if len(k.Looks) > 0 {
		last = k.Looks[len(k.Looks)-1]
	}
	if r.ix.Exp.Observed() {
		s.extended = r.ends.Extended(*ev)
		s.of = k.shown(s, last, ev.Look, k.takenBefore(s, last))
	}
	e := s.of
	if e == nil && s.epoch != "" && ev.Look.Holder != "" {
		e = k.epoch(s.epoch)
	}
	if e != nil && ev.Look.Holder != "" && e.Replica == "" {
		e.Replica, e.named = ev.Look.Holder, ev.Look.By // nobody claims: the lock itself says whose it is, or who was asked
		if e.named != "" {
			if r.ix.HoldersBy == nil {
				r.ix.HoldersBy = map[string]int{}
			}
			r.ix.HoldersBy[e.named]++
		}
	}
	if d := ev.Look.Disputed; d != "" {
		r.dispute(k.Name, ev.Epoch, d, ev.N)
	}
	if last == nil {
		k.Looks = append(k.Looks, s)
		return
	}
	if ev.Look.Final && last.epoch == s.epoch { // nothing changed: one more sight of the same state
		last.again, last.againLeft = ev.Span, ev.Look.PTTL
		return
	}
	if s.prev.From == never {
		s.prev = last.First
	}
	last.next = s
	k.Looks = append(k.Looks, s)
	if before := k.of(last); ev.Look.Released && before != nil {
		before.handBack(s)
	}
}

// dispute notes an epoch of which sources named several holders, once.
func (r *reader) dispute(key, epoch, said string, n int64) {
	if pair := key + " " + epoch; !r.disputed[pair] {
		r.disputed[pair] = true
		r.ix.findAs(verdict.FindingDisputedHolder, "key "+key+": sources disagree on who holds epoch "+epoch+": "+said, n)
	}
}

func (r *reader) job(ev *history.Event) {
	ix := r.ix
	if ev.Kind == history.JobAck || ix.jobs[ev.Job.ID] != nil {
		return
	}
	k := ix.key(ev)
	j := &job{ID: ev.Job.ID, class: ev.Job.Class, lock: k.Lock, key: k.Name, offered: ev.Span, hold: ev.Job.Hold, n: ev.N}
	if ev.Job.Due != nil {
		j.due = *ev.Job.Due
	}
	ix.jobs[j.ID] = j
	ix.jobOrder = append(ix.jobOrder, j)
	k.Jobs = append(k.Jobs, j)
}

func (r *reader) abandon(ev *history.Event) {
	e := r.ix.key(ev).epoch(ev.Epoch)
	r.ix.raise(ev, ev.Abandon.Reason)
	switch {
	case ev.Kind == history.AbandonKind && e.Abandoned == nil:
		e.Abandoned = ev
	case ev.Kind == history.FenceObserved && e.fenced == nil:
		e.fenced = ev
	case ev.Kind == history.UnownedEnter && e.unowned == nil:
		e.unowned = ev
	}
}

func (r *reader) fault(ev *history.Event) {
	s := r.shots[ev.Op]
	if ev.Source != "runner" { // a replica reports what a fault in it did; whom a shot hit is not for it to say
		if s != nil && (ev.Kind == history.FaultHit || ev.Kind == history.FaultReverted) && slices.Contains(s.victims, ev.Source) {
			s.report(ev)
		}
		return
	}
	if s == nil {
		f := ev.Fault
		s = &Shot{Op: ev.Op, ID: f.ID, num: f.Shot, Kind: f.Kind, form: f.Form, via: f.Via, Does: fault.Seen(f.Kind, f.Form, f.Via).Traits(),
			counts: map[string]int64{}, ends: map[string]*history.Span{}, Locks: map[string]bool{}, Contended: map[string]bool{}}
		r.shots[ev.Op] = s
		r.ix.Shots = append(r.ix.Shots, s)
	}
	if ev.Kind == history.FaultVoid && ev.Fault.Why == history.HolderDisputed {
		r.dispute(ev.Key, ev.Epoch, ev.Fault.Detail, ev.N)
	}
	s.take(ev)
	if ev.Kind == history.FaultConfirmed && s.Applied != nil && s.Does.AtKey && ev.Key != "" {
		r.ix.key(ev).taken = &s.Applied.Span
	}
}
