// Package forecast says what can be said of an experiment before anything runs, and what its rehearsals gave: bands and odds of
// takeovers, lints, sums, the plan, tuning. It judges no history; the judge holds against it what was measured.
// Its one invariant: whatever the lock's rules and timings allow lies within a band.
package forecast

import (
	"cmp"
	"fmt"
	"math"
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
// the upper end of its takeover band or the largest limit, and one redelivery period. lock "" asks for all locks.
func Horizon(e *experiments.Experiment, lock string) time.Duration {
	var longest time.Duration
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		if lock != "" && l.Name != lock {
			continue
		}
		d := bandOf(e, l, 0).hi
		for _, limit := range limitsOn(e, l.Name) {
			d = max(d, limit.Value)
		}
		longest = max(longest, d+redelivery(e, l.Name))
	}
	return longest
}

// Bands is lint L3: for each lock what its takeover can be at the kill phase that the file declares, before anything is
// measured; none where a lock has no lease. Durations are those of e: scaled if e is. warmup is what a run's calibration allows for the first effect after a grant.
func Bands(e *experiments.Experiment, warmup time.Duration) []verdict.Band {
	out := []verdict.Band{}
	if !e.Leases() {
		return out
	}
	for i := range e.System.Locks {
		class, _ := declaredClass(e.Faults, e.System.Locks[i].Name)
		b := bandOf(e, &e.System.Locks[i], warmup).under(e.Faults, class)
		out = append(out, verdict.Band{Lock: b.lock.Name, Lo: b.lo.Seconds(), Hi: b.hi.Seconds(), Sum: b.sum(), Untold: b.leavesOut()})
	}
	return out
}

// term is one summand of a band.
type term struct {
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
	struck string // how, where it was no kill; "" = killed
	untold bool   // hi leaves out the retry
}

// retry is what nobody tells of a job lock of an observed system.
const retry = "the time until the service tries the job again"

func bandOf(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) band {
	return bandAt(e, l, warmup, killPhases(e, l.Name))
}

// tickBand is what a loop's tick gap can be, whenever it is struck: the band of a random kill, and the poll that may have
// gone by since the last tick of a holder that ticks more than once.
func tickBand(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration) band {
	b := bandAt(e, l, warmup, []fault.Phase{fault.RandomPhase})
	if p := l.Policy.Loop; p != nil && p.Mode != lockcore.LoopTTLHold {
		since := term{"since the last tick", time.Duration(float64(p.Poll) * (1 + p.Jitter))}
		b.upper, b.hi = append(b.upper, since), b.hi+since.value
	}
	return b
}

func bandAt(e *experiments.Experiment, l *experiments.Lock, warmup time.Duration, phases []fault.Phase) band {
	b := band{lock: l, phases: phases, lo: -1, untold: e.Observed() && !l.Loop()}
	for _, phase := range b.phases {
		lower, upper := residual(l.Policy, phase)
		lo := max(0, lower[0].value-sumOf(lower[1:]))
		upper = append(upper, pickup(e, l)...)
		if warmup > 0 {
			upper = append(upper, term{"warm-up", warmup})
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
	add := func(p fault.Phase) {
		if !slices.Contains(phases, p) {
			phases = append(phases, p)
		}
	}
	for i := range e.Faults {
		switch f := &e.Faults[i]; {
		case !f.Traits().Kills:
		case f.Lock() == lock && f.Moment() != "":
			add(f.Moment())
		default:
			add(fault.RandomPhase)
		}
	}
	if len(phases) == 0 {
		add(fault.RandomPhase)
	}
	return phases
}

// BeforeRenew is when a kill of phase before_renew strikes, as a share of the shortest interval until the next renewal.
const BeforeRenew = 0.95

// residual is what is left of the lease when the fault strikes, as summands: lower is TTL less what may have gone by,
// upper TTL (less what has surely gone by) plus the longest time that an extension may be in flight.
func residual(p lockcore.Policy, phase fault.Phase) (lower, upper []term) {
	ttl := term{"ttl", p.TTL}
	renews := p.RenewEvery > 0 && (p.Loop == nil || p.Loop.Mode != lockcore.LoopTTLHold)
	flight, op := p.Acquire.Timeout, p.Acquire.Timeout
	if p.RenewEvery > 0 {
		flight, op = p.OpTimeout, p.OpTimeout
	}
	upper = []term{ttl, {"in flight", flight}}
	every := func(share float64) time.Duration { return time.Duration(float64(p.RenewEvery) * share) }
	longest := term{"renewal", every(1 + p.RenewJitter)}
	switch {
	case phase == fault.AfterGrant || phase == fault.Acquired || phase == fault.AfterRenew && p.RenewEvery > 0:
		return []term{ttl, {"op", op}}, upper
	case phase == fault.BeforeRenew && p.RenewEvery > 0:
		return []term{ttl, longest, {"op", op}}, []term{ttl, {"renewal", -every(BeforeRenew * (1 - p.RenewJitter))}, {"in flight", flight}}
	case renews:
		return []term{ttl, longest, {"op", op}}, upper
	}
	return []term{ttl, {"idle", p.TTL}}, upper
}

// ownLook is how much later than it was renewed a contender may have seen that a Lease object was.
const ownLook = "seen by a contender"

// pickup is how long a freed key waits for somebody who wants it: a loop's poll, or the redelivery of a job.
func pickup(e *experiments.Experiment, l *experiments.Lock) []term {
	p := l.Policy
	try := term{"acquire", p.Acquire.Timeout}
	if p.Loop != nil {
		poll := term{"poll", time.Duration(float64(p.Loop.Poll) * (1 + p.Loop.Jitter))}
		if e.OnLease(l) { // a contender counts the lease from its own look at the last renewal
			return []term{{ownLook, poll.value}, poll, try}
		}
		return []term{poll, try}
	}
	ts := []term{{"redelivery", redelivery(e, l.Name)}}
	if p.Acquire.Mode == lockcore.AcquireWait {
		return append(ts, term{"acquire wait", p.Acquire.Budget})
	}
	return append(ts, try)
}

// redelivery is the worst period in which an unfinished job of the lock is offered again; 0 for loops.
func redelivery(e *experiments.Experiment, lock string) time.Duration {
	if w := e.WorkUnder(lock); w != nil {
		return w.Redeliver
	}
	return 0
}

// sum is the band in words and numbers.
func (b band) sum() string {
	s := "up to " + figures.Ceil(int64(b.hi))
	if b.lo > 0 {
		less := make([]term, 0, len(b.lower))
		for i, t := range b.lower {
			if i > 0 {
				t.value = -t.value
			}
			less = append(less, t)
		}
		s = fmt.Sprintf("%s (%s) to %s", figures.Floor(int64(b.lo)), terms(less), figures.Ceil(int64(b.hi)))
	}
	when := cmp.Or(b.struck, "killed "+b.when())
	if b.struck == "" && !b.lock.Loop() && !slices.Contains(b.phases, fault.RandomPhase) { // its replica may hold more of them
		when += ", of the struck key; the others of its replica die at random"
	}
	plus := ""
	if b.untold {
		plus = ", plus " + retry + ","
	}
	return fmt.Sprintf("%s (%s)%s when %s", s, terms(b.upper), plus, when)
}

func (b band) leavesOut() string {
	if b.untold {
		return retry
	}
	return ""
}

func (b band) when() string {
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
	return strings.Join(ws, " or ")
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

// advice names a TTL and a pickup period with which the whole band would lie under the limit, or the limit above the band, in the
// numbers of the file: what was measured at a time scale cannot be typed there. Neither is at the very edge: before a run nobody knows
// how long the warm-up takes, which is a part of every takeover.
func (b band) advice(l Limit, measure string, scale float64) string {
	raise := fmt.Sprintf("%s %s %s", strings.ReplaceAll(measure, "_", " "), l.Name, figures.Exact(roundUp(Unscaled(int64(b.hi), scale)+1)))
	rest, weight, period := int64(l.Value), 0.0, "poll"
	p := b.lock.Policy
	for _, t := range b.upper {
		switch t.name {
		case "ttl", "renewal": // a renewal only takes off
		case "poll", ownLook, "since the last tick":
			weight += 1 + p.Loop.Jitter
		case "redelivery":
			weight, period = weight+1, "redeliver"
			if b.untold {
				period = "retry"
			}
		default:
			rest -= int64(t.value)
		}
	}
	rest = Unscaled(rest, scale) - 1
	if !slices.ContainsFunc(b.upper, func(t term) bool { return t.name == "ttl" }) { // no lease to run out: there is nothing to shorten
		return inFile(scale) + "promise " + raise + "."
	}
	unit := easyUnit(rest)
	ttl := rest * 4 / 5 / unit * unit
	wait := int64(float64(rest-ttl)/weight) / unit * unit
	if least := Unscaled(int64(p.Drift+p.StopBudget), scale); wait < int64(time.Millisecond) || ttl <= least {
		return inFile(scale) + "shorten the timeouts, which leave no room within " + figures.Exact(Unscaled(int64(l.Value), scale)) + ", or promise " + raise + "."
	}
	sum := "ttl + " + period
	if weight != 1 { // a jittered poll, or one on either side of the fault
		sum = fmt.Sprintf("ttl + %.4g x %s", weight, period)
	}
	beside := ""
	if p.RenewEvery > 0 {
		beside = " (and renew_every below the ttl)"
	}
	return fmt.Sprintf("%skeep %s at most %s, e.g. ttl %s and %s %s%s, or promise %s.",
		inFile(scale), sum, figures.Exact(rest/unit*unit), figures.Exact(ttl), period, figures.Exact(wait), beside, raise)
}

// inFile says whose times follow: those of the file, which the figures of a scaled run are not.
func inFile(scale float64) string {
	if scale == 1 || scale == 0 {
		return "In the file, "
	}
	return fmt.Sprintf("In the file, whose times are not scaled by %g yet, ", scale)
}

// roundUp gives a limit that is easy to type and not below ns.
func roundUp(ns int64) int64 {
	unit := easyUnit(ns)
	return (ns + unit - 1) / unit * unit
}

// easyUnit is a power of ten from 1 ms to 1 s, of which ns has ten or more, if it can.
func easyUnit(ns int64) int64 {
	unit := int64(time.Second)
	for unit > int64(time.Millisecond) && ns < 10*unit {
		unit /= 10
	}
	return unit
}

// Unscaled turns a scaled duration back into the one of the file, to the microsecond: scaling had rounded it.
func Unscaled(ns int64, scale float64) int64 {
	return int64(math.Round(float64(ns)/scale/1e3)) * 1e3
}

// PromiseBand is a band in words, held against one promise.
type PromiseBand struct {
	Lo, Hi      time.Duration
	Sum, Advice string
	Untold      string // what Hi leaves out; "" = nothing
}

// PromiseOf is the band of a measure (takeover or tick_gap) of a lock of e after faults of a class, held against a limit. warmup is what
// a run's calibration allows for the first effect after a grant.
func PromiseOf(e *experiments.Experiment, lock *experiments.Lock, l Limit, measure, class string, warmup time.Duration) PromiseBand {
	b := bandOf(e, lock, warmup)
	if measure == "tick_gap" {
		b = tickBand(e, lock, warmup)
	}
	b = b.under(e.Faults, class)
	return PromiseBand{Lo: b.lo, Hi: b.hi, Sum: b.sum(), Advice: b.advice(l, measure, cmp.Or(e.Scaled, 1)), Untold: b.leavesOut()}
}
