package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Causes of lock debt.
const (
	causeFailed  = "release_failed"
	causeSkipped = "release_skipped_after_abandon"
	causeOrphan  = "orphan_acquire"
	causeRenewed = "renew_after_exit"
)

// debt is a key that stayed taken after nobody needed it any more.
type debt struct {
	e         *epoch
	cause     string
	start     history.Span
	time      dur // from start until the key was free
	effective dur // of that, while somebody waited
	waiting   dur // what all who waited waited then
	late      lateDebt
}

// debts is what became of one lock's keys after their holders were done.
type debts struct {
	list    []debt
	ended   int   // epochs whose holder was done with the key, and which no crash and no plan left to their TTL
	asked   int   // acquires in all
	orphans tally // granted to somebody who never learnt of it, and not given back at once
}

func (ix *Facts) debtsOf(lock string) debts {
	var ds debts
	for _, k := range ix.keysOf(lock) {
		ds.asked += len(k.attempts)
		var found []debt
		for _, e := range k.epochs {
			o, owed := ix.owed(e)
			if !owed {
				continue
			}
			ds.ended++
			if d, ok := ix.debtOf(e, o); ok {
				found = append(found, d)
			}
		}
		found = append(found, ix.unseenGrants(k)...)
		ix.addWaiters(k, found)
		ds.list = append(ds.list, found...)
	}
	for _, e := range ix.epochsOf(lock) {
		ds.orphans.count(e.unexplained, false) // whoever was granted it does not say so
	}
	for _, d := range ds.list {
		orphan := d.cause == causeOrphan && !d.e.unexplained
		ds.orphans.count(orphan && d.time.lo > 0, orphan)
	}
	ds.longestFirst()
	return ds
}

// longestFirst puts the debts that are surely the longest at the head.
func (ds *debts) longestFirst() {
	slices.SortStableFunc(ds.list, func(a, b debt) int {
		return cmp.Or(cmp.Compare(b.time.lo, a.time.lo), cmp.Compare(b.time.hi, a.time.hi))
	})
}

// owing says from when on nobody needed a key any more, and why it was not free from then on.
type owing struct {
	cause string
	start history.Span
	sure  bool // false: perhaps the holder died before it could give the key back
}

// owed is what e owes; ok is false where it owes nothing: its holder was never seen to be done, the key was to be left to its TTL,
// the holder died before it could give it back, or all this happened while the run was being taken down.
func (ix *Facts) owed(e *epoch) (o owing, ok bool) {
	if e.belief == nil {
		o, ok = orphaned(e)
	} else {
		o, ok = ix.doneWith(e)
	}
	if !ok || o.start.To == open || ix.takenDown(o.start.From) {
		return owing{}, false
	}
	o.sure = true
	if d, dead := ix.deaths[e.replica]; dead && o.cause != causeRenewed && e.skipped == 0 && !anyAnswer(e.releases) {
		lived, timeout := between(o.start, d.Span), ix.releaseTimeout(e.lock)
		if o.start.From >= d.From || lived.hi <= timeout || e.cutShort() {
			return owing{}, false
		}
		o.sure = lived.lo > timeout
	}
	return o, true
}

func anyAnswer(cs []*call) bool {
	return slices.ContainsFunc(cs, func(c *call) bool { return c.exited })
}

// releaseTimeout is how long a release may take before it counts as debt.
func (ix *Facts) releaseTimeout(lock string) int64 {
	p := ix.policy(lock)
	return int64(cmp.Or(p.OpTimeout, p.Release.Timeout))
}

// orphaned is when the caller of an acquire stopped to wait for its answer, or when it was granted if that was later.
func orphaned(e *epoch) (owing, bool) {
	if e.unexplained { // nobody says when it was asked for: from the first look on it is known
		return owing{cause: causeOrphan, start: e.looks[0].first}, true
	}
	for _, c := range e.acquires {
		if c.exited && c.outcome == history.Unknown {
			return owing{cause: causeOrphan, start: history.Span{From: max(c.answered.From, e.granted.From), To: max(c.answered.To, e.granted.To)}}, true
		}
	}
	return owing{}, false
}

// doneWith is when the holder of e had stopped its work for good, or had stopped relying on a key under which it did none.
func (ix *Facts) doneWith(e *epoch) (owing, bool) {
	start := e.belief.end
	if len(e.works) > 0 {
		stop := e.stop()
		if p := ix.policy(e.lock); p.Loop != nil && p.Loop.Mode == lockcore.LoopRenewed { // between ticks it is held on purpose
			stop = history.Span{From: max(stop.From, start.From), To: max(stop.To, start.To)}
		}
		start = stop
	}
	renewed := slices.ContainsFunc(e.renewals, func(c *call) bool { return c.sent.From > start.To && c.outcome == history.OK })
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
func (ix *Facts) planned(e *epoch) bool {
	p := ix.policy(e.lock)
	return p.Release.Mode == lockcore.ReleaseNone || p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold ||
		e.whySkipped == "ttl_hold" || e.fenced != nil && e.fenced.Abandon.Reason == "expired" && len(e.releases) == 0
}

// planEnd is when a planned hold would have run out, had nobody renewed it after the work's stop.
func (ix *Facts) planEnd(e *epoch, stop history.Span) history.Span {
	ttl := int64(ix.policy(e.lock).TTL)
	end := history.Span{From: stop.From, To: plus(plus(stop.To, ttl), ix.cal.Expiry)}
	for _, c := range slices.Concat(e.acquires, e.renewals) {
		if c.outcome == history.OK && c.sent.From <= stop.From {
			end.From = max(end.From, c.span.From+ttl)
		}
	}
	end.From = min(end.From, end.To)
	return end
}

// debtOf is the time from the start until the key was free. Freed in time by the first release, there is none: that is release
// latency.
func (ix *Facts) debtOf(e *epoch, o owing) (debt, bool) {
	d := debt{e: e, cause: o.cause, start: o.start, time: between(o.start, ix.freed(e))}
	surely, maybe := ix.latency(e, o.start)
	if maybe || !o.sure {
		d.time.lo = 0
	}
	return d, !surely && d.time.hi > 0
}

// freed is the end of e's lease, as far as the record reaches: after its holder's last word it may yet have given the key back.
func (ix *Facts) freed(e *epoch) history.Span {
	until := ix.claims[e.replica]
	if _, dead := ix.deaths[e.replica]; dead {
		until = ix.last
	}
	end := e.life.end
	end.From = min(end.From, max(until, e.life.alive))
	if n := len(e.looks); n > 0 { // it was free when a look says so, not when its holder does
		end.To = open
		if gone := e.looks[n-1].next; gone != nil {
			end.To = max(end.From, gone.first.To)
		}
	}
	return end
}

// latency reports whether the key was free within the op timeout after start, and by the first release: surely, or perhaps.
func (ix *Facts) latency(e *epoch, start history.Span) (surely, maybe bool) {
	if len(e.releases) == 0 || e.releases[0].refuted {
		return false, false
	}
	timeout, free, r := ix.releaseTimeout(e.lock), e.life.end, e.releases[0]
	reached := r.outcome == history.OK || e.goneBy(r)
	if r.outcome == history.Unknown { // nothing but this release can have freed it before its time, unless the store lost it
		reached = !e.life.loss && free.To < e.life.due.From && (len(e.releases) == 1 || free.To <= e.releases[1].sent.From)
	}
	took := between(start, free)
	return reached && took.hi <= timeout, (reached || gone(r) || r.outcome == history.Unknown) && took.lo <= timeout
}

// unseenGrants are acquires without an answer of which nobody knows whether they were granted. Where the probe looked at the key
// for as long as they could arrive, they were not: the key would have stayed.
func (ix *Facts) unseenGrants(k *keyIndex) []debt {
	p := ix.policy(k.lock)
	var out []debt
	for _, c := range k.attempts {
		e := k.find(c.epoch)
		if e.sure || !c.exited || c.outcome != history.Unknown || ix.takenDown(c.span.From) {
			continue
		}
		arrives := c.applied(ix.flight(p.Acquire.Timeout))
		if _, blind := ix.probes[probeKeys].blind(arrives, ix.maxGap(probeKeys)); !blind {
			continue
		}
		start := c.answered
		free := history.Span{From: start.From, To: plus(plus(arrives.To, int64(p.TTL)), ix.cal.Expiry)}
		if !ix.exp.Leases() {
			free.To = ix.sessionOver(c, arrives.To)
		}
		out = append(out, debt{e: e, cause: causeOrphan, start: start, time: between(start, free)})
	}
	return out
}

// sessionOver is when a key that c may have taken, which has no lease, was free at the latest: at its taker's death, or when the probe
// looked again and saw it free. c reached the store by from at the latest.
func (ix *Facts) sessionOver(c *call, from int64) int64 {
	to := from
	for _, b := range ix.probes[probeKeys].blinds(history.Span{From: from, To: ix.last}, ix.maxGap(probeKeys)) {
		if b.From <= to {
			to = max(to, b.To)
		}
	}
	to = plus(to, ix.maxGap(probeKeys))
	if d, dead := ix.deaths[c.source]; dead {
		to = min(to, max(from, d.To))
	}
	return to
}

// addWaiters holds the debts of a key against those who waited for it.
func (ix *Facts) addWaiters(k *keyIndex, of []debt) {
	if len(of) == 0 {
		return
	}
	ws := ix.waitersOf(k)
	for i := range of {
		d := &of[i]
		until := ix.freed(d.e)
		if !d.e.sure {
			until = history.Span{To: plus(d.start.To, d.time.hi)}
		}
		var sure, maybe []stretchOf
		for _, w := range ws {
			if d.time.lo > 0 {
				s := clipped(w.sure, d.start.To, until.From)
				sure = append(sure, s...)
				d.waiting.lo += covered(s)
			}
			m := clipped(w.maybe, d.start.From, until.To)
			maybe = append(maybe, m...)
			d.waiting.hi = plus(d.waiting.hi, length(m))
		}
		d.effective = dur{covered(merged(sure)), length(merged(maybe))}
		d.late = ix.lateIn(d, until.From, sure)
	}
}

// length of stretches that do not overlap; open where one never ended.
func length(ss []stretchOf) int64 {
	if slices.ContainsFunc(ss, func(s stretchOf) bool { return s.to == open }) {
		return open
	}
	return covered(ss)
}

func (ds debts) evidence() []int64 {
	var ns []int64
	for _, d := range ds.list {
		ns = append(ns, d.evidence()...)
	}
	return ns
}

// saw counts the debts by cause.
func (ds debts) saw() string {
	text := fmt.Sprintf("%s after %s had ended", figures.Plural(len(ds.list), "lock debt"), figures.Plural(ds.ended, "epoch"))
	var parts []string
	for _, cause := range []string{causeFailed, causeSkipped, causeOrphan, causeRenewed} {
		n := 0
		for _, d := range ds.list {
			if d.cause == cause {
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

func (d debt) text() string {
	took := figures.Ceil(d.time.hi)
	if d.time.hi == open {
		took = "at least " + figures.Floor(d.time.lo)
	}
	since := "its holder was done with it"
	switch {
	case d.e.unexplained:
		since = "a look showed a token that nobody claims"
	case d.cause == causeOrphan:
		since = "the answer to its acquire was lost"
	}
	return fmt.Sprintf("Key %s, epoch %s, stayed taken for %s after %s at %s", d.e.key, d.e.id, took, since, figures.Clock(d.start.From))
}

func (d debt) advice() string {
	switch d.cause {
	case causeSkipped:
		return "Release after an abandonment too, once the work has stopped (after_abandon: if_work_stopped)."
	case causeOrphan:
		if d.e.unexplained {
			return "Let the worker announce each acquire (docs/worker-protocol.md), or find out who else writes to the key."
		}
		return "After an acquire without an answer, release with the same token on a fresh context."
	case causeRenewed:
		return "Stop renewing before the release: a watchdog must not outlive its work."
	}
	return "Try the release again on a fresh context (release: {mode: bounded_retry}). A shorter ttl ends the debt sooner."
}

// evidence is the grant, and what became of it.
func (d debt) evidence() []int64 {
	ns := []int64{d.e.n}
	if n := len(d.e.works); n > 0 && d.e.works[n-1].exited() {
		ns = append(ns, d.e.works[n-1].exit)
	}
	for _, r := range d.e.releases {
		ns = append(ns, r.n)
	}
	if d.e.skipped != 0 {
		ns = append(ns, d.e.skipped)
	}
	return ns
}

// owed is for how long keys stayed taken that nobody needed: the longest debt, the longest effective one, or all of them, or all waiting
// for them.
func owed(j *judging, l *experiments.Limit) figure {
	ds := j.debts[l.Lock]
	f := figure{n: ds.ended, evidence: ds.evidence(), hints: hints{saw: ds.saw()}}
	for i, d := range ds.list {
		if i == 0 {
			f.why, f.next = d.text(), d.advice()
		}
		switch l.Part {
		case "max":
			f.value = f.value.worst(j.ix.valued(d.time, d.late.time))
		case "total":
			f.value = f.value.add(j.ix.valued(d.time, d.late.time))
		case "effective":
			f.value = f.value.worst(j.ix.valued(d.effective, d.late.effective))
		default:
			f.value = f.value.add(j.ix.valued(d.waiting, d.late.waiting))
		}
	}
	return f
}

// orphans counts grants that nobody learnt of and nobody gave back at once.
func orphans(j *judging, l *experiments.Limit) figure {
	ds := j.debts[l.Lock]
	f := figure{value: ds.orphans.value(), n: ds.asked, lacks: fewJobs(j.dups[l.Lock].finished, l.MinJobs)}
	f.saw = fmt.Sprintf("%s in %s", figures.Plural(ds.orphans.lo, "orphan"), figures.Plural(ds.asked, "acquire"))
	for _, d := range ds.list {
		if d.cause != causeOrphan {
			continue
		}
		if f.next == "" {
			f.why, f.next = d.text(), d.advice()
		}
		f.evidence = append(f.evidence, d.evidence()...)
	}
	return f
}
