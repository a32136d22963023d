package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Causes of lock debt.
const (
	causeFailed  = "release_failed"
	causeKept    = "kept_after_work" // of a system that is not ours: nobody tells what became of its release
	causeSkipped = "release_skipped_after_abandon"
	CauseOrphan  = "orphan_acquire"
	causeRenewed = "renew_after_exit"
)

// Debt is a key that stayed taken after nobody needed it any more.
type Debt struct {
	E         *Epoch
	Cause     string
	Start     history.Span
	Time      Dur // from start until the key was free
	Effective Dur // of that, while somebody waited
	Waiting   Dur // what all who waited waited then
	Late      lateDebt
}

// Debts is what became of one lock's keys after their holders were done.
type Debts struct {
	List    []Debt
	Ended   int   // epochs whose holder was done with the key, and which no crash and no plan left to their TTL
	Asked   int   // acquires in all
	Orphans Tally // granted to somebody who never learnt of it, and not given back at once
	Belated int   // how many of the sure ones a late machine may have made
}

func (ix *Facts) DebtsOf(lock string) Debts {
	var ds Debts
	if l := ix.Exp.Lock(lock); l != nil && l.Keyless() {
		return ds
	}
	for _, k := range ix.KeysOf(lock) {
		ds.Asked += len(k.Attempts)
		var found []Debt
		for _, e := range k.Epochs {
			o, owed := ix.owed(e)
			if !owed {
				continue
			}
			ds.Ended++
			if d, ok := ix.debtOf(e, o); ok {
				found = append(found, d)
			}
		}
		found = append(found, ix.unseenGrants(k)...)
		found = append(found, ix.strayDebts(k)...)
		ix.addWaiters(k, found)
		ds.List = append(ds.List, found...)
	}
	for _, e := range ix.EpochsOf(lock) {
		ds.Orphans.count(e.unexplained, false) // whoever was granted it does not say so
	}
	for _, d := range ds.List {
		orphan := d.Cause == CauseOrphan && !d.E.unexplained
		ds.Orphans.count(orphan && d.Time.Lo > 0, orphan)
		if orphan && d.Time.Lo > 0 && ix.off(d.Late.Time) >= d.Time.Lo {
			ds.Belated++
		}
	}
	ds.longestFirst()
	return ds
}

// longestFirst puts the debts that are surely the longest at the head.
func (ds *Debts) longestFirst() {
	slices.SortStableFunc(ds.List, func(a, b Debt) int {
		return cmp.Or(cmp.Compare(b.Time.Lo, a.Time.Lo), cmp.Compare(b.Time.Hi, a.Time.Hi))
	})
}

// owing says from when on nobody needed a key any more, and why it was not free from then on.
type owing struct {
	cause string
	start history.Span
	sure  bool // false: perhaps the holder died before it could give the key back
	// guessed: it is taken to be of the holder that the key had then, for want of a token, a fence or a writer.
	guessed bool
}

// owed is what e owes; ok is false where it owes nothing: its holder was never seen to be done, the key was to be left to its TTL,
// the holder died before it could give it back, or all this happened while the run was being taken down.
func (ix *Facts) owed(e *Epoch) (o owing, ok bool) {
	switch {
	case ix.Exp.Observed():
		o, ok = ix.finished(e)
	case e.Belief == nil:
		o, ok = orphaned(e)
	default:
		o, ok = ix.doneWith(e)
	}
	if !ok || o.start.To == Open || ix.takenDown(o.start.From) {
		return owing{}, false
	}
	o.sure = !o.guessed
	if d, dead := ix.Deaths[e.Replica]; dead && o.cause != causeRenewed && e.skipped == 0 && !anyAnswer(e.Releases) {
		lived, timeout := between(o.start, d.Span), ix.releaseTimeout(e.Lock)
		if o.start.From >= d.From || lived.Hi <= timeout || e.cutShort() {
			return owing{}, false
		}
		o.sure = o.sure && lived.Lo > timeout
	}
	return o, true
}

func anyAnswer(cs []*Call) bool {
	return slices.ContainsFunc(cs, func(c *Call) bool { return c.Returned })
}

// releaseTimeout is how long a release may take before it counts as debt.
func (ix *Facts) releaseTimeout(lock string) int64 {
	p := ix.policy(lock)
	return int64(cmp.Or(p.OpTimeout, p.Release.Timeout))
}

// orphaned is when the caller of an acquire stopped to wait for its answer, or when it was granted if that was later.
func orphaned(e *Epoch) (owing, bool) {
	if e.unexplained { // nobody says when it was asked for: from the first look on it is known
		return owing{cause: CauseOrphan, start: e.Looks[0].First}, true
	}
	for _, c := range e.Acquires {
		if c.Returned && c.Outcome == history.Unknown {
			return owing{cause: CauseOrphan, start: later(c.answered, e.Granted)}, true
		}
	}
	return owing{}, false
}

// finished is when the holder of e, of a system that is not ours, had written the end of its last job: that is all that tells of it. Who
// went on to work under a value that may be a name may have given the key back before, and have been granted it anew.
func (ix *Facts) finished(e *Epoch) (o owing, ok bool) {
	var last *effect
	for _, f := range e.Effects {
		if f.Foreign && f.Terminal && f.Fresh() && (!ok || f.Span.To > o.start.To) {
			o, ok = owing{cause: causeKept, start: f.Span, guessed: !f.named()}, e.Rank > 0 && !e.Ghost
			last = f
		}
	}
	if ok && len(e.Looks) == 0 && last.beforeLooks(ix.lookedSince(e.Lock)) { // it was over before the watch began
		return owing{}, false
	}
	o.guessed = o.guessed || ok && !ix.Exp.FreshTokens(e.Lock) && slices.ContainsFunc(e.Effects, func(f *effect) bool { return f.Fresh() && last.before(f) })
	return o, ok
}

// doneWith is when the holder of e had stopped its work for good, or had stopped relying on a key under which it did none.
func (ix *Facts) doneWith(e *Epoch) (owing, bool) {
	start := e.Belief.End
	if len(e.Works) > 0 {
		stop := e.stop()
		if p := ix.policy(e.Lock); p.Loop != nil && p.Loop.Mode == lockcore.LoopRenewed { // between ticks it is held on purpose
			stop = later(stop, start)
		}
		start = stop
	}
	renewed := slices.ContainsFunc(e.Renewals, func(c *Call) bool { return c.Sent.From > start.To && c.Outcome == history.OK })
	switch {
	case ix.planned(e):
		return owing{cause: causeRenewed, start: ix.planEnd(e, start)}, renewed
	case renewed:
		return owing{cause: causeRenewed, start: start}, true
	case e.whySkipped == "after_abandon":
		return owing{cause: causeSkipped, start: start}, true
	}
	return owing{cause: causeFailed, start: start}, true
}

// planned reports that e was to be left to its TTL.
func (ix *Facts) planned(e *Epoch) bool {
	p := ix.policy(e.Lock)
	return p.Release.Mode == lockcore.ReleaseNone || p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold ||
		e.whySkipped == "ttl_hold" || e.fenced != nil && e.fenced.Abandon.Reason == "expired" && len(e.Releases) == 0
}

// planEnd is when a planned hold would have run out, had nobody renewed it after the work's stop.
func (ix *Facts) planEnd(e *Epoch, stop history.Span) history.Span {
	ttl := int64(ix.policy(e.Lock).TTL)
	end := history.Span{From: stop.From, To: Plus(Plus(stop.To, ttl), ix.Cal.Expiry)}
	for _, c := range slices.Concat(e.Acquires, e.Renewals) {
		if c.Outcome == history.OK && c.Sent.From <= stop.From {
			end.From = max(end.From, c.Span.From+ttl)
		}
	}
	end.From = min(end.From, end.To)
	return end
}

// debtOf is the time from the start until the key was free. Freed in time by the first release, there is none: that is release
// latency.
func (ix *Facts) debtOf(e *Epoch, o owing) (Debt, bool) {
	d := Debt{E: e, Cause: o.cause, Start: o.start, Time: between(o.start, ix.freed(e))}
	surely, maybe := ix.latency(e, o.start, 0)
	if maybe || !o.sure {
		d.Time.Lo = 0
	}
	return d, !surely && d.Time.Hi > 0
}

// freed is the end of e's lease, as far as the record reaches: after its holder's last word it may yet have given the key back.
func (ix *Facts) freed(e *Epoch) history.Span {
	until := ix.LastWord[e.Replica]
	if _, dead := ix.Deaths[e.Replica]; dead {
		until = ix.Last
	}
	end := ix.freedUnseen(e)
	end.From = min(end.From, max(until, e.Lease.lastSeen))
	if len(e.Looks) > 0 { // it was free when a look says so, not when its holder does
		end.To = Open
		if gone := e.shownGone(); gone != nil {
			end.To = max(end.From, gone.First.To)
		}
	}
	return end
}

// latency reports whether the key was free within the op timeout after start, and by the first release: surely, or perhaps, had the machine not
// been late by so much.
func (ix *Facts) latency(e *Epoch, start history.Span, late int64) (surely, maybe bool) {
	timeout, free := ix.releaseTimeout(e.Lock), ix.freedUnseen(e)
	took := between(start, free)
	took.Lo = max(0, took.Lo-late)
	if ix.Exp.Observed() { // nobody tells of releases: that the key was free in time is all that counts
		return took.Hi <= timeout, took.Lo <= timeout
	}
	if len(e.Releases) == 0 || e.Releases[0].Refuted {
		return false, false
	}
	r := e.Releases[0]
	reached := r.Outcome == history.OK || e.goneBy(r)
	if r.Outcome == history.Unknown { // nothing but this release can have freed it before its time, unless the store lost it
		reached = !e.Lease.loss && free.To < e.Lease.Expires.From && (len(e.Releases) == 1 || free.To <= e.Releases[1].Sent.From)
	}
	return reached && took.Hi <= timeout, (reached || gone(r) || r.Outcome == history.Unknown) && took.Lo <= timeout
}

// unseenGrants are acquires without an answer of which nobody knows whether they were granted. Where the probe looked at the key
// for as long as they could arrive, they were not: the key would have stayed.
func (ix *Facts) unseenGrants(k *Key) []Debt {
	p := ix.policy(k.Lock)
	var out []Debt
	for _, c := range k.Attempts {
		e := c.Of
		if e.sure || !c.Returned || c.Outcome != history.Unknown || ix.takenDown(c.Span.From) {
			continue
		}
		arrives := c.applied(ix.flight(p.Acquire.Timeout))
		if _, blind := ix.Probes[probeKeys].Blind(arrives, ix.MaxGap(probeKeys)); !blind {
			continue
		}
		start := c.answered
		free := history.Span{From: start.From, To: Plus(Plus(arrives.To, int64(p.TTL)), ix.Cal.Expiry)}
		if !ix.Exp.Leases() {
			free.To = ix.sessionOver(c, arrives.To)
		}
		out = append(out, Debt{E: e, Cause: CauseOrphan, Start: start, Time: between(start, free)})
	}
	return out
}

// strayDebts are of holders that no look showed, since nobody looked when they wrote the end of their job: until somebody looked again they may
// have owed the key.
func (ix *Facts) strayDebts(k *Key) (all []Debt) {
	looker, timeout := ix.Looker(k.Lock), ix.releaseTimeout(k.Lock)
	for _, f := range k.Effects {
		if !f.Foreign || !f.Terminal || !f.Fresh() || f.by != "" || ix.takenDown(f.Span.From) {
			continue
		}
		if w, blind := ix.Probes[looker].Blind(f.Span, 0); blind && w.To-f.Span.From > timeout {
			all = append(all, Debt{E: f.Epoch, Cause: causeKept, Start: f.Span, Time: Dur{Hi: w.To - f.Span.From}})
		}
	}
	return all
}

// sessionOver is when a key that c may have taken, which has no lease, was free at the latest: at its taker's death, or when the probe
// looked again and saw it free. c reached the store by from at the latest.
func (ix *Facts) sessionOver(c *Call, from int64) int64 {
	to := from
	for _, b := range ix.Probes[probeKeys].Blinds(history.Span{From: from, To: ix.Last}, ix.MaxGap(probeKeys)) {
		if b.From <= to {
			to = max(to, b.To)
		}
	}
	to = Plus(to, ix.MaxGap(probeKeys))
	if d, dead := ix.Deaths[c.Source]; dead {
		to = min(to, max(from, d.To))
	}
	return to
}

// addWaiters holds the debts of a key against those who waited for it.
func (ix *Facts) addWaiters(k *Key, of []Debt) {
	if len(of) == 0 {
		return
	}
	ws := ix.waitersOf(k)
	for i := range of {
		d := &of[i]
		if ix.Exp.Observed() { // who waits nobody tells
			d.Effective, d.Waiting = Dur{Hi: d.Time.Hi}, Dur{Hi: Open}
			d.Late = ix.lateIn(d, ix.freed(d.E).From, nil)
			continue
		}
		until := ix.freed(d.E)
		if !d.E.sure {
			until = history.Span{To: Plus(d.Start.To, d.Time.Hi)}
		}
		var sure, maybe []stretchOf
		for _, w := range ws {
			if d.Time.Lo > 0 {
				s := cutTo(w.sure, history.Span{From: d.Start.To, To: until.From})
				sure = append(sure, s...)
				d.Waiting.Lo += covered(s)
			}
			m := cutTo(w.maybe, history.Span{From: d.Start.From, To: until.To})
			maybe = append(maybe, m...)
			d.Waiting.Hi = Plus(d.Waiting.Hi, total(m))
		}
		d.Effective = Dur{total(merged(sure)), total(merged(maybe))}
		d.Late = ix.lateIn(d, until.From, sure)
	}
}

func (ds Debts) Evidence() []int64 {
	var ns []int64
	for _, d := range ds.List {
		ns = append(ns, d.Evidence()...)
	}
	return ns
}

// Saw counts the debts by cause.
func (ds Debts) Saw() string {
	text := fmt.Sprintf("%s after %s had ended", figures.Plural(len(ds.List), "lock debt"), figures.Plural(ds.Ended, "epoch"))
	var parts []string
	for _, cause := range []string{causeFailed, causeKept, causeSkipped, CauseOrphan, causeRenewed} {
		n := 0
		for _, d := range ds.List {
			if d.Cause == cause {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", cause, n))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

func (d Debt) Text() string {
	took := figures.Ceil(d.Time.Hi)
	if d.Time.Hi == Open {
		took = "at least " + figures.Floor(d.Time.Lo)
	}
	since := "its holder was done with it"
	switch {
	case d.E.unexplained:
		since = "a look showed a token that nobody claims"
	case d.Cause == CauseOrphan:
		since = "the answer to its acquire was lost"
	}
	return fmt.Sprintf("Key %s, epoch %s, stayed taken for %s after %s at %s", d.E.Key, d.E.ID, took, since, figures.Clock(d.Start.From))
}

func (d Debt) Advice() string {
	switch d.Cause {
	case causeSkipped:
		return "Release after an abandonment too, once the work has stopped (after_abandon: if_work_stopped)."
	case CauseOrphan:
		if d.E.unexplained {
			return "Let the worker announce each acquire (docs/worker-protocol.md), or find out who else writes to the key."
		}
		return "After an acquire without an answer, release with the same token on a fresh context."
	case causeKept:
		return "Release the lock when the end of its work is written, and try again where a release gets no answer. A shorter lease ends the debt sooner."
	case causeRenewed:
		return "Stop renewing before the release: a watchdog must not outlive its work."
	}
	return "Try the release again on a fresh context (release: {mode: bounded_retry}). A shorter ttl ends the debt sooner."
}

// Evidence is the grant, and what became of it.
func (d Debt) Evidence() []int64 {
	ns := []int64{d.E.N}
	if n := len(d.E.Works); n > 0 && d.E.Works[n-1].exited() {
		ns = append(ns, d.E.Works[n-1].exit)
	}
	for _, r := range d.E.Releases {
		ns = append(ns, r.n)
	}
	if d.E.skipped != 0 {
		ns = append(ns, d.E.skipped)
	}
	return ns
}
