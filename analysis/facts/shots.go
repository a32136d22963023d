package facts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Shot is one firing of a fault.
type Shot struct {
	Op, ID, Kind, form string
	num                int
	timing, via        string
	Victim             string   // incarnation, or the locks' store; "" where it struck several
	victims            []string // incarnations that it struck, or whose ways to the store: the victim too
	lock, Key          string   // of the resolved target
	Epoch              string
	configured         string
	Does               fault.Traits  // as far as the events tell
	want               int64         // operations that it was to hit; 0 = bounded by time only
	measured           history.Fault // of its body: baseline, expected, observed, detail

	intent, Applied, confirmed, Voided, reverted, verified *history.Event
	hits                                                   []*history.Event
	counts                                                 map[string]int64         // operations hit, by who counted them
	ends                                                   map[string]*history.Span // when its effect in a replica was over, as that says itself

	Over        history.Span        // when its effect was over; To is open while nobody said so
	hit         map[string][]*Epoch // by key: may have been hit
	struckKeys  map[string]bool     // keys of which it struck an epoch or an operation, once that was asked
	Exposed     []*Epoch            // surely owned throughout the bracket in which it was applied
	Locks       map[string]bool     // locks of which it struck a holder, or an operation
	Contended   map[string]bool     // of these, where somebody else asked for what was held
	Trials      []*Trial
	NothingOwed int
	idle        bool // it found nobody, since the jobs of its lock had ended
	WhyVoid     verdict.Void
	killedBy    string // the shot that had killed the victim before
}

// take adds one event of the shot.
func (s *Shot) take(ev *history.Event) {
	f := ev.Fault
	if ev.Kind == history.FaultHit { // it names what it hit, not the target
		s.report(ev)
		return
	}
	s.Victim = cmp.Or(s.Victim, f.Victim)
	s.timing = cmp.Or(s.timing, f.Timing)
	if s.via == "" && f.Via != "" || s.form == "" && f.Form != "" {
		s.via, s.form = cmp.Or(s.via, f.Via), cmp.Or(s.form, f.Form)
		s.Does = fault.Seen(s.Kind, s.form, s.via).Traits()
	}
	s.configured, s.want = cmp.Or(s.configured, f.Configured), max(s.want, f.Want)
	for _, v := range append([]string{f.Victim}, f.Victims...) {
		if v != "" && v != history.VictimStore && !slices.Contains(s.victims, v) {
			s.victims = append(s.victims, v)
		}
	}
	if s.Key == "" {
		s.lock, s.Key, s.Epoch = ev.Lock, ev.Key, ev.Epoch
	}
	switch ev.Kind {
	case history.FaultIntent:
		s.intent = ev
	case history.FaultApplied:
		s.Applied = ev
	case history.FaultConfirmed:
		s.confirmed, s.measured = ev, *f
	case history.FaultVoid:
		s.Voided, s.measured = ev, *f
	case history.FaultVerified:
		s.verified = ev
	}
	s.report(ev)
}

// report adds what a burst did, from where it was done, and the end of the fault.
func (s *Shot) report(ev *history.Event) {
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
func (s *Shot) count() int64 {
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

// HitBy reports whether a kill struck the incarnation.
func (ix *Facts) HitBy(incarnation string) bool {
	return slices.ContainsFunc(ix.Shots, func(s *Shot) bool { return s.Does.Kills && s.Applied != nil && slices.Contains(s.victims, incarnation) })
}

// Effective reports that the fault surely did what it was meant to do to the victim. A burst that hit fewer operations than it was
// to hit did not.
func (s *Shot) Effective() bool {
	return s.Applied != nil && s.confirmed != nil && s.Voided == nil && s.killedBy == "" && !s.short() && !s.unfelt() && !s.Does.Unknown
}

func (s *Shot) short() bool { return s.failures() && s.count() < s.want }

// unfelt reports a fault of the network that was too small to be the one that was configured, whoever confirmed it.
func (s *Shot) unfelt() bool {
	return s.Does.OnTheWay && s.measured.Observed != 0 && s.measured.Observed < s.measured.Expected
}

// afterDeath notes a kill whose victim an earlier kill had struck: one death is one kill, however many signals were sent.
func (s *Shot) afterDeath(kills map[string]*Shot) {
	if !s.Does.Kills || !s.Effective() {
		return
	}
	for _, v := range s.killed() {
		if kills[v] == nil {
			kills[v] = s
		}
	}
	if first := kills[s.killed()[0]]; first != s && !slices.ContainsFunc(s.killed(), func(v string) bool { return kills[v] == s }) {
		s.killedBy = first.Op
	}
}

// killed are the incarnations whose deaths the shot tells of: that of its victim, whoever else went with it; or those of several, each by
// itself.
func (s *Shot) killed() []string {
	if s.Victim != "" || len(s.victims) == 0 {
		return []string{s.Victim}
	}
	return s.victims
}

// conclude fixes when the fault was over: as its victims say, as the runner says that reverted it, or by the death of what it lived
// in. The deaths that the run itself brings about after its final reads show nothing.
func (s *Shot) conclude(ix *Facts) {
	s.Over = history.Span{To: Open}
	if s.Applied == nil {
		return
	}
	s.Over.From = s.Applied.To
	for _, h := range s.hits {
		s.Over.From = max(s.Over.From, h.From)
	}
	last := s.Over.From
	switch {
	case s.Does.Kills, s.Does.AtOnce:
		s.Over = s.Applied.Span
		if s.death() != nil { // a call to a cluster is over when what it asked for was seen
			s.Over.To = max(s.Over.To, s.confirmed.To)
		}
		return
	case s.Does.InVictim && len(s.victims) > 0:
		all := history.Span{}
		for _, v := range s.victims {
			all = later(all, s.endIn(ix, v))
		}
		s.Over = all
	case s.reverted != nil:
		s.Over = s.reverted.Span
		if s.Over.To < s.Applied.To { // there was nothing to undo: it was over as soon as it was done
			s.Over = s.Applied.Span
		}
	}
	if s.verified != nil && s.Over.To > s.verified.To { // whatever it did is over by the time that was read back
		s.Over.To = max(s.verified.To, last)
	}
	if s.Over.To == Open && (s.Does.AtStore || s.Does.AtKey) && s.Applied.Fault.Declared == 0 {
		s.Over = s.Applied.Span
	}
	s.Over.From = min(s.Over.From, s.Over.To)
}

// Struck is the event that says first that the shot struck: that it was applied or, of a record without that, confirmed. nil = none.
func (s *Shot) Struck() *history.Event { return cmp.Or(s.Applied, s.confirmed) }

// endIn is when a fault that lives in a replica was over there.
func (s *Shot) endIn(ix *Facts, victim string) history.Span {
	end := history.Span{From: s.Applied.To, To: Open}
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
	d, dead := ix.Deaths[victim]
	if final := ix.Phases[history.PhaseFinal]; dead && (final == nil || d.To <= final.From) && d.To < end.To {
		end = history.Span{From: max(d.From, s.Applied.From), To: max(d.To, s.Applied.To)}
	}
	return end
}

// Lasted is when the fault was over; a process in a pod lived until its last sign of life, whenever the call was made.
func (s *Shot) Lasted() history.Span {
	over := s.Over
	if d := s.death(); d != nil {
		over.From = min(max(over.From, d.Sign), over.To)
	}
	return over
}

// Valid reports that the shot was what it was declared for: confirmed, and, where it was aimed at the holder of a lock and keeps it
// from its lease, with a trial on that lock.
func (s *Shot) Valid() bool {
	if !s.Effective() || s.lock == "" || !s.cutsOff() {
		return s.Effective()
	}
	return slices.ContainsFunc(s.Trials, func(t *Trial) bool { return !t.Void.IsVoid() && t.E.Lock == s.lock })
}

// ReasonVoid says why the shot yields no trial.
func (s *Shot) ReasonVoid() verdict.Void {
	void := func(code verdict.VoidCode, detail string) verdict.Void {
		return verdict.Void{Code: code, Detail: detail}
	}
	switch {
	case s.idle:
		return void(verdict.VoidJobsEnded, "")
	case s.Voided != nil:
		return verdict.VoidOf(s.Voided.Fault)
	case s.killedBy != "":
		return void(verdict.VoidMoved, s.killedBy+" had killed the victim already")
	case s.Does.Unknown:
		return void(verdict.VoidUnknown, "this lockdrill does not know faults of kind "+s.Kind)
	case s.Applied == nil:
		return void(verdict.VoidNeverApplied, "")
	case s.confirmed == nil:
		return void(verdict.VoidUnconfirmed, "its effect was not observed")
	case s.short():
		return void(verdict.VoidUnconfirmed, fmt.Sprintf("it hit %d of %d operations", s.count(), s.want))
	case s.unfelt():
		return void(verdict.VoidUnconfirmed, figures.Exact(s.measured.Observed)+" observed, at least "+figures.Exact(s.measured.Expected)+" expected")
	case len(s.Exposed) == 0:
		return void(verdict.VoidMoved, "the victim did not surely hold a key when it was hit")
	case len(s.Trials) == 0:
		return void(verdict.VoidNothingOwed, "")
	}
	for _, t := range s.Trials {
		if t.Void.IsVoid() && (s.lock == "" || t.E.Lock == s.lock) {
			return t.Void
		}
	}
	return void(verdict.VoidMoved, "the victim did not surely hold a key of lock "+s.lock+" when it was hit")
}

// Result is the shot as verdict.json lists it.
func (s *Shot) Result(ix *Facts) verdict.FaultResult {
	r := verdict.FaultResult{
		ID: s.ID, Shot: s.num, Shots: ix.ShotsOf(s.ID), Kind: s.Kind, Form: s.form, Victim: s.Victim, Victims: s.victims, Lock: s.lock, Key: s.Key,
		Declared: ix.declared(s), Confirmed: s.Effective(), Void: s.WhyVoid.IsVoid(), Why: s.WhyVoid.String(), Hits: s.count(), Want: s.want, Via: s.via,
		Configured: s.configured, Baseline: noted(s.measured.Baseline), Expected: noted(s.measured.Expected), Observed: noted(s.measured.Observed),
	}
	if len(s.victims) == 1 && s.victims[0] == s.Victim {
		r.Victims = nil
	}
	r.Death = deathOf(s.measured.Death)
	if s.Effective() {
		r.Effective = windowOf(history.Span{From: s.Applied.From, To: s.Over.To})
	}
	return r
}

// noted is what was measured, in seconds; nil where it was not.
func noted(ns int64) *float64 {
	if ns == 0 {
		return nil
	}
	s := Seconds(ns)
	return &s
}

// declared is when the timeline meant the shot to fire; nil where "settled", or the end of another fault, decided.
func (ix *Facts) declared(s *Shot) *verdict.Window {
	p, f := ix.Phases[history.PhaseFaults], ix.declaredFault(s.ID)
	after, offset := (*experiments.Fault)(nil), time.Duration(0)
	if f != nil {
		after, offset = ix.Exp.Begin(f)
	}
	if f == nil || p == nil || after != nil || s.num > 1 && (f.Repeat.Settled || f.Repeat.Every == 0) {
		return nil
	}
	at := p.From + int64(offset) + int64(s.num-1)*int64(f.Repeat.Every)
	return windowOf(history.Span{From: at, To: at + int64(f.For)})
}

// ShotsOf is how many shots the file declares of the fault; 0 where it does not declare it.
func (ix *Facts) ShotsOf(id string) int {
	f := ix.declaredFault(id)
	switch {
	case f == nil:
		return 0
	case !f.Repeat.Answered:
		return max(1, f.Repeat.Count)
	}
	n := 0 // as many as it took
	for _, s := range ix.Shots {
		if s.ID == id && s.Effective() {
			n++
		}
	}
	return max(1, n)
}

// FailsOver reports a fail-over of the locks' store, declared or fired.
func (ix *Facts) FailsOver() bool {
	return ix.standby || slices.ContainsFunc(ix.Shots, func(s *Shot) bool { return s.Does.FailsOver })
}

// Clean reports that everything that was cleaned up was verified, as far as the history tells.
func (ix *Facts) Clean() bool {
	return !slices.ContainsFunc(ix.cleanups, func(c *history.Event) bool { return !c.Note.OK })
}
