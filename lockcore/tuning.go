package lockcore

import (
	"fmt"
	"time"
)

// Wish is what was measured of the work under a lock, and what is wanted of the lock.
type Wish struct {
	Work       time.Duration // p99 of the work under the lock; loops: of a tick
	Jitter     time.Duration // tail of network and store, there and back: at least LeastJitter
	Guard      time.Duration // on top of both; 0 = as much as two failures in a row ask for
	Takeover   time.Duration // longest takeover wanted; 0 = none named
	StopBudget time.Duration // that the work needs to stop; 0 = TTL / 30, at most 1s
	Loop       bool          // a leader loop, else a lock taken for each job
	Contenders int           // how many may ask for one key at once
	Fenced     bool          // the resource refuses writes with an old fence
	Idempotent bool          // work done twice is as good as done once
	MustFinish bool          // work must not be given up with its lock: needs both
}

// LeastJitter is the shortest tail that Tune makes timeouts of.
const LeastJitter = 2 * time.Millisecond

// Tuned is the policy that a wish asks for, and how it comes about.
type Tuned struct {
	Policy      Policy
	Pickup      time.Duration // how often a free key is asked for: the poll of a loop, the redelivery of a job
	TakeoverMax time.Duration // L3: TTL + call in flight + pickup + acquire
	Steps       []TuneStep
	Broken      []Sum // why there is no such policy; none = there is

	lacks time.Duration // by which the lease is too short for failures in a row
}

// TuneStep is one field of the policy, worked out.
type TuneStep struct {
	Field string `json:"field"`
	Text  string `json:"sum"`
}

// Rules of Tune.
const (
	renewJitter   = 0.1                   // so that locks that were taken together are not renewed together
	failuresAsked = 2                     // one renewal that fails must not cost the lock
	driftShare    = 100                   // of the TTL
	stopShare     = 30                    // of the TTL, at most mostStop
	mostStop      = time.Second           //
	leastPickup   = 10 * time.Millisecond // below, asking is load and no wait
	mostGuards    = 100                   // tries to find one
)

// Tune works out a policy from measured data, by the articles' rules: TTL = p99 of the work + jitter + guard, renewed every TTL/3 or more
// often where two failures in a row would not be safe, and a poll that is as long as the wanted takeover leaves room for. Each renewal and
// each acquire may take half of the jitter.
//
// Without a guard it adds the least one with which two failed renewals in a row are safe, where they are not without.
func Tune(w Wish) Tuned {
	t := tune(w)
	if w.Guard > 0 {
		return t
	}
	without := t
	for range mostGuards {
		if t.lacks <= 0 {
			if w.Guard > 0 {
				t.Steps = append([]TuneStep{{"guard", fmt.Sprintf("%s: the least with which %d failed renewals in a row are safe (L1)", Seconds(w.Guard), failuresAsked)}}, t.Steps...)
			}
			return t
		}
		w.Guard += t.lacks // drift and stop budget grow with the lease
		t = tune(w)
	}
	return without
}

func tune(w Wish) Tuned {
	t := Tuned{Policy: Policy{
		TTL: w.Work + w.Jitter + w.Guard, RenewJitter: renewJitter, OpTimeout: w.Jitter / 2,
		Acquire: Acquire{Mode: AcquireTry, Timeout: w.Jitter / 2},
		Release: Release{Mode: ReleaseBoundedRetry, Attempts: 2, Timeout: w.Jitter / 2, AfterAbandon: AfterAbandonStopped},
	}}
	p := &t.Policy
	p.Drift, p.StopBudget = milli(p.TTL/driftShare), w.StopBudget
	if p.StopBudget == 0 {
		p.StopBudget = milli(min(p.TTL/stopShare, mostStop))
	}
	t.step("ttl", "work p99 %s + jitter %s + guard %s = %s", w.Work, w.Jitter, w.Guard, p.TTL)
	t.step("op_timeout", "jitter %s / 2 = %s for each renewal, and as much for each acquire", w.Jitter, p.OpTimeout)
	t.step("drift", "ttl / 100 = %s; stop_budget %s: the work is told to stop so long before the lease ends", p.Drift, p.StopBudget)
	t.class(w)
	t.renewal()
	t.pickup(w)
	if w.Loop {
		p.Loop = &Loop{Poll: t.Pickup, Mode: LoopRenewed, Tick: w.Work}
	}
	if len(t.Broken) > 0 {
		return t
	}
	for _, s := range Lints(*p, Facts{WorkP99: w.Work, Jitter: w.Jitter, Contenders: w.Contenders}) {
		if !s.OK {
			t.Broken = append(t.Broken, s)
		}
	}
	return t
}

// step notes how a field comes about; durations among args are written as in all sums.
func (t *Tuned) step(field, format string, args ...any) {
	for i, a := range args {
		if d, ok := a.(time.Duration); ok {
			args[i] = Seconds(d)
		}
	}
	t.Steps = append(t.Steps, TuneStep{field, fmt.Sprintf(format, args...)})
}

// milli rounds down to a millisecond, but not to nothing.
func milli(d time.Duration) time.Duration {
	if m := d.Truncate(time.Millisecond); m > 0 {
		return m
	}
	return d
}

// class follows what a lock that is lost does to the work.
func (t *Tuned) class(w Wish) {
	p := &t.Policy
	switch {
	case w.MustFinish:
		p.Class = Continuity
		t.step("class", "continuity: the work must not stop, and is idempotent and fenced")
	case w.Idempotent:
		p.Class = Standard
		t.step("class", "standard: the work is idempotent, so stopping before the lease ends is enough")
	case w.Fenced:
		p.Class = Critical
		t.step("class", "critical: the work must not run twice, and its writes are fenced")
	default:
		p.Class = Critical
		t.step("class", "critical, with fenced writes: no timing keeps a holder that stood still from writing afterwards")
	}
}

// renewal is TTL/3, or the longest part of the TTL with which two failures in a row are safe.
func (t *Tuned) renewal() {
	p := &t.Policy
	for parts := 3; parts <= 30; parts++ {
		p.RenewEvery = milli(p.TTL / time.Duration(parts))
		if p.MaxFailures = SafeFailures(*p); p.MaxFailures < failuresAsked {
			continue
		}
		why := ""
		if parts > 3 {
			why = fmt.Sprintf(": at ttl / %d, %d failures in a row would not be safe", parts-1, failuresAsked)
		}
		t.step("renew_every", "ttl / %d = %s, give or take %s%%%s", parts, p.RenewEvery, number(100*p.RenewJitter), why)
		t.step("max_failures", "%s%s%s = %s, %s ttl %s: %d (L1)", giveUpTerms(*p, stretch(p.RenewEvery, p.RenewJitter)), plus("drift", p.Drift), plus("stop budget", p.StopBudget),
			GiveUpSum(*p), compare(GiveUpSum(*p), p.TTL), p.TTL, p.MaxFailures)
		return
	}
	p.MaxFailures = failuresAsked
	sum := GiveUpSum(*p)
	t.lacks = sum - p.TTL + time.Millisecond
	t.Broken = append(t.Broken, Sum{Rule: "L1", Text: fmt.Sprintf("%s%s%s = %s, over ttl %s, even when renewed every %s", giveUpTerms(*p, stretch(p.RenewEvery, p.RenewJitter)),
		plus("drift", p.Drift), plus("stop budget", p.StopBudget), Seconds(sum), Seconds(p.TTL), Seconds(p.RenewEvery)),
		Means: fmt.Sprintf("two renewals in a row could not fail safely: the timeouts that the jitter asks for fill the lease. Raise the guard by at least %s, or find a store with a shorter tail", Seconds(sum-p.TTL))})
}

// pickup is what the takeover wanted leaves beside the lease and the two calls; no longer than the TTL, or the wait for a poll would be
// the longer part.
func (t *Tuned) pickup(w Wish) {
	p := &t.Policy
	name, short := "redeliver", "redelivery"
	if w.Loop {
		name, short = "poll", "poll"
	}
	calls := fmt.Sprintf("op timeout %s - acquire %s", Seconds(p.OpTimeout), Seconds(p.Acquire.Timeout))
	least := p.TTL + p.OpTimeout + p.Acquire.Timeout
	room := w.Takeover - least
	switch {
	case w.Takeover == 0:
		t.Pickup = milli(p.TTL / 2)
		t.step(name, "ttl / 2 = %s: no takeover is asked for", t.Pickup)
	case room < leastPickup:
		t.Pickup = leastPickup
		t.tooTight(w, least, short)
		return
	case room > p.TTL:
		t.Pickup = p.TTL
		t.step(name, "ttl %s: takeover %s - ttl %s - %s would leave %s, but then the lease is not what takes long", p.TTL, w.Takeover, p.TTL, calls, room)
	default:
		t.Pickup = milli(room)
		t.step(name, "takeover %s - ttl %s - %s = at most %s (L3)", w.Takeover, p.TTL, calls, t.Pickup)
	}
	t.TakeoverMax = least + t.Pickup
	t.step("takeover", "ttl %s + in flight %s + %s %s + acquire %s = at most %s", p.TTL, p.OpTimeout, short, t.Pickup, p.Acquire.Timeout, t.TakeoverMax)
}

// tooTight says that the lease and two calls alone take longer than the takeover wanted, and what would have to change.
func (t *Tuned) tooTight(w Wish, least time.Duration, pickup string) {
	p := &t.Policy
	means := fmt.Sprintf("the shortest takeover for this work is %s and a %s", Seconds(least), pickup)
	if work := w.Takeover - leastPickup - 2*w.Jitter - w.Guard; work > 0 {
		means += fmt.Sprintf("; for %s its p99 must be at most %s", Seconds(w.Takeover), Seconds(milli(work)))
	} else {
		means += fmt.Sprintf("; jitter and guard alone take %s", Seconds(2*w.Jitter+w.Guard))
	}
	t.Broken = append(t.Broken, Sum{Rule: "L3", Text: fmt.Sprintf("ttl %s + in flight %s + acquire %s = %s, leaves no %s within takeover %s",
		Seconds(p.TTL), Seconds(p.OpTimeout), Seconds(p.Acquire.Timeout), Seconds(least), pickup, Seconds(w.Takeover)), Means: means})
}

// RenewalsPerSecond is how many writes renewals cost a store that holds so many locks of policy p.
func RenewalsPerSecond(p Policy, locks int) float64 {
	if p.RenewEvery <= 0 {
		return 0
	}
	return float64(locks) / p.RenewEvery.Seconds()
}
