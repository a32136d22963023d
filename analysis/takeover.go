package analysis

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
	endRenewal  = "renewal" // the victim's own lease was extended again
	endCensored = "censored"
)

// trial is one exposed epoch of a confirmed fault: how long until somebody else worked under its key.
type trial struct {
	shot  *shot
	e     *epoch       // the victim's
	next  *epoch       // the epoch granted next
	grant history.Span // the first grant after the victim's: next's, unless one may have been missed
	after *epoch       // the epoch that ended it
	from  history.Span // from when on the victim could extend its lease no more: the fault, or its last renewal during it
	start history.Span // from when on it is counted: from, or the first demand
	x     history.Span // what ended it; To is open while censored
	class string
	end   string
	by    verdict.Attribution // what says that the effect that ended it is after's; "" = an entry of our ledger, or no effect
	void  verdict.Void        // why it counts for nothing
	cut   bool                // another fault, or a loss of data, cut it short

	value                    dur
	residual, pickup, warmup *dur
	tick                     *dur         // loops: tick gap
	tickSpan                 history.Span // from the tick before to what ended it, or to where it was seen no more
	idle                     bool
	late, tickLate           int64 // how late the machine was meanwhile
	evidence                 []int64
}

func (t *trial) censored() bool { return t.end == endCensored }

// newTrial measures one exposed epoch.
func (ix *Facts) newTrial(s *shot, e *epoch) *trial {
	k := ix.keys[e.key]
	t := &trial{shot: s, e: e, next: k.next(e), class: s.class(), evidence: []int64{s.applied.N, e.n}}
	if t.next != nil {
		t.grant = ix.firstAfter(k, e, t.next)
	}
	t.from = ix.struckAt(s, e)
	if t.class == verdict.ClassHandOver && !s.handedOver(e) { // it was asked to stop, and died with its lock
		t.class = verdict.ClassCrash
	}
	if ix.recovered(k, t) {
		ix.measureTick(k, t, open)
		return t
	}
	demand, asked := ix.demand(k, s, e)
	x, n := ix.endOf(k, t)
	start := t.from
	if !k.loop && len(k.jobs) == 0 && asked { // nobody says that work is owed: the clock starts with the first who wants it
		start = history.Span{From: max(start.From, demand.From), To: max(start.To, demand.To)}
	}
	censor, cause := ix.censored(k, t, x)
	ix.measureTick(k, t, censor)
	if x.To == open || cause != 0 {
		t.end, t.after, t.cut = endCensored, nil, cause != 0
		if !asked && !ix.standing(k, s, e) && ix.claimed[k.lock] {
			t.void = verdict.Void{Code: verdict.VoidNoDemand}
		}
		t.value = dur{lo: max(0, censor-start.To), hi: open}
		t.value.lo = ix.attested(k.lock, t.value.lo)
		t.evidence = cite(append(t.evidence, cause)...)
		t.start, t.x = start, history.Span{From: censor, To: open}
		ix.split(t)
		return t
	}
	t.value = between(start, x)
	t.value.lo = ix.attested(k.lock, t.value.lo)
	t.evidence = cite(append(t.evidence, t.after.n, n)...)
	t.start, t.x = start, x
	ix.classify(t)
	ix.split(t)
	return t
}

// attested is how long there surely was no effect of the lock: where the ledger has lost entries, the first may be among them.
func (ix *Facts) attested(lock string, lo int64) int64 {
	if ix.ledgered[lock] && len(ix.lostLedger) > 0 {
		return min(lo, 0)
	}
	return lo
}

// endOf finds x, the first accepted effect of a later-granted epoch: its begin or a tick, or, where its holder never wrote begin, a state of
// the job. Where the ledger shows nothing of this lock, it is the next grant.
func (ix *Facts) endOf(k *keyIndex, t *trial) (x history.Span, n int64) {
	if ix.ledgered[k.lock] && ix.exp.Observed() {
		return ix.foreignEnd(k, t)
	}
	if ix.ledgered[k.lock] {
		t.end = endEffect
		for _, f := range k.effects {
			if f.fresh() && f.epoch.rank > t.e.rank && !f.epoch.ghost {
				t.after = f.epoch
				ix.unbegun(f)
				return f.span, f.n
			}
		}
		return history.Span{To: open}, 0
	}
	t.end = endGrant
	if t.next == nil {
		return history.Span{To: open}, 0
	}
	t.after = t.next
	return t.grant, t.next.n
}

// unbegun notes that f, the first effect of its epoch, is no begin: the successor was at work before anything shows it.
func (ix *Facts) unbegun(f *effect) {
	if !f.enters() && !f.epoch.unbegun {
		f.epoch.unbegun = true
		ix.findAs(verdict.FindingNoBegin, f.where()+"is "+f.State+" of epoch "+f.epoch.id+", which never wrote begin. A takeover is measured to this entry, and may have ended sooner", f.n)
	}
}

// recovered settles trials in which the victim's own lease was extended again, or its work finished, before anybody else came. Where it
// was extended during the fault and lost before its end all the same, the clock starts at the last renewal.
func (ix *Facts) recovered(k *keyIndex, t *trial) bool {
	if t.shot.does.Kills {
		return false
	}
	since := t.shot.applied.To
	if hit := t.shot.firstHit(t.e); hit != nil {
		since = hit.To
	}
	var first, last *call
	for _, c := range slices.Concat(t.e.renewals, t.e.extensions()) {
		if c.outcome == history.OK && c.span.From >= since {
			first, last = cmp.Or(first, c), c
		}
	}
	if first != nil {
		if !ix.lostAfter(t, last) {
			t.class, t.end, t.after = verdict.ClassRecovery, endRenewal, t.e
			t.start, t.x = t.shot.applied.Span, first.span
			t.value = between(t.start, t.x)
			t.evidence = cite(append(t.evidence, first.n)...)
			return true
		}
		t.from = last.span
	}
	if k.loop {
		return false
	}
	for _, j := range k.jobs {
		for _, f := range j.terminals {
			if f.epoch == t.e && (t.next == nil || f.span.To <= t.next.granted.From) {
				t.class, t.end, t.after = verdict.ClassRecovery, endEffect, t.e
				t.start, t.x = t.shot.applied.Span, f.span
				t.value = between(t.start, t.x)
				t.evidence = cite(append(t.evidence, f.n)...)
				return true
			}
		}
	}
	return false
}

// lostAfter reports that another got the key after c, the victim's last renewal, while the fault still lasted: neither given back nor
// left behind by a death.
func (ix *Facts) lostAfter(t *trial, c *call) bool {
	d, dead := ix.deaths[t.e.replica]
	return t.next != nil && t.e.life.gave == nil && c.span.To < t.shot.over.From && !(dead && d.From < t.e.life.end.To)
}

// censored says until when the absence of x is attested, and by which event the trial was cut short (0: by nothing but the end of
// what was watched by the probe that would have seen x).
func (ix *Facts) censored(k *keyIndex, t *trial, x history.Span) (until, cause int64) {
	until = open
	cut := func(at, n int64) {
		if at < until {
			until, cause = at, n
		}
	}
	for _, s := range ix.shots {
		if s == t.shot || !s.effective() || s.applied.To < t.shot.applied.From {
			continue
		}
		if before := t.after == nil || s.applied.To < x.From; before && s.does.AtStore {
			cut(s.applied.From, s.applied.N) // nobody gets anything from the store
		}
		for _, e := range s.hitEpochs(ix)[k.name] {
			before := t.after == nil || s.applied.To < x.From || e.rank < t.after.rank && s.applied.From <= x.To
			if before && e.rank >= t.e.rank && e.granted.From <= s.applied.To && e.life.end.To >= s.applied.From {
				cut(s.applied.From, s.applied.N)
			}
		}
	}
	for _, l := range ix.losses {
		own := t.shot.class() == verdict.ClassStore && l.From <= t.shot.over.To && l.To >= t.shot.applied.From
		if !own && l.To > t.shot.applied.From && (t.after == nil || l.From < x.From) {
			cut(l.From, t.shot.applied.N)
		}
	}
	if x.To == open { // a witness that was dead by then attests nothing
		until = min(until, ix.watched(ix.witness(k.lock), t.shot.applied.To), k.owedUntil())
	}
	return until, cause
}

// witness is the probe that would have seen the end of a trial.
func (ix *Facts) witness(lock string) string {
	if ix.ledgered[lock] {
		return ix.ledgerOf(lock)
	}
	return ix.looker(lock)
}

// classify tells apart what is no plain takeover.
func (ix *Facts) classify(t *trial) {
	gave, taken := t.e.life.gave, t.shot.class() == verdict.ClassTheft || t.shot.class() == verdict.ClassStore // by the fault itself
	switch {
	case t.shot.handedOver(t.e):
		t.class = verdict.ClassHandOver
	case !taken && t.next != nil && t.next.granted.To < t.e.life.due.From && gave == nil && !t.e.life.loss:
		if ix.mayHaveGiven(t.e) {
			t.void = verdict.Void{Code: verdict.VoidUndecided}
			return
		}
		t.class = verdict.ClassFalse
	case t.after.replica != "" && t.after.replica == t.e.replica:
		t.class = verdict.ClassRecovery
	}
}

// split divides the trial into residual, pickup and warm-up, as far as they were seen.
func (ix *Facts) split(t *trial) {
	end := t.e.life.end
	if end.From == open {
		return
	}
	part := func(a, b history.Span) *dur { // none is longer than the whole
		d := between(a, b)
		return &dur{min(d.lo, t.value.hi), min(d.hi, t.value.hi)}
	}
	t.residual = part(t.start, end)
	if t.next == nil {
		return
	}
	t.pickup = part(end, t.grant)
	if t.end == endEffect {
		t.warmup = part(t.grant, t.x)
	}
}

// takeover is the trial as verdict.json lists it.
func (t *trial) takeover() verdict.Takeover {
	v := t.value.Range()
	out := verdict.Takeover{
		Lock: t.e.lock, Key: t.e.key, Fault: t.shot.op, Victim: cmp.Or(t.e.replica, t.shot.victim), Lo: v.Lo, Hi: v.Hi,
		Residual: optional(t.residual), Pickup: optional(t.pickup), Warmup: optional(t.warmup),
		Class: t.class, End: t.end, Censored: t.censored(), TickGap: optional(t.tick), Idle: t.idle, Evidence: t.evidence,
		By: t.by, Lateness: seconds(t.late), TickLateness: seconds(t.tickLate),
	}
	if t.after != nil {
		out.Successor = t.after.replica
	}
	return out
}

func optional(d *dur) *verdict.Range {
	if d == nil {
		return nil
	}
	r := d.Range()
	return &r
}

// thefts lists changes of owner that no fault of ours explains: granted to another while the holder was still owed its lease.
// The value is what was left of the lease.
func (ix *Facts) thefts() []verdict.Takeover {
	var out []verdict.Takeover
	hit, told := map[*epoch]bool{}, map[*epoch]bool{}
	for _, s := range ix.shots {
		for _, e := range s.exposed {
			hit[e] = true
		}
		for _, t := range s.trials {
			told[t.e] = told[t.e] || t.class == verdict.ClassFalse
		}
	}
	for k, e := range ix.allEpochs() {
		next := k.next(e)
		if next == nil || e.ghost || told[e] || hit[e] && !next.unexplained || ix.takenFrom(e) != nil || e.stranger || e.life.gave != nil || ix.mayHaveGiven(e) || e.life.loss || next.granted.To >= e.life.due.From {
			continue
		}
		v := between(next.granted, e.life.due).Range()
		out = append(out, verdict.Takeover{
			Lock: k.lock, Key: k.name, Victim: e.replica, Successor: next.replica, Lo: v.Lo, Hi: v.Hi,
			Class: verdict.ClassTheft, End: endGrant, Evidence: cite(e.n, next.n),
		})
	}
	return out
}

// measureTick measures a loop's tick gap: from the last accepted tick before the fault to anybody's next. A trial that was
// cut short at cut tells nothing of what came later.
func (ix *Facts) measureTick(k *keyIndex, t *trial, cut int64) {
	if !k.loop {
		return
	}
	f := t.shot.applied.Span
	t.idle = true
	for _, w := range t.e.works {
		if w.start.From <= f.To && w.end.To >= f.From {
			t.idle = false
		}
	}
	d, last, until := ix.tickGap(k, t, cut, true)
	if other, first, later := ix.tickGap(k, t, cut, false); first != nil && last != nil { // of a tick that nobody can be told to have made, both
		d, until = dur{min(d.lo, other.lo), max(d.hi, other.hi)}, max(until, later)
		if first.span.From < last.span.From {
			last = first
		}
	} else if last == nil {
		d, last, until = other, first, later
	}
	if last == nil {
		return
	}
	t.tickSpan = history.Span{From: last.span.From, To: until}
	d.lo = ix.attested(t.e.lock, d.lo)
	t.tick = &d
}

// tickGap is the stretch from the last tick before the fault to the next, or to where ticks were looked for last. unsure says of ticks that
// may have come before and after the fault, and that nobody can be told to have made, that they came before.
func (ix *Facts) tickGap(k *keyIndex, t *trial, cut int64, unsure bool) (d dur, last *effect, until int64) {
	f := t.shot.applied.Span
	var next *effect
	for _, tick := range k.effects {
		if tick.State != history.StateTick || !tick.fresh() {
			continue
		}
		before := tick.span.To <= f.From
		switch {
		case tick.Foreign && tick.by == "":
			before = before || unsure && tick.span.From < f.To
		case t.shot.does.Kills: // a killed victim's ticks came before the fault, however late they were seen
			before = tick.epoch.rank <= t.e.rank
		}
		switch {
		case before && next == nil:
			last = tick
		case !before && next == nil:
			next = tick
		}
	}
	if last == nil {
		return d, nil, 0
	}
	until = min(cut, ix.watched(ix.ledgerOf(k.lock), f.To))
	d = dur{lo: max(0, until-last.span.To), hi: open}
	if next != nil && next.span.From <= cut {
		d, until = between(last.span, next.span), next.span.To
	}
	return d, last, until
}
