package analysis

import (
	"fmt"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/facts"
	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// seriesKey tells the series of one judgement apart.
type seriesKey struct{ lock, measure string }

// seriesFor collects the trials that a limit on takeovers or tick gaps is about, once.
func (j *judging) seriesFor(l *experiments.Limit) *facts.Series {
	of := seriesKey{l.Lock, l.Measure}
	if j.serieses[of] == nil {
		s := j.ix.SeriesOf(l.Lock, l.Measure)
		j.serieses[of] = &s
	}
	return j.serieses[of]
}

// trialsOf are the takeovers or the tick gaps of a lock: each kill is a trial, and the least of them is that of one key.
func trialsOf(j *judging, l *experiments.Limit) figure {
	s := j.seriesFor(l)
	f := figure{each: s.Values(), n: len(s.Kills), of: s.Thing, growing: j.ix.Growing(*s), evidence: s.Evidence(), lacks: j.takeoverMissing(*s), shown: s.ShownLate(l.Measure)}
	var all []facts.Value
	for _, k := range s.Kills {
		for _, t := range k.Trials {
			v, _ := j.ix.TimeOf(l.Measure, t)
			all = append(all, v)
		}
	}
	f.Value, f.least = quantile(f.each, 0), least(all)
	if l.Measure != facts.MeasureTicks {
		f.kills = s.Kills
	}
	f.few = "Look at the shortest trial: was the victim's lease still whole, and did the successor wait for its end?"
	switch {
	case f.n == 0:
		f.saw = "No " + s.Class + " was measured"
	default:
		f.saw = fmt.Sprintf("%s; the shortest took %s, the slowest %s", figures.Plural(f.n, s.Thing), f.least, f.Value)
	}
	if slices.ContainsFunc(s.Kills, func(k facts.Kill) bool { return k.Value.Hi == facts.Open && k.Worst.Cut }) {
		f.unended = "Leave more time between faults that strike this lock: another fault struck the key before it had a successor."
	}
	if len(s.Falses) > 0 { // the lock went to another while the victim was still owed its lease
		t := s.Falses[0]
		f.broken = fmt.Sprintf("%d false takeover: key %s was granted to another replica while the victim's lease still had %s to run", len(s.Falses), t.E.Key, figures.Short(t.E.Lease.Expires.From-t.Next.Granted.To))
		f.next = "Find out who deleted or overwrote the key: releases must compare the token."
		if j.ix.OutlivesLease(s.Lock) {
			f.next = "Find out who wrote the Lease: only its holder may, and a contender after its end (docs/kubernetes.md)."
		}
		f.evidence = slices.Concat(t.Evidence, f.evidence)
	}
	return f
}

// facingTrials says how many trials kept an upper limit, and what the lock's timings make of that limit.
func facingTrials(j *judging, l *experiments.Limit, f *figure) {
	if l.Side != experiments.SideMost || l.Share > 0 {
		return
	}
	s := j.seriesFor(l)
	missed := over(f.each, l.At)
	if missed.Hi == 0 && !f.growing {
		f.faults = f.n
	}
	if f.n > 0 {
		f.saw = s.Saw(l.At, missed)
	}
	j.explain(f, s, l, missed)
}

// explain adds the sum of L3: it makes a limit impossible, or lucky, or shows that something else took the time.
func (j *judging) explain(f *figure, s *facts.Series, l *experiments.Limit, missed facts.Tally) {
	declared := j.ix.Exp.Lock(s.Lock)
	if declared == nil {
		return
	}
	var why, next string
	if j.ix.Exp.Leases() {
		b := j.told(declared, l, s.Class)
		why, next = j.byTimings(f, s, l, b)
		if l.Quantile == 0 && l.At < int64(b.Hi) && f.n > 0 && missed.Hi == 0 {
			f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingMarginToLuck, s.Worst(), b.Sum, b.Advice))
		}
	} else {
		why = "The lock belongs to its holder's session, so nobody gets it before that ends"
	}
	if f.broken == "" {
		f.why, f.next = why, next
	}
}

// byTimings is the cause of a missed limit, and what to do about it, by what the lock's timings allow.
func (j *judging) byTimings(f *figure, s *facts.Series, l *experiments.Limit, b forecast.PromiseBand) (why, next string) {
	held := quantile(f.each, l.Quantile)
	why, next = "The lock's timings allow "+b.Sum, b.Advice
	switch {
	case l.At < int64(b.Lo):
		why = "No " + s.Thing + " can meet " + figures.Exact(l.At) + ", because the lock's timings allow " + b.Sum
	case l.At < int64(b.Hi) && held.Lo <= int64(b.Hi):
	case b.Untold != "":
		next = "Look at the pickup of the slowest takeover, from the lease's end to the next grant: it has " + b.Untold + "."
	default: // the limit that the timings keep would be missed again
		why += ", so something else took the time"
		next = ""
	}
	if t := s.Slowest(); t != nil && j.ix.NeverExpires(t.E) && over(f.each, l.At).Lo > 0 {
		return "The key of the victim had no expiry, so it stays until somebody deletes it", "Set the key and its expiry in one step, or the setting of your library that gives its locks one."
	}
	if t := s.Slowest(); t != nil && over(f.each, l.At).Lo > 0 {
		if left, ttl := j.ix.LongerLease(t.E); left > 0 {
			return fmt.Sprintf("The key of the victim had %s left when it was last seen, and the file says a ttl of %s", figures.Short(left), figures.Exact(ttl)),
				"Give the expiry in the unit of its command (EX and EXPIRE count seconds, PX and PEXPIRE milliseconds), or let the file say the true ttl."
		}
	}
	if t := s.Slowest(); s.Class == verdict.ClassHandOver && t != nil && t.Class == verdict.ClassCrash {
		return "The victim was asked to stop, and died without releasing its lock", "Release the lock on SIGTERM, within the pod's grace."
	}
	return why, next
}

// ofWatch marks the row of a measure that is counted from faults, where the file has none: it is one of the whole watch then.
const ofWatch = ", of a watch"

// tickless is for how long nobody ticked: each stretch from tick to tick is a trial.
func tickless(j *judging, l *experiments.Limit) figure {
	all, evidence := j.ix.Stretches(l.Lock, j.window())
	return figure{Value: quantile(all, 0), each: all, least: least(all), n: len(all), evidence: evidence}
}

// facingTickless says that a watch as short as its limit would have shown no breach.
func facingTickless(j *judging, l *experiments.Limit, f *figure) {
	if short := l.At - j.window().Width(); l.Side == experiments.SideMost && l.Share == 0 && short >= 0 {
		f.lacks = append(f.lacks, verdict.Lacking(verdict.MissingHorizon, figures.Short(short), "Watch for longer than the limit: steady_state: {for: ...}."))
	}
}
