package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// busy is refusals of a lock whose holder was dead or done: acquires that failed, and the stretch over which they did.
type busy struct {
	count    tally
	time     dur
	waited   []value // how long each of them waited for its answer
	asked    int     // acquires in all
	evidence []int64
}

// refusal is one acquire that was refused or timed out: a single try, or a bounded wait that gave up.
type refusal struct {
	span   history.Span // it took so long at most
	sure   history.Span // and at least so long
	holder string
	n      int64
}

func (ix *Facts) busyOf(lock string) busy {
	var b busy
	for _, k := range ix.keysOf(lock) {
		type stretch struct {
			sure, maybe history.Span
			lo, hi      int
		}
		by := map[*epoch]*stretch{}
		var order []*stretch
		refusals, asked := ix.refusals(k)
		b.asked += asked
		for _, r := range refusals {
			e := k.find(r.holder)
			if e == nil {
				e = k.owner(r.span)
			}
			if e == nil {
				continue
			}
			done, ok := ix.doneAt(e)
			if !ok || done.From >= r.span.To {
				continue
			}
			s := by[e]
			if s == nil {
				s = &stretch{maybe: r.span}
				by[e] = s
				order = append(order, s)
			}
			s.hi++
			s.maybe.To = max(s.maybe.To, r.span.To)
			if done.To <= r.span.From {
				if s.lo == 0 {
					s.sure = r.sure
				}
				s.lo++
				s.sure.To = max(s.sure.To, r.sure.To)
			}
			b.evidence = append(b.evidence, r.n)
			b.waited = append(b.waited, value{dur: dur{r.sure.Width(), r.span.Width()}})
		}
		for _, s := range order {
			b.count.lo, b.count.hi = b.count.lo+s.lo, b.count.hi+s.hi
			b.time = b.time.add(dur{s.sure.Width(), s.maybe.Width()})
		}
	}
	return b
}

// refusals lists the acquires of k that failed, and counts all.
func (ix *Facts) refusals(k *keyIndex) (rs []refusal, asked int) {
	if ix.policy(k.lock).Acquire.Mode == lockcore.AcquireWait {
		for _, w := range k.waits {
			if w.outcome == history.Fail && w.end.To != open {
				rs = append(rs, refusal{history.Span{From: w.begin.From, To: w.end.To}, within(w.begin, w.end), w.holder, w.n})
			}
		}
		return rs, len(k.attempts)
	}
	for _, c := range k.attempts {
		if c.exited && (c.result == history.ResultHeld || c.outcome == history.Unknown) {
			rs = append(rs, refusal{c.span, within(c.sent, c.answered), c.holder, c.n})
		}
	}
	return rs, len(k.attempts)
}

// within is the time that surely lies between two instants: none, where they may be one.
func within(a, b history.Span) history.Span {
	return history.Span{From: a.To, To: max(a.To, b.From)}
}

// doneAt is when e's holder was dead, or had stopped relying on the lock without giving it back in time. A planned hold that
// runs to its TTL is not done, nor is a release within the op timeout.
func (ix *Facts) doneAt(e *epoch) (history.Span, bool) {
	d, dead := ix.deaths[e.replica]
	if e.belief == nil {
		at := history.Span{From: open, To: open}
		for _, c := range e.acquires { // an orphan: nobody knows that it was granted
			if c.exited {
				at = first(at, c.answered)
			}
		}
		if dead {
			at = first(at, d.Span)
		}
		return at, at.From != open
	}
	planned := e.whySkipped == "ttl_hold" || e.fenced != nil && e.fenced.Abandon.Reason == "expired"
	gave := e.life.gave
	latency := gave != nil && gave.outcome == history.OK && gave.span.Width() <= int64(ix.policy(e.lock).OpTimeout)
	if !planned && !latency {
		return e.belief.end, e.belief.end.From != open && e.belief.end.To != open
	}
	return d.Span, dead
}

// busyRows judges refusals of a lock whose holder was dead or done.
func (j *judging) busyRows(lock string, limit *experiments.BusyLimit) []verdict.SLOResult {
	return slices.Concat(bounded(j, lock, limit.Count, named(j.busy, "count")), bounded(j, lock, limit.Time, named(j.busy, "time")),
		bounded(j, lock, limit.Each, named(j.busy, "each")))
}

// busy is how many acquires were refused, over how long, or how long each of them waited.
func (j *judging) busy(lock, name string) measured {
	b := j.ix.busyOf(lock)
	m := measured{n: b.asked, of: "acquire", evidence: b.evidence, next: "Wait longer than the ttl, or shorten the ttl. After a crash, a caller that waits for less than the lease is refused until it ends."}
	if l := j.ix.exp.Lock(lock); l != nil && l.Loop() { // it tries and does not wait
		m.next = "Poll less often, or raise the limit."
	}
	m.saw = fmt.Sprintf("%s of %s were refused while the holder was dead or done, over %s", figures.Count(b.count.lo), figures.Plural(b.asked, "acquire"), b.time)
	if b.asked == 0 {
		m.missing = []verdict.Missing{verdict.Lacking(verdict.MissingRequests, lock)}
	}
	m.missing = append(m.missing, j.garbled()...)
	m = j.needFault(lock, m)
	m.measure, m.unit, m.dur = "busy."+name, verdict.UnitSeconds, b.time
	switch {
	case name == "count":
		m.unit, m.value = verdict.UnitCount, b.count.value()
	case name == "each" && len(b.waited) == 0:
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingValues, "refused acquire", "lock "+lock))
	case name == "each":
		m.value, m.least, m.n, m.of = quantile(b.waited, 0), least(b.waited), len(b.waited), "refused acquire"
		m.next = "See acquire in the policy: its timeout, and the budget of waiters."
	}
	return m
}

// blocked is how long after its work the worker of e was still giving the key back; ok is false where it did not.
func (ix *Facts) blocked(e *epoch) (d dur, ok bool) {
	if e.belief == nil || len(e.works) == 0 || len(e.releases) == 0 {
		return dur{}, false
	}
	o, _ := ix.doneWith(e)
	if o.start.To == open || ix.takenDown(o.start.From) {
		return dur{}, false
	}
	last := e.releases[len(e.releases)-1]
	end := history.Span{From: last.sent.From, To: open}
	if last.exited {
		end = last.answered
	} else if dead, died := ix.deaths[e.replica]; died {
		end = dead.Span
	}
	return ix.lessStanding(e, between(o.start, end), o.start.From, end.To), true
}

// blockedWorkers is the longest of the lock.
func (j *judging) blockedWorkers(lock string) measured {
	m := measured{measure: "blocked", unit: verdict.UnitSeconds, of: "release",
		next: "Bound the release (release: {mode: bounded_retry, attempts: 2}), and leave the rest to the ttl."}
	j.longest(lock, &m, j.ix.blocked, func(e *epoch, d dur) string {
		return fmt.Sprintf("Key %s: the worker of epoch %s spent %s on giving it back, in %s", e.key, e.id, d, figures.Plural(len(e.releases), "try"))
	})
	m.saw = fmt.Sprintf("Workers gave a key back %s", figures.Plural(m.n, "time"))
	m.missing = j.garbled()
	if m.n == 0 {
		m.hi = open
		m.missing = append(m.missing, verdict.Lacking(verdict.MissingDoneHolders, lock))
	}
	return j.needFault(lock, m)
}
