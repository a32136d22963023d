package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/lockcore"
)

// LockSums is what a lock's policy comes to under the faults that the file declares, before anything is measured. Durations are seconds.
type LockSums struct {
	Lock     string       `json:"lock"`
	Takeover TakeoverSum  `json:"takeover"`
	Promises []PromiseSum `json:"promises"`           // limits of takeover; never null
	Failures *FailureSum  `json:"failures,omitempty"` // absent = never renewed
	Wait     *WaitSum     `json:"wait,omitempty"`     // absent = one try
	Cadence  *CadenceSum  `json:"cadence,omitempty"`  // absent = no loop that is left to its TTL
}

// TakeoverSum is what a takeover can be, and what it is on average.
type TakeoverSum struct {
	Lo     float64  `json:"lo"` // L3
	Hi     float64  `json:"hi"`
	Untold string   `json:"untold,omitempty"` // what hi leaves out
	Mean   *float64 `json:"mean"`             // where all calls are answered at once and polls come at any time; null = no takeover comes about
	Form   string   `json:"form,omitempty"`   // how the mean comes about, where it is a simple sum
	Unless []string `json:"unless,omitempty"` // what in this file speaks against the mean and the chances
}

// PromiseSum is how likely one takeover keeps a promised limit.
type PromiseSum struct {
	Limit  string  `json:"limit"` // max, p50 ...
	Value  float64 `json:"value"`
	Chance float64 `json:"chance"` // that one fault meets it
	Luck   bool    `json:"luck"`   // the band reaches beyond it: what meets it does so by luck
}

// FailureSum is how many renewals in a row may fail before the lease is unsafe.
type FailureSum struct {
	Class string `json:"class"`
	Safe  int    `json:"safe"`  // L1 holds for so many
	Count int    `json:"count"` // that the policy waits for; 0 = it does not count
}

// WaitSum is a bounded wait held against the lease.
type WaitSum struct {
	Budget float64 `json:"budget"`
	TTL    float64 `json:"ttl"`
	Busy   float64 `json:"busy"`   // for so long after a fault those who come are told busy, at most
	GiveUp float64 `json:"giveUp"` // the chance that one who comes when the fault strikes gives up
}

// CadenceSum is how often a loop really runs whose key is left to its TTL.
type CadenceSum struct {
	Poll  float64 `json:"poll"`
	Alone float64 `json:"alone"` // a single replica runs every
	Least float64 `json:"least"` // several: the key is free again after
	Races bool    `json:"races"` // the TTL is an exact multiple of the poll: a poll more by chance
}

// LockSumsOf works out the sums of every lock of e, in order. Durations are those of e: give it unscaled.
func LockSumsOf(e *experiments.Experiment) []LockSums {
	out := []LockSums{}
	for i := range e.System.Locks {
		if !e.Leases() {
			break
		}
		out = append(out, lockSums(e, &e.System.Locks[i]))
	}
	return out
}

func lockSums(e *experiments.Experiment, l *experiments.Lock) LockSums {
	class, _ := declaredClass(e.Faults, l.Name)
	p, b := &l.Policy, bandOf(e, l, 0).under(e.Faults, class)
	odds := oddsOf(e, b)
	s := LockSums{Lock: l.Name, Takeover: TakeoverSum{Lo: b.lo.Seconds(), Hi: b.hi.Seconds(), Untold: b.leavesOut(), Form: meanForm(e, b), Unless: unless(e, b, class)}, Promises: []PromiseSum{}}
	if mean := odds.mean(); !math.IsInf(mean, 0) {
		s.Takeover.Mean = &mean
	}
	for slo, promised := range limitsOn(e, l.Name) {
		if v := promised.Value; slo.Takeover != nil {
			s.Promises = append(s.Promises, PromiseSum{Limit: promised.Name, Value: v.Seconds(), Chance: odds.within(v.Seconds()), Luck: v < b.hi})
		}
	}
	if p.RenewEvery > 0 {
		s.Failures = &FailureSum{Class: string(p.Class), Safe: lockcore.SafeFailures(*p)}
		if p.Class == lockcore.LegacyCount || p.Class == lockcore.Critical {
			s.Failures.Count = p.MaxFailures
		}
	}
	if p.Acquire.Mode == lockcore.AcquireWait && p.Loop == nil {
		s.Wait = &WaitSum{Budget: p.Acquire.Budget.Seconds(), TTL: p.TTL.Seconds(), Busy: max(0, p.TTL-p.Acquire.Budget).Seconds(), GiveUp: odds.leftAbove(p.Acquire.Budget.Seconds())}
	}
	if p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold {
		alone, races := lockcore.Cadence(*p)
		s.Cadence = &CadenceSum{Poll: p.Loop.Poll.Seconds(), Alone: alone.Seconds(), Least: p.TTL.Seconds(), Races: races}
	}
	return s
}

// meanForm writes the mean takeover of a random kill of a renewed loop, whose victim is not replaced before: a simple sum.
func meanForm(e *experiments.Experiment, b band) string {
	p := &b.lock.Policy
	simple := b.struck == "" && len(b.phases) == 1 && b.phases[0] == fault.RandomPhase && p.Loop != nil && p.Loop.Mode == lockcore.LoopRenewed &&
		p.RenewEvery > 0 && p.RenewJitter == 0 && p.Loop.Jitter == 0 && e.System.Replicas > 1 && restartOf(e) >= p.TTL+p.Loop.Poll
	if !simple {
		return ""
	}
	return fmt.Sprintf("ttl %s - renewal %s / 2 + poll %s / %d", lockcore.Seconds(p.TTL), lockcore.Seconds(p.RenewEvery), lockcore.Seconds(p.Loop.Poll), e.System.Replicas)
}

// restartOf is when a killed replica is replaced, in the times of the file: a scale does not touch it.
func restartOf(e *experiments.Experiment) time.Duration {
	return time.Duration(float64(e.System.Restart) / max(e.TimeScale, 1e-9))
}

// unless lists what of e the odds leave out.
func unless(e *experiments.Experiment, b band, class string) []string {
	var why []string
	l := b.lock
	others := 0
	for i := range e.Faults {
		if !e.Faults[i].Traits().Kills {
			others++
		}
	}
	switch {
	case class == verdict.ClassHandOver && others == 0:
		why = append(why, "the holders are asked to end, and give their locks back")
	case class != verdict.ClassCrash || others > 0:
		why = append(why, "the file has faults other than kills")
	}
	if e.OnLease(l) {
		why = append(why, "a contender counts the lease from when it last saw a renewal")
	}
	switch p, w := &l.Policy, e.WorkUnder(l.Name); {
	case p.Loop == nil && (w == nil || w.Redeliver == 0):
		why = append(why, "the file does not say when a job is offered again")
	case p.Loop == nil && !slices.Equal(b.phases, []fault.Phase{fault.RandomPhase}):
		why = append(why, "a kill strikes all jobs of its victim")
	case p.Loop == nil && p.Acquire.Mode == lockcore.AcquireTry && offersRace(p, w):
		why = append(why, fmt.Sprintf("offers every %s race the end of a lease of %s", lockcore.Seconds(w.Redeliver), lockcore.Seconds(p.TTL)))
	case p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold:
		why = append(why, "a ttl_hold loop is granted at a poll, so the polls keep step with the end of its lease")
	case p.Loop != nil && e.System.Replicas > 1 && !outOfStep(e, l):
		why = append(why, "polls and renewals jitter too little before the first kill to have lost step with one another")
	}
	return why
}

// offersRace reports whether an offer may come at the very instant at which a lease ends, which was renewed any number of times.
func offersRace(p *lockcore.Policy, w *experiments.Work) bool {
	for k := time.Duration(0); k < 1000 && k*p.RenewEvery <= 2*w.Longest(); k++ {
		if (p.TTL+k*p.RenewEvery)%w.Redeliver == 0 {
			return true
		}
		if p.RenewEvery == 0 || p.RenewJitter > 0 { // a renewal that jitters comes at no instant in particular
			return false
		}
	}
	return false
}

// outOfStep reports whether the jitter that adds up until the first kill is as long as a good part of the poll: the leader was the first
// to poll, and the others come at phases that follow from that.
func outOfStep(e *experiments.Experiment, l *experiments.Lock) bool {
	first := time.Duration(math.MaxInt64)
	for i := range e.Faults {
		if e.Faults[i].Traits().Kills {
			first = min(first, e.Faults[i].At)
		}
	}
	if first == math.MaxInt64 {
		first = 0
	}
	p := &l.Policy
	steady := float64(e.SteadyState.For) / max(e.TimeScale, 1e-9) // it is not scaled
	passed := steady + float64(first) + float64(p.TTL+p.Loop.Poll)/2
	drift := func(every time.Duration, jitter float64) float64 { // the variance of a sum of even intervals
		if every <= 0 {
			return 0
		}
		step := jitter * float64(every)
		return passed / float64(every) * step * step / 3
	}
	apart := math.Sqrt(drift(p.Loop.Poll, p.Loop.Jitter) + drift(p.RenewEvery, p.RenewJitter))
	return apart >= 0.4*float64(p.Loop.Poll)
}
