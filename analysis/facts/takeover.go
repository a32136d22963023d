package facts

import (
	"cmp"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// What ended a trial.
const (
	endEffect   = "effect"
	endGrant    = "grant"
	EndRenewal  = "renewal" // the victim's own lease was extended again
	endCensored = "censored"
)

// Trial is one exposed epoch of a confirmed fault: how long until somebody else worked under its key.
type Trial struct {
	Shot  *Shot
	E     *Epoch       // the victim's
	Next  *Epoch       // the epoch granted next
	grant history.Span // the first grant after the victim's: next's, unless one may have been missed
	After *Epoch       // the epoch that ended it
	from  history.Span // from when on the victim could extend its lease no more: the fault, or its last renewal during it
	Start history.Span // from when on it is counted: from, or the first demand
	Ended history.Span // what ended it; To is open while censored
	Class string
	End   string
	by    verdict.Attribution // what says that the effect that ended it is after's; "" = an entry of our ledger, or no effect
	trace string              // of that effect, as its writer says
	Void  verdict.Void        // why it counts for nothing
	Cut   bool                // another fault, or a loss of data, cut it short

	Value                    Dur
	residual, pickup, warmup *Dur
	Tick                     *Dur         // loops: tick gap
	tickSpan                 history.Span // from the tick before to what ended it, or to where it was seen no more
	idle                     bool
	Late, TickLate           int64 // how late the machine was meanwhile
	Evidence                 []int64
}

func (t *Trial) Censored() bool { return t.End == endCensored }

// newTrial measures one exposed epoch.
func (ix *Facts) newTrial(s *Shot, e *Epoch) *Trial {
	k := ix.Keys[e.Key]
	t := &Trial{Shot: s, E: e, Next: k.Next(e), Class: s.Class(), Evidence: []int64{s.Applied.N, e.N}}
	if t.Next != nil {
		t.grant = ix.firstAfter(k, e, t.Next)
	}
	t.from = ix.struckAt(s, e)
	if t.Class == verdict.ClassHandOver && !s.handedOver(e) { // it was asked to stop, and died with its lock
		t.Class = verdict.ClassCrash
	}
	if ix.recovered(k, t) {
		ix.measureTick(k, t)
		return t
	}
	demand, asked := ix.demand(k, s, e)
	x, n := ix.endOf(k, t)
	start := t.from
	if !k.Loop && len(k.Jobs) == 0 && asked { // nobody says that work is owed: the clock starts with the first who wants it
		start = later(start, demand)
	}
	start = later(start, k.due(s, e)) // nobody has to take it up before
	censor, cause := ix.censored(k, t, x)
	ix.measureTick(k, t)
	if x.To == Open || cause != 0 {
		t.End, t.After, t.Cut = endCensored, nil, cause != 0
		if !asked && !ix.standing(k, s, e) && ix.claimed[k.Lock] {
			t.Void = verdict.Void{Code: verdict.VoidNoDemand}
		}
		t.Start, t.Ended = start, history.Span{From: ix.attested(k.Lock, start, min(censor, x.From)), To: Open} // it may have ended before it was cut short
		t.Value = between(t.Start, t.Ended)
		t.Evidence = Cite(append(t.Evidence, cause)...)
		ix.split(t)
		return t
	}
	t.Start, t.Ended = start, history.Span{From: ix.attested(k.Lock, start, x.From), To: x.To}
	t.Value = between(t.Start, t.Ended)
	t.Evidence = Cite(append(t.Evidence, t.After.N, n)...)
	ix.classify(t)
	ix.split(t)
	return t
}

// attested is until when after start there surely was no effect of the lock, of which the first that is known came at no earlier than at.
func (ix *Facts) attested(lock string, start history.Span, at int64) int64 {
	if ix.mayHide(lock, start.From) {
		return min(at, start.To)
	}
	return at
}

// mayHide reports that there may have been an effect of the lock since then that is not known: the ledger has lost entries, or records of
// it that came since could not be read.
func (ix *Facts) mayHide(lock string, since int64) bool {
	unread, some := ix.unreadUntil[ix.LedgerOf(lock)]
	return ix.Ledgered[lock] && (len(ix.LostLedger) > 0 || some && unread >= since)
}

// endOf finds x, the first accepted effect of a later-granted epoch: its begin or a tick, or, where its holder never wrote begin, a state of
// the job. Where the ledger shows nothing of this lock, it is the next grant.
func (ix *Facts) endOf(k *Key, t *Trial) (x history.Span, n int64) {
	if ix.Ledgered[k.Lock] && ix.Exp.Observed() {
		return ix.foreignEnd(k, t)
	}
	if ix.Ledgered[k.Lock] {
		t.End = endEffect
		for _, f := range k.Effects {
			if f.Fresh() && f.Epoch.Rank > t.E.Rank && !f.Epoch.Ghost {
				t.After = f.Epoch
				ix.unbegun(f)
				return f.Span, f.N
			}
		}
		return history.Span{From: Open, To: Open}, 0
	}
	t.End = endGrant
	if t.Next == nil {
		return history.Span{From: Open, To: Open}, 0
	}
	t.After = t.Next
	return t.grant, t.Next.N
}

// unbegun notes that f, the first effect of its epoch, is no begin: the successor was at work before anything shows it.
func (ix *Facts) unbegun(f *effect) {
	if !f.enters() && !f.Epoch.unbegun {
		f.Epoch.unbegun = true
		ix.findAs(verdict.FindingNoBegin, f.where()+"is "+f.State+" of epoch "+f.Epoch.ID+", which never wrote begin. A takeover is measured to this entry, and may have ended sooner", f.N)
	}
}

// censored says until when the absence of x is attested, and by which event the trial was cut short (0: by nothing but the end of
// what was watched by the probe that would have seen x).
func (ix *Facts) censored(k *Key, t *Trial, x history.Span) (until, cause int64) {
	until = Open
	cut := func(at, n int64) {
		if at < until {
			until, cause = at, n
		}
	}
	for _, s := range ix.Shots {
		if s == t.Shot || !s.Effective() || s.Applied.To < t.Shot.Applied.From {
			continue
		}
		if before := t.After == nil || s.Applied.To < x.From; before && s.Does.AtStore {
			cut(s.Applied.From, s.Applied.N) // nobody gets anything from the store
		}
		for _, e := range s.hitEpochs(ix)[k.Name] {
			before := t.After == nil || s.Applied.To < x.From || e.Rank < t.After.Rank && s.Applied.From <= x.To
			if before && t.cutBy(s)(e) {
				cut(s.Applied.From, s.Applied.N)
			}
		}
	}
	for _, l := range ix.losses {
		own := t.Shot.Class() == verdict.ClassStore && l.From <= t.Shot.Over.To && l.To >= t.Shot.Applied.From
		if !own && l.To > t.Shot.Applied.From && (t.After == nil || l.From < x.From) {
			cut(l.From, t.Shot.Applied.N)
		}
	}
	if x.To == Open { // a witness that was dead by then attests nothing
		until = min(until, ix.watched(ix.Witness(k.Lock), t.Shot.Applied.To), k.owedUntil())
	}
	return until, cause
}

// Witness is the probe that would have seen the end of a trial.
func (ix *Facts) Witness(lock string) string {
	if ix.Ledgered[lock] {
		return ix.LedgerOf(lock)
	}
	return ix.Looker(lock)
}

// classify tells apart what is no plain takeover.
func (ix *Facts) classify(t *Trial) {
	gave, taken := t.E.Lease.gave, t.Shot.Class() == verdict.ClassTheft || t.Shot.Class() == verdict.ClassStore // by the fault itself
	switch {
	case t.Shot.handedOver(t.E):
		t.Class = verdict.ClassHandOver
	case !taken && t.Next != nil && t.Next.Granted.To < t.E.Lease.Expires.From && gave == nil && !t.E.Lease.loss:
		if ix.mayHaveGiven(t.E) {
			t.Void = verdict.Void{Code: verdict.VoidUndecided}
			return
		}
		t.Class = verdict.ClassFalse
	case t.After.Replica != "" && t.After.Replica == t.E.Replica:
		t.Class = verdict.ClassRecovery
	}
}

// split divides the trial into residual, pickup and warm-up, as far as they were seen.
func (ix *Facts) split(t *Trial) {
	end := t.E.Lease.Freed
	if end.From == Open {
		return
	}
	part := func(a, b history.Span) *Dur { // none is longer than the whole
		d := between(a, b)
		return &Dur{min(d.Lo, t.Value.Hi), min(d.Hi, t.Value.Hi)}
	}
	t.residual = part(t.Start, end)
	if t.Next == nil {
		return
	}
	t.pickup = part(later(t.Start, end), t.grant) // none begins before the whole
	if t.End == endEffect {
		t.warmup = part(t.grant, t.Ended)
	}
}

// Takeover is the trial as verdict.json lists it.
func (t *Trial) Takeover() verdict.Takeover {
	v := t.Value.Range()
	out := verdict.Takeover{
		Lock: t.E.Lock, Key: t.E.Key, Fault: t.Shot.Op, Victim: cmp.Or(t.E.Replica, t.Shot.Victim), Lo: v.Lo, Hi: v.Hi,
		Residual: optional(t.residual), Pickup: optional(t.pickup), Warmup: optional(t.warmup),
		Class: t.Class, End: t.End, Censored: t.Censored(), TickGap: optional(t.Tick), Idle: t.idle, Evidence: t.Evidence,
		By: t.by, Lateness: Seconds(t.Late), TickLateness: Seconds(t.TickLate),
	}
	if t.After != nil {
		out.Successor = t.After.Replica
	}
	if t.End == endEffect {
		out.Trace = t.trace
	}
	return out
}

func optional(d *Dur) *verdict.Range {
	if d == nil {
		return nil
	}
	r := d.Range()
	return &r
}

// Thefts lists changes of owner that no fault of ours explains: granted to another while the holder was still owed its lease.
// The value is what was left of the lease.
func (ix *Facts) Thefts() []verdict.Takeover {
	var out []verdict.Takeover
	hit, told := map[*Epoch]bool{}, map[*Epoch]bool{}
	for _, s := range ix.Shots {
		for _, e := range s.Exposed {
			hit[e] = true
		}
		for _, t := range s.Trials {
			told[t.E] = told[t.E] || t.Class == verdict.ClassFalse
		}
	}
	for k, e := range ix.allEpochs() {
		next := k.Next(e)
		if next == nil || e.Ghost || told[e] || hit[e] && !next.unexplained || ix.takenFrom(e) != nil || e.Stranger || e.Lease.gave != nil || ix.mayHaveGiven(e) || e.Lease.loss || next.Granted.To >= e.Lease.Expires.From || !next.surelyAfter(e) {
			continue
		}
		v := between(next.Granted, e.Lease.Expires).Range()
		out = append(out, verdict.Takeover{
			Lock: k.Lock, Key: k.Name, Victim: e.Replica, Successor: next.Replica, Lo: v.Lo, Hi: v.Hi,
			Class: verdict.ClassTheft, End: endGrant, Evidence: Cite(e.N, next.N),
		})
	}
	return out
}

// measureTick measures a loop's tick gap: the longest stretch without a tick of anybody, from the last accepted tick before the fault on, until
// the next fault strikes or nobody looks any more.
func (ix *Facts) measureTick(k *Key, t *Trial) {
	if !k.Loop {
		return
	}
	f := t.Shot.Applied.Span
	t.idle = true
	for _, w := range t.E.Works {
		if w.Start.From <= f.To && w.End.To >= f.From {
			t.idle = false
		}
	}
	gap, since := ix.tickGap(k, t, true)
	if other, also := ix.tickGap(k, t, false); since != nil && also != nil { // of a tick that may have come before the fault or after it, both
		gap.Dur = Dur{min(gap.Lo, other.Lo), max(gap.Hi, other.Hi)}
		gap.Span = history.Span{From: min(gap.From, other.From), To: max(gap.To, other.To)}
		since = sooner(since, also)
	} else if since == nil {
		gap, since = other, also
	}
	if since == nil {
		return
	}
	t.tickSpan = gap.Span
	if ix.mayHide(t.E.Lock, since.Span.From) { // also the last one before the fault
		gap.Lo = 0
	}
	t.Tick = &gap.Dur
}

// tickGap is a stretch without ticks, from when to when it may have been.
type tickGap struct {
	Dur
	history.Span
}

// gapBetween is the stretch from tick a to tick b.
func gapBetween(a, b *effect) tickGap {
	return tickGap{between(a.Span, b.Span), history.Span{From: a.Span.From, To: b.Span.To}}
}

// tickGap is the longest stretch without a tick from the last one before the fault on; nil where there was none before. unsure says of ticks
// that may have come before the fault or after it that they came before.
func (ix *Facts) tickGap(k *Key, t *Trial, unsure bool) (gap tickGap, last *effect) {
	f := t.Shot.Applied.Span
	var after []*effect
	for tick := range k.ticks() {
		before := tick.Span.To <= f.From || unsure && tick.Span.From < f.To
		if t.Shot.Does.Kills && (!tick.Foreign || tick.by != "") { // nobody ticks under a later grant before the holder is dead; his own may yet come
			before = before && tick.Epoch.Rank <= t.E.Rank
		}
		switch {
		case len(after) > 0 || !before:
			after = append(after, tick)
		default:
			last = tick
		}
	}
	if last == nil {
		return gap, nil
	}
	struck := ix.struckNext(k, t)
	until := min(struck, ix.watched(ix.LedgerOf(k.Lock), f.To))
	if len(after) == 0 || after[0].Span.From > struck {
		return tickGap{Dur{Lo: max(0, until-last.Span.To), Hi: Open}, history.Span{From: last.Span.From, To: until}}, last
	}
	gap = gapBetween(last, after[0])
	return ix.laterGaps(k, gap, after, until, struck), last
}

// laterGaps is gap, or a longer one between the ticks after it, until another fault strikes. The one that had not ended by then, or when the
// loops were told to stop, counts where it is longer than any that the key's ticks show: else it may well be one of those.
func (ix *Facts) laterGaps(k *Key, gap tickGap, after []*effect, until, struck int64) tickGap {
	if p := ix.Phases[history.PhaseFinal]; p != nil {
		until = min(until, p.From)
	}
	for i, tick := range after[1:] {
		if tick.Span.To > until {
			if tick.Span.From < until { // it may have come before that
				gap = gap.longer(tickGap{Dur{0, between(after[i].Span, tick.Span).Hi}, history.Span{From: after[i].Span.From, To: tick.Span.To}})
			}
			after = after[:i+1]
			break
		}
		gap = gap.longer(gapBetween(after[i], tick))
	}
	last := after[len(after)-1]
	if left := until - last.Span.To; until < struck && left > ix.usualGap(k) {
		gap = gap.longer(tickGap{Dur{left, Open}, history.Span{From: last.Span.From, To: until}})
	}
	return gap
}

// longer is the range of the longer of the two.
func (g tickGap) longer(o tickGap) tickGap {
	if o.Hi > g.Hi || o.Hi == g.Hi && o.Lo > g.Lo {
		g.Span = o.Span
	}
	g.Dur = g.Worst(o.Dur)
	return g
}

// usualGap is the longest stretch between two ticks of the key in the whole run, at most.
func (ix *Facts) usualGap(k *Key) (longest int64) {
	var last *effect
	for tick := range k.ticks() {
		if last != nil {
			longest = max(longest, between(last.Span, tick.Span).Hi)
		}
		last = tick
	}
	return longest
}

// struckNext is when the next shot after the trial's strikes its holder or a later one, or the locks' store.
func (ix *Facts) struckNext(k *Key, t *Trial) int64 {
	next := int64(Open)
	for _, s := range ix.Shots {
		if s != t.Shot && s.Effective() && s.Applied.From > t.Shot.Applied.From && (s.Does.AtStore || slices.ContainsFunc(s.hitEpochs(ix)[k.Name], t.cutBy(s))) {
			next = min(next, s.Applied.From)
		}
	}
	return next
}

// cutBy tells the epochs that s strikes while they may hold the trial's key, after its victim or for it.
func (t *Trial) cutBy(s *Shot) func(*Epoch) bool {
	return func(e *Epoch) bool {
		return e.Rank >= t.E.Rank && e.Granted.From <= s.Applied.To && e.Lease.Freed.To >= s.Applied.From
	}
}
