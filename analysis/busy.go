package analysis

import (
	"fmt"

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

// refused is how many acquires were refused while the holder was dead or done, over how long, or how long each of them waited.
func refused(j *judging, l *experiments.Limit) figure {
	b := j.ix.busyOf(l.Lock)
	f := figure{value: value{dur: b.time}, n: b.asked, evidence: b.evidence}
	f.saw = fmt.Sprintf("%s of %s were refused while the holder was dead or done, over %s", figures.Count(b.count.lo), figures.Plural(b.asked, "acquire"), b.time)
	if of := j.ix.exp.Lock(l.Lock); of != nil && of.Loop() && l.Part != "each" { // it tries and does not wait
		f.next = "Poll less often, or raise the limit."
	}
	switch {
	case l.Part == "count":
		f.value = b.count.value()
	case l.Part == "each" && len(b.waited) == 0:
		f.hi = open
		f.lacks = []verdict.Missing{verdict.Lacking(verdict.MissingValues, "refused acquire", "lock "+l.Lock)}
	case l.Part == "each":
		f.value, f.least, f.n, f.of = quantile(b.waited, 0), least(b.waited), len(b.waited), "refused acquire"
	}
	return f
}
