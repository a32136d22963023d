package analysis

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/history"
)

// Kinds of faults, and the classes of trial that they make.
const (
	kindKill  = "kill"
	kindPause = "pause"
	kindBurst = "renew_failures"
)

// shot is one firing of a fault.
type shot struct {
	op, id, kind string
	num          int
	timing       string
	victim       string // incarnation
	lock, key    string // of the resolved target
	epoch        string

	applied, confirmed, void, reverted, verified *history.Event
	hits                                         []*history.Event
	count                                        int64 // operations hit, as counted where it was done

	hit         map[string][]*epoch // by key: may have been hit
	exposed     []*epoch            // surely owned throughout the fault's bracket
	trials      []*trial
	nothingOwed int
	whyVoid     string
	killedBy    string        // the shot that had killed the victim before
	died        *history.Span // the victim's death, where that ended the fault
}

// take adds one event of the shot.
func (s *shot) take(ev *history.Event) {
	f := ev.Fault
	s.victim = cmp.Or(s.victim, f.Victim)
	s.timing = cmp.Or(s.timing, f.Timing)
	if s.key == "" {
		s.lock, s.key, s.epoch = ev.Lock, ev.Key, ev.Epoch
	}
	switch ev.Kind {
	case history.FaultApplied:
		s.applied = ev
	case history.FaultConfirmed:
		s.confirmed = ev
	case history.FaultVoid:
		s.void = ev
	case history.FaultVerified:
		s.verified = ev
	}
	s.report(ev)
}

// hitBy reports whether a kill struck the incarnation.
func (ix *index) hitBy(incarnation string) bool {
	return slices.ContainsFunc(ix.shots, func(s *shot) bool { return s.crash() && s.applied != nil && s.victim == incarnation })
}

// report adds what a burst did, from where it was done.
func (s *shot) report(ev *history.Event) {
	s.count = max(s.count, ev.Fault.Hits)
	switch ev.Kind {
	case history.FaultReverted:
		s.reverted = ev
	case history.FaultHit:
		s.hits = append(s.hits, ev)
	}
}

// effective reports that the fault surely did what it was meant to do to the victim.
func (s *shot) effective() bool {
	return s.applied != nil && s.confirmed != nil && s.void == nil && s.killedBy == ""
}

// afterDeath notes a kill whose victim an earlier kill had struck: one death is one kill, however many signals were sent.
func (s *shot) afterDeath(kills map[string]*shot) {
	if !s.crash() || !s.effective() {
		return
	}
	if first := kills[s.victim]; first != nil {
		s.killedBy = first.op
		return
	}
	kills[s.victim] = s
}

// crash reports a fault that ends its victim; any other leaves the holder alive without extending its lease.
func (s *shot) crash() bool { return s.kind == kindKill }

// ended is when the fault was over; open while nobody said so.
func (s *shot) ended() history.Span {
	switch {
	case s.applied == nil:
		return history.Span{To: open}
	case s.crash():
		return s.applied.Span
	case s.reverted != nil:
		return s.reverted.Span
	case s.died != nil:
		return *s.died
	}
	from := s.applied.To
	for _, h := range s.hits {
		from = max(from, h.From)
	}
	return history.Span{From: from, To: open}
}

// outlived notes the death of the victim: a burst or a pause lives in its process and ends with it at the latest. The
// ends that the run itself makes after its final reads show nothing.
func (s *shot) outlived(ix *index) {
	d, dead := ix.deaths[s.victim]
	if final := ix.phases[history.PhaseFinal]; dead && s.applied != nil && (final == nil || d.To <= final.From) {
		at := history.Span{From: max(d.From, s.applied.From), To: max(d.To, s.applied.To)}
		s.died = &at
	}
}

// pause is a stretch in which a process surely or possibly stood still.
type pause struct{ widest, surest history.Span }

// pauseOf is the stretch of a confirmed pause.
func (s *shot) pauseOf() (pause, bool) {
	if s.kind != kindPause || !s.effective() {
		return pause{}, false
	}
	end := s.ended()
	p := pause{widest: history.Span{From: s.applied.From, To: end.To}, surest: history.Span{From: s.applied.To, To: end.From}}
	p.surest.To = max(p.surest.To, p.surest.From)
	return p, true
}

// settle finds what the shot exposed and makes its trials.
func (s *shot) settle(ix *index) {
	if p, ok := s.pauseOf(); ok {
		ix.pauses[s.victim] = append(ix.pauses[s.victim], p)
	}
	if !s.effective() {
		s.whyVoid = s.reasonVoid()
		return
	}
	for _, e := range s.mayHit(ix) {
		if e.rank > 0 && e.granted.To <= s.applied.From && e.life.end.From >= s.applied.To {
			s.exposed = append(s.exposed, e)
		}
	}
	slices.SortStableFunc(s.exposed, func(a, b *epoch) int {
		return cmp.Or(cmp.Compare(a.lock, b.lock), cmp.Compare(a.key, b.key))
	})
	for _, e := range s.exposed {
		if ix.nothingOwed(s, e) {
			s.nothingOwed++
			continue
		}
		s.trials = append(s.trials, ix.newTrial(s, e))
	}
	if !s.valid() {
		s.whyVoid = s.reasonVoid()
	}
}

// hitEpochs is mayHit by key.
func (s *shot) hitEpochs(ix *index) map[string][]*epoch {
	if s.hit == nil {
		s.hit = map[string][]*epoch{}
		for _, e := range s.mayHit(ix) {
			s.hit[e.key] = append(s.hit[e.key], e)
		}
	}
	return s.hit
}

// mayHit lists the epochs that the fault may have hit: all that a killed or paused replica had; of a burst those whose
// renewals failed.
func (s *shot) mayHit(ix *index) []*epoch {
	if s.kind == kindBurst {
		return s.burstEpochs(ix)
	}
	es := slices.Clone(ix.replicas[s.victim])
	if k := ix.keys[s.key]; k != nil {
		if e := k.byID[s.epoch]; e != nil && !slices.Contains(es, e) {
			es = append(es, e)
		}
	}
	return es
}

func (s *shot) burstEpochs(ix *index) []*epoch {
	var es []*epoch
	add := func(e *epoch) {
		if e != nil && !slices.Contains(es, e) {
			es = append(es, e)
		}
	}
	for _, h := range s.hits {
		if k := ix.keys[h.Key]; k != nil {
			add(k.byID[h.Epoch])
		}
	}
	for _, e := range ix.replicas[s.victim] {
		if e.firstHit(s.op) != nil {
			add(e)
		}
	}
	return es
}

// firstHit is the first renewal of e that the shot made fail.
func (e *epoch) firstHit(op string) *call {
	for _, c := range e.renewals {
		if c.fault == op {
			return c
		}
	}
	return nil
}

// valid reports a trial on the lock that the shot was aimed at.
func (s *shot) valid() bool {
	return slices.ContainsFunc(s.trials, func(t *trial) bool { return t.void == "" && (s.lock == "" || t.e.lock == s.lock) })
}

// reasonVoid says in a few words why the shot yields no trial.
func (s *shot) reasonVoid() string {
	switch {
	case s.void != nil && s.void.Fault.Detail != "":
		return s.void.Fault.Why + ": " + s.void.Fault.Detail
	case s.void != nil:
		return s.void.Fault.Why
	case s.killedBy != "":
		return "moved: " + s.killedBy + " had killed the victim already"
	case s.applied == nil:
		return "never applied"
	case s.confirmed == nil:
		return "unconfirmed: its effect was not observed"
	case len(s.exposed) == 0:
		return "moved: the victim did not surely hold a key when it was hit"
	case len(s.trials) == 0:
		return "nothing owed: all work under its keys was finished"
	}
	for _, t := range s.trials {
		if t.void != "" && (s.lock == "" || t.e.lock == s.lock) {
			return t.void
		}
	}
	return "moved: the victim did not surely hold a key of lock " + s.lock + " when it was hit"
}

// result is the shot as verdict.json lists it.
func (s *shot) result(ix *index) FaultResult {
	r := FaultResult{
		ID: s.id, Shot: s.num, Shots: ix.shotsOf(s.id), Kind: s.kind, Victim: s.victim, Lock: s.lock, Key: s.key,
		Declared: ix.declared(s), Confirmed: s.effective(), Void: s.whyVoid != "", Why: s.whyVoid,
		Hits: max(s.count, int64(len(s.hits))),
	}
	if s.effective() {
		w := Window{From: seconds(s.applied.From)}
		if end := s.ended(); end.To != open {
			to := seconds(end.To)
			w.To = &to
		}
		r.Effective = &w
	}
	return r
}

// declared is when the timeline meant the shot to fire; nil where "settled" decided.
func (ix *index) declared(s *shot) *Window {
	p := ix.phases[history.PhaseFaults]
	for i := range ix.exp.Faults {
		f := &ix.exp.Faults[i]
		if f.ID != s.id || p == nil || s.num > 1 && (f.Repeat.Settled || f.Repeat.Every == 0) {
			continue
		}
		at := p.From + int64(f.At) + int64(s.num-1)*int64(f.Repeat.Every)
		to := seconds(at + int64(f.For))
		return &Window{From: seconds(at), To: &to}
	}
	return nil
}

// shotsOf is how many shots the file declares of the fault; 0 where it does not declare it.
func (ix *index) shotsOf(id string) int {
	for i := range ix.exp.Faults {
		if f := &ix.exp.Faults[i]; f.ID == id {
			return max(1, f.Repeat.Count)
		}
	}
	return 0
}
