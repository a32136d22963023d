package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// shot is one firing of a fault.
type shot struct {
	op, id, kind, form string
	num                int
	timing, via        string
	victim             string   // incarnation, or the locks' store; "" where it struck several
	victims            []string // incarnations that it struck, or whose ways to the store: the victim too
	lock, key          string   // of the resolved target
	epoch              string
	configured         string
	does               fault.Traits  // as far as the events tell
	want               int64         // operations that it was to hit; 0 = bounded by time only
	measured           history.Fault // of its body: baseline, expected, observed, detail

	intent, applied, confirmed, void, reverted, verified *history.Event
	hits                                                 []*history.Event
	counts                                               map[string]int64         // operations hit, by who counted them
	ends                                                 map[string]*history.Span // when its effect in a replica was over, as that says itself

	over        history.Span        // when its effect was over; To is open while nobody said so
	hit         map[string][]*epoch // by key: may have been hit
	struckKeys  map[string]bool     // keys of which it struck an epoch or an operation, once that was asked
	exposed     []*epoch            // surely owned throughout the bracket in which it was applied
	locks       map[string]bool     // locks of which it struck a holder, or an operation
	contended   map[string]bool     // of these, where somebody else asked for what was held
	trials      []*trial
	nothingOwed int
	idle        bool // it found nobody, since the jobs of its lock had ended
	whyVoid     verdict.Void
	killedBy    string // the shot that had killed the victim before
}

// take adds one event of the shot.
func (s *shot) take(ev *history.Event) {
	f := ev.Fault
	if ev.Kind == history.FaultHit { // it names what it hit, not the target
		s.report(ev)
		return
	}
	s.victim = cmp.Or(s.victim, f.Victim)
	s.timing, s.via, s.form = cmp.Or(s.timing, f.Timing), cmp.Or(s.via, f.Via), cmp.Or(s.form, f.Form)
	s.does = fault.Seen(s.kind, s.form, s.via).Traits()
	s.configured, s.want = cmp.Or(s.configured, f.Configured), max(s.want, f.Want)
	for _, v := range append([]string{f.Victim}, f.Victims...) {
		if v != "" && v != history.VictimStore && !slices.Contains(s.victims, v) {
			s.victims = append(s.victims, v)
		}
	}
	if s.key == "" {
		s.lock, s.key, s.epoch = ev.Lock, ev.Key, ev.Epoch
	}
	switch ev.Kind {
	case history.FaultIntent:
		s.intent = ev
	case history.FaultApplied:
		s.applied = ev
	case history.FaultConfirmed:
		s.confirmed, s.measured = ev, *f
	case history.FaultVoid:
		s.void, s.measured = ev, *f
	case history.FaultVerified:
		s.verified = ev
	}
	s.report(ev)
}

// report adds what a burst did, from where it was done, and the end of the fault.
func (s *shot) report(ev *history.Event) {
	if ev.Fault.Hits > 0 {
		s.counts[ev.Source] = max(s.counts[ev.Source], ev.Fault.Hits)
	}
	switch {
	case ev.Kind == history.FaultHit:
		s.hits = append(s.hits, ev)
	case ev.Kind == history.FaultReverted && slices.Contains(s.victims, ev.Source):
		s.ends[ev.Source] = &ev.Span
	case ev.Kind == history.FaultReverted:
		s.reverted = ev
	}
}

// count is how many operations the shot hit, as was counted where it was done: by the replicas, or on the way.
func (s *shot) count() int64 {
	var replicas, elsewhere int64
	for source, n := range s.counts {
		if slices.Contains(s.victims, source) {
			replicas += n
		} else {
			elsewhere = max(elsewhere, n)
		}
	}
	return max(replicas, elsewhere, int64(len(s.hits)))
}

// hitBy reports whether a kill struck the incarnation.
func (ix *Facts) hitBy(incarnation string) bool {
	return slices.ContainsFunc(ix.shots, func(s *shot) bool { return s.does.Kills && s.applied != nil && slices.Contains(s.victims, incarnation) })
}

// effective reports that the fault surely did what it was meant to do to the victim. A burst that hit fewer operations than it was
// to hit did not.
func (s *shot) effective() bool {
	return s.applied != nil && s.confirmed != nil && s.void == nil && s.killedBy == "" && !s.short() && !s.unfelt() && !s.does.Unknown
}

func (s *shot) short() bool { return s.failures() && s.count() < s.want }

// unfelt reports a fault of the network that was too small to be the one that was configured, whoever confirmed it.
func (s *shot) unfelt() bool {
	return s.does.OnTheWay && s.measured.Observed != 0 && s.measured.Observed < s.measured.Expected
}

// afterDeath notes a kill whose victim an earlier kill had struck: one death is one kill, however many signals were sent.
func (s *shot) afterDeath(kills map[string]*shot) {
	if !s.does.Kills || !s.effective() {
		return
	}
	if first := kills[s.victim]; first != nil {
		s.killedBy = first.op
		return
	}
	kills[s.victim] = s
}

// conclude fixes when the fault was over: as its victims say, as the runner says that reverted it, or by the death of what it lived
// in. The deaths that the run itself brings about after its final reads show nothing.
func (s *shot) conclude(ix *Facts) {
	s.over = history.Span{To: open}
	if s.applied == nil {
		return
	}
	s.over.From = s.applied.To
	for _, h := range s.hits {
		s.over.From = max(s.over.From, h.From)
	}
	last := s.over.From
	switch {
	case s.does.Kills, s.does.AtOnce:
		s.over = s.applied.Span
		if s.death() != nil { // a call to a cluster is over when what it asked for was seen
			s.over.To = max(s.over.To, s.confirmed.To)
		}
		return
	case s.does.InVictim && len(s.victims) > 0:
		all := history.Span{}
		for _, v := range s.victims {
			end := s.endIn(ix, v)
			all = history.Span{From: max(all.From, end.From), To: max(all.To, end.To)}
		}
		s.over = all
	case s.reverted != nil:
		s.over = s.reverted.Span
		if s.over.To < s.applied.To { // there was nothing to undo: it was over as soon as it was done
			s.over = s.applied.Span
		}
	}
	if s.verified != nil && s.over.To > s.verified.To { // whatever it did is over by the time that was read back
		s.over.To = max(s.verified.To, last)
	}
	if s.over.To == open && (s.does.AtStore || s.does.AtKey) && s.applied.Fault.Declared == 0 {
		s.over = s.applied.Span
	}
	s.over.From = min(s.over.From, s.over.To)
}

// endIn is when a fault that lives in a replica was over there.
func (s *shot) endIn(ix *Facts, victim string) history.Span {
	end := history.Span{From: s.applied.To, To: open}
	for _, h := range s.hits {
		if h.Source == victim || len(s.victims) == 1 {
			end.From = max(end.From, h.From)
		}
	}
	switch {
	case s.ends[victim] != nil:
		end = *s.ends[victim]
	case s.reverted != nil:
		end = s.reverted.Span
	}
	d, dead := ix.deaths[victim]
	if final := ix.phases[history.PhaseFinal]; dead && (final == nil || d.To <= final.From) && d.To < end.To {
		end = history.Span{From: max(d.From, s.applied.From), To: max(d.To, s.applied.To)}
	}
	return end
}

// valid reports that the shot was what it was declared for: confirmed, and, where it was aimed at the holder of a lock and keeps it
// from its lease, with a trial on that lock.
func (s *shot) valid() bool {
	if !s.effective() || s.lock == "" || !s.cutsOff() {
		return s.effective()
	}
	return slices.ContainsFunc(s.trials, func(t *trial) bool { return !t.void.IsVoid() && t.e.lock == s.lock })
}

// reasonVoid says why the shot yields no trial.
func (s *shot) reasonVoid() verdict.Void {
	void := func(code verdict.VoidCode, detail string) verdict.Void {
		return verdict.Void{Code: code, Detail: detail}
	}
	switch {
	case s.idle:
		return void(verdict.VoidJobsEnded, "")
	case s.void != nil:
		return verdict.VoidOf(s.void.Fault)
	case s.killedBy != "":
		return void(verdict.VoidMoved, s.killedBy+" had killed the victim already")
	case s.does.Unknown:
		return void(verdict.VoidUnknown, "this lockdrill does not know faults of kind "+s.kind)
	case s.applied == nil:
		return void(verdict.VoidNeverApplied, "")
	case s.confirmed == nil:
		return void(verdict.VoidUnconfirmed, "its effect was not observed")
	case s.short():
		return void(verdict.VoidUnconfirmed, fmt.Sprintf("it hit %d of %d operations", s.count(), s.want))
	case s.unfelt():
		return void(verdict.VoidUnconfirmed, figures.Exact(s.measured.Observed)+" observed, at least "+figures.Exact(s.measured.Expected)+" expected")
	case len(s.exposed) == 0:
		return void(verdict.VoidMoved, "the victim did not surely hold a key when it was hit")
	case len(s.trials) == 0:
		return void(verdict.VoidNothingOwed, "")
	}
	for _, t := range s.trials {
		if t.void.IsVoid() && (s.lock == "" || t.e.lock == s.lock) {
			return t.void
		}
	}
	return void(verdict.VoidMoved, "the victim did not surely hold a key of lock "+s.lock+" when it was hit")
}

// result is the shot as verdict.json lists it.
func (s *shot) result(ix *Facts) verdict.FaultResult {
	r := verdict.FaultResult{
		ID: s.id, Shot: s.num, Shots: ix.shotsOf(s.id), Kind: s.kind, Form: s.form, Victim: s.victim, Victims: s.victims, Lock: s.lock, Key: s.key,
		Declared: ix.declared(s), Confirmed: s.effective(), Void: s.whyVoid.IsVoid(), Why: s.whyVoid.String(), Hits: s.count(), Want: s.want, Via: s.via,
		Configured: s.configured, Baseline: noted(s.measured.Baseline), Expected: noted(s.measured.Expected), Observed: noted(s.measured.Observed),
	}
	if len(s.victims) == 1 && s.victims[0] == s.victim {
		r.Victims = nil
	}
	r.Death = deathOf(s.measured.Death)
	if s.effective() {
		r.Effective = windowOf(history.Span{From: s.applied.From, To: s.over.To})
	}
	return r
}

// noted is what was measured, in seconds; nil where it was not.
func noted(ns int64) *float64 {
	if ns == 0 {
		return nil
	}
	s := seconds(ns)
	return &s
}

// declared is when the timeline meant the shot to fire; nil where "settled" decided.
func (ix *Facts) declared(s *shot) *verdict.Window {
	p := ix.phases[history.PhaseFaults]
	for i := range ix.exp.Faults {
		f := &ix.exp.Faults[i]
		if f.ID != s.id || p == nil || s.num > 1 && (f.Repeat.Settled || f.Repeat.Every == 0) {
			continue
		}
		at := p.From + int64(f.At) + int64(s.num-1)*int64(f.Repeat.Every)
		return windowOf(history.Span{From: at, To: at + int64(f.For)})
	}
	return nil
}

// shotsOf is how many shots the file declares of the fault; 0 where it does not declare it.
func (ix *Facts) shotsOf(id string) int {
	for i := range ix.exp.Faults {
		f := &ix.exp.Faults[i]
		switch {
		case f.ID != id:
		case f.Repeat.Answered: // as many as it took
			n := 0
			for _, s := range ix.shots {
				if s.id == id && s.effective() {
					n++
				}
			}
			return max(1, n)
		default:
			return max(1, f.Repeat.Count)
		}
	}
	return 0
}
