// Package forecast says what can be said of an experiment before anything runs, and what its rehearsals gave: bands of takeovers, lints,
// the plan, tuning. It judges no history; the judge holds against it what was measured.
// Its one invariant: whatever the lock's rules and timings allow lies within a band.
package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Horizon is how long after the end of the last fault the final reads must wait for a breach of the lock's promises to be seen:
// the upper end of its takeover band or the largest limit, and one redelivery period; of effects without a lock, what the file says.
// lock "" asks for all locks.
func Horizon(e *experiments.Experiment, lock string) time.Duration {
	var longest time.Duration
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		if lock != "" && l.Name != lock {
			continue
		}
		longest = max(longest, max(bandOf(e, l, 0).hi, promised(e, l.Name))+redelivery(e, l.Name))
	}
	for i := range e.System.Effects {
		if x := &e.System.Effects[i]; lock == "" || x.Under() == lock {
			longest = max(longest, x.StrandedAfter)
		}
	}
	return longest
}

// promised is the longest that e promises of a takeover or a tick gap of the lock.
func promised(e *experiments.Experiment, lock string) (longest time.Duration) {
	for i := range e.SLOs {
		s := &e.SLOs[i]
		for _, d := range [...]*experiments.DurationLimits{s.Takeover, s.TickGap} {
			if d == nil || s.Lock != lock {
				continue
			}
			for _, limit := range [...]*time.Duration{d.Max, d.P50, d.P90, d.P95, d.P99} {
				if limit != nil {
					longest = max(longest, *limit)
				}
			}
		}
	}
	return longest
}

// limitsOn are the upper limits that e promises of a lock's takeovers and tick gaps: of the worst, and of quantiles.
func limitsOn(e *experiments.Experiment, lock string) (limits []experiments.Limit) {
	for i := range e.SLOs {
		if s := &e.SLOs[i]; s.Lock == lock && (s.Takeover != nil || s.TickGap != nil) {
			limits = append(limits, s.Limits()...)
		}
	}
	return slices.DeleteFunc(limits, func(l experiments.Limit) bool { return l.Side != experiments.SideMost || l.Share > 0 })
}

// Bands is lint L3: for each lock what its takeover can be at the kill phase that the file declares, before anything is
// measured; none where a lock has no lease. Durations are those of e: scaled if e is. warmup is what a run's calibration allows for the first effect after a grant.
func Bands(e *experiments.Experiment, warmup time.Duration) []verdict.Band {
	out := []verdict.Band{}
	for i := range e.System.Locks {
		if !e.Leases() {
			break
		}
		b := declaredBand(e, &e.System.Locks[i], warmup)
		out = append(out, verdict.Band{Lock: b.lock.Name, Lo: b.lo.Seconds(), Hi: b.hi.Seconds(), Sum: b.sum(), Untold: b.leavesOut()})
	}
	return out
}

// PromiseBand is a band in words, held against one promise.
type PromiseBand struct {
	Lo, Hi      time.Duration
	Sum, Advice string
	Untold      string // what Hi leaves out; "" = nothing
}

// PromiseOf is the band of what l bounds, takeovers or tick gaps of a lock of e, after faults of a class. warmup is what a run's calibration
// allows for the first effect after a grant.
func PromiseOf(e *experiments.Experiment, lock *experiments.Lock, l *experiments.Limit, class string, warmup time.Duration) PromiseBand {
	b := bandOf(e, lock, warmup)
	if l.Measure == tickGap {
		b = tickBand(e, lock, warmup)
	}
	b = b.after(e.Faults, class)
	return PromiseBand{Lo: b.lo, Hi: b.hi, Sum: b.sum(), Advice: b.advice(l, cmp.Or(e.Scaled, 1)), Untold: b.leavesOut()}
}

// The measures that have a band, as the file calls them.
const (
	takeover = "takeover"
	tickGap  = "tick_gap"
)

// part is what a summand of a band stands for.
type part int

const (
	ttl      part = iota
	renewal       // of the lease: takes off what has gone by
	inFlight      // an extension of the lease
	poll          // of a loop, which jitters
	redeliver
	call  // an acquire: takes no time where the store answers at once
	other // whatever a file's timings do not shorten
)

// ofLease reports a summand that only a lease brings about.
func (p part) ofLease() bool { return p <= inFlight }

// term is one summand of a band.
type term struct {
	part  part
	name  string
	value time.Duration
}

func sumOf(ts []term) (sum time.Duration) {
	for _, t := range ts {
		sum += t.value
	}
	return sum
}

// band is the sum of L3, with its summands.
type band struct {
	lock   *experiments.Lock
	lo, hi time.Duration
	upper  []term // hi is their sum
	lower  []term // lo is the first less the others, at least 0
	phases []fault.Phase
	struck string // class of the fault; "" = it was killed
	untold string // what hi leaves out; "" = nothing
	fleet  int    // how many replicas there are
	theirs bool   // they are somebody's own programs
}

// retry is what nobody tells of a job lock of an observed system.
const retry = "the time until the service tries the job again"

// handing is what nobody tells of a holder that is asked to stop: it may end its work first.
const handing = "the time until its holder has ended its work and given it back"

// another is what nobody tells of a kill that leaves no replica to take over.
const another = "the time until a replica has started again, since a kill strikes all of them"

func bandOf(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) band {
	return bandAt(e, l, warmup, killPhases(e, l.Name))
}

// declaredBand is the band after faults of the class that takeovers of the lock are judged on.
func declaredBand(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) band {
	class, _ := declaredClass(e.Faults, l.Name)
	return bandOf(e, l, warmup).after(e.Faults, class)
}

// tickBand is what a loop's tick gap can be, whenever it is struck: the band of a random kill, and the poll that may have
// gone by since the last tick of a holder that ticks more than once.
func tickBand(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) band {
	b := bandAt(e, l, warmup, []fault.Phase{fault.RandomPhase})
	if p := l.Policy.Loop; p != nil && p.Mode != lockcore.LoopTTLHold {
		since := term{poll, "since the last tick", longestPoll(p)}
		b.upper, b.hi = append(b.upper, since), b.hi+since.value
	}
	return b
}

func bandAt(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration, phases []fault.Phase) band {
	b := band{lock: l, phases: phases, lo: -1, fleet: e.System.Replicas, theirs: e.Observed() || len(e.System.Worker) > 0}
	switch {
	case e.Observed() && !l.Loop():
		b.untold = retry
	case slices.ContainsFunc(e.Faults, func(f experiments.Fault) bool { return f.Traits().Kills && f.Traits().Apart && b.strikesAll(&f) }):
		b.untold = another
	}
	for _, phase := range b.phases {
		lower, upper := residual(l.Policy, phase)
		lo := max(0, lower[0].value-sumOf(lower[1:]))
		upper = append(upper, pickup(e, l)...)
		if warmup > 0 {
			upper = append(upper, term{other, "warm-up", warmup})
		}
		hi := sumOf(upper)
		if b.lo < 0 || lo < b.lo {
			b.lo, b.lower = lo, lower
		}
		if hi > b.hi {
			b.hi, b.upper = hi, upper
		}
	}
	return b
}

// killPhases lists the moments within a lease of this lock at which the declared kills strike. A kill that aims at another lock
// strikes this one at random, and so does a burst.
func killPhases(e *experiments.Experiment, lock string) []fault.Phase {
	var phases []fault.Phase
	for i := range e.Faults {
		f, phase := &e.Faults[i], fault.RandomPhase
		if f.Lock() == lock {
			phase = cmp.Or(f.Moment(), phase)
		}
		if f.Traits().Kills && !slices.Contains(phases, phase) {
			phases = append(phases, phase)
		}
	}
	if len(phases) == 0 {
		phases = append(phases, fault.RandomPhase)
	}
	return phases
}

// BeforeRenew is when a kill of phase before_renew strikes, as a share of the shortest interval until the next renewal.
const BeforeRenew = 0.95

// residual is what is left of the lease when the fault strikes, as summands: lower is TTL less what may have gone by,
// upper TTL (less what has surely gone by) plus the longest time that an extension may be in flight.
func residual(p lockcore.Policy, phase fault.Phase) (lower, upper []term) {
	whole := term{ttl, "ttl", p.TTL}
	renews := p.RenewEvery > 0 && (p.Loop == nil || p.Loop.Mode != lockcore.LoopTTLHold)
	answer := p.Acquire.Timeout
	if p.RenewEvery > 0 {
		answer = p.OpTimeout
	}
	op := term{call, "op", answer}
	upper = []term{whole, {inFlight, "in flight", answer}}
	every := func(share float64) time.Duration { return time.Duration(float64(p.RenewEvery) * share) }
	longest := term{renewal, "renewal", every(1 + p.RenewJitter)}
	switch {
	case phase == fault.AfterGrant || phase == fault.Acquired || phase == fault.AfterRenew && p.RenewEvery > 0:
		return []term{whole, op}, upper
	case phase == fault.BeforeRenew && p.RenewEvery > 0:
		return []term{whole, longest, op}, []term{whole, {renewal, "renewal", -every(BeforeRenew * (1 - p.RenewJitter))}, upper[1]}
	case renews:
		return []term{whole, longest, op}, upper
	}
	return []term{whole, {other, "idle", p.TTL}}, upper
}

// pickup is how long a freed key waits for somebody who wants it: a loop's poll, or the redelivery of a job.
func pickup(e *experiments.Experiment, l *experiments.Lock) []term {
	p := l.Policy
	try := term{call, "acquire", p.Acquire.Timeout}
	if p.Loop != nil {
		next := term{poll, "poll", longestPoll(p.Loop)}
		if e.OnLease(l) { // a contender counts the lease from its own look at the last renewal
			return []term{{poll, "seen by a contender", next.value}, next, try}
		}
		return []term{next, try}
	}
	ts := []term{{redeliver, "redelivery", redelivery(e, l.Name)}}
	if p.Acquire.Mode == lockcore.AcquireWait {
		return append(ts, term{other, "acquire wait", p.Acquire.Budget})
	}
	return append(ts, try)
}

func longestPoll(l *lockcore.Loop) time.Duration {
	return time.Duration(float64(l.Poll) * (1 + l.Jitter))
}

// redelivery is the worst period in which an unfinished job of the lock is offered again; 0 for loops.
func redelivery(e *experiments.Experiment, lock string) time.Duration {
	if w := e.WorkUnder(lock); w != nil {
		return w.Redeliver
	}
	return 0
}

// after is the band of takeovers from faults of this class. A kill leaves the rest of a lease; a deleted key or an empty store leaves
// none; and while a fault keeps everybody from the store, nobody can take over.
func (b band) after(faults []experiments.Fault, class string) band {
	if class == verdict.ClassCrash {
		return b
	}
	b.struck = class
	if class == verdict.ClassHandOver && b.theirs && b.lock.Policy.Release.Mode != lockcore.ReleaseNone {
		b.untold = cmp.Or(b.untold, handing)
	}
	var barred time.Duration // for so long nobody gets the key
	leased := class == verdict.ClassPause || class == verdict.ClassHandOver && b.lock.Policy.Release.Mode == lockcore.ReleaseNone
	for i := range faults {
		f := &faults[i]
		t := f.Traits()
		if t.Class != class {
			continue
		}
		switch {
		case t.AtStore:
			barred = max(barred, f.For)
			leased = leased || !t.Empties // what was kept, or replicated, is still leased
		case t.Plants, b.strikesAll(f) && t.Fails == "" && outlasts(f, b.lock.Policy.Acquire.Timeout):
			barred = max(barred, f.For)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(b.upper), func(t term) bool { return t.part.ofLease() })
	outlived := leased && barred <= sumOf(b.upper)-sumOf(rest)
	if !leased || class == verdict.ClassStore {
		b.lo, b.lower = 0, nil
	}
	if outlived {
		return b
	}
	b.upper = rest
	if barred > 0 {
		b.upper = append([]term{{other, "fault", barred}}, b.upper...)
	}
	b.hi = sumOf(b.upper)
	return b
}

// strikesAll reports a fault that leaves no replica out.
func (b *band) strikesAll(f *experiments.Fault) bool {
	return f.Aim().Several() && f.Struck(b.fleet) >= b.fleet
}

// outlasts reports a fault of a replica or its way under which no call may be answered within limit: a mild one keeps nobody away.
func outlasts(f *experiments.Fault, limit time.Duration) bool {
	w, net := f.Wire()
	return !net || w.Outlasts(limit)
}

// answered is the upper end where every call is answered at once.
func (b band) answered() time.Duration {
	hi := b.hi
	for _, t := range b.upper {
		if t.part == inFlight || t.part == call {
			hi -= t.value
		}
	}
	return hi
}

func (b band) leavesOut() string { return b.untold }

// Classes are those of which there are faults.
type Classes struct {
	At         string // a lock
	aimed, any []string
}

// Note takes a fault of a class that is aimed at the holder of a lock, or, "", at none.
func (c *Classes) Note(class, lock string) {
	c.any = append(c.any, class)
	if lock == c.At {
		c.aimed = append(c.aimed, class)
	}
}

// First is the class that comes first of those aimed at the lock, else of any.
func (c *Classes) First() (class string, aimed bool) {
	for _, of := range [][]string{c.aimed, c.any} {
		for _, class := range []string{verdict.ClassCrash, verdict.ClassHandOver, verdict.ClassPause, verdict.ClassTheft, verdict.ClassStore} {
			if slices.Contains(of, class) {
				return class, len(c.aimed) > 0
			}
		}
	}
	return verdict.ClassPause, false
}

// declaredClass is the class of the faults that are aimed at the holder of the lock, else of any that the file declares.
func declaredClass(faults []experiments.Fault, lock string) (class string, aimed bool) {
	declared := Classes{At: lock}
	for i := range faults {
		f := &faults[i]
		declared.Note(f.Traits().Class, f.Lock())
	}
	return declared.First()
}

// sum is the band in words and numbers.
func (b band) sum() string {
	s := "up to " + figures.Ceil(int64(b.hi))
	if b.lo > 0 {
		less := slices.Clone(b.lower)
		for i := range less[1:] {
			less[i+1].value *= -1
		}
		s = fmt.Sprintf("%s (%s) to %s", figures.Floor(int64(b.lo)), terms(less), figures.Ceil(int64(b.hi)))
	}
	plus := ""
	if b.untold != "" {
		plus = ", plus " + b.untold + ","
	}
	return fmt.Sprintf("%s (%s)%s when %s", s, terms(b.upper), plus, b.when())
}

// when is what strikes, and at which moment.
func (b band) when() string {
	if b.struck != "" {
		return map[string]string{verdict.ClassHandOver: "asked to stop", verdict.ClassPause: "hit at random", verdict.ClassTheft: "the key is taken away", verdict.ClassStore: "the store is gone"}[b.struck]
	}
	var ws []string
	for _, p := range b.phases {
		switch p {
		case fault.RandomPhase:
			ws = append(ws, "at random")
		case fault.Acquired:
			ws = append(ws, "when acquired")
		default:
			ws = append(ws, strings.ReplaceAll(string(p), "_", " "))
		}
	}
	when := "killed " + strings.Join(ws, " or ")
	if !b.lock.Loop() && !slices.Contains(b.phases, fault.RandomPhase) { // its replica may hold more of them
		when += ", of the struck key; the others of its replica die at random"
	}
	return when
}

// terms writes a sum such as "ttl 60s + poll 30s". What is 0 is left out.
func terms(ts []term) string {
	var b strings.Builder
	for i, t := range ts {
		sign := " + "
		if t.value < 0 {
			sign, t.value = " - ", -t.value
		}
		if t.value == 0 && i > 0 {
			continue
		}
		if i > 0 {
			b.WriteString(sign)
		}
		fmt.Fprintf(&b, "%s %s", t.name, figures.Exact(int64(t.value)))
	}
	return b.String()
}
