package forecast

import (
	"time"

	"github.com/lockdrill/lockdrill/experiments"
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
	Seeds    *SeedSums    `json:"seeds,omitempty"`    // what rehearsals gave; absent = nobody rehearsed it
	Advice   string       `json:"advice,omitempty"`   // how the file could keep a promised maximum that its timings do not
}

// TakeoverSum is what a takeover can be: L3.
type TakeoverSum struct {
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	Untold string  `json:"untold,omitempty"` // what hi leaves out
}

// PromiseSum is a promised limit beside what a takeover can be.
type PromiseSum struct {
	Limit  string  `json:"limit"` // max, p50 ...
	Value  float64 `json:"value"`
	Luck   bool    `json:"luck"`   // the band, with the warm-up that a run measures, reaches beyond it: what meets it does so by luck
	Prompt bool    `json:"prompt"` // it is met wherever every call is answered at once
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
	Busy   float64 `json:"busy"` // for so long after a fault those who come are told busy, at most
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
	p, b := &l.Policy, declaredBand(e, l, 0)
	s := LockSums{Lock: l.Name, Takeover: TakeoverSum{Lo: b.lo.Seconds(), Hi: b.hi.Seconds(), Untold: b.leavesOut()}, Promises: []PromiseSum{}}
	for _, promised := range limitsOn(e, l.Name) {
		if v := time.Duration(promised.At); promised.Measure == takeover {
			if v <= b.hi && promised.Quantile == 0 && s.Advice == "" {
				s.Advice = b.advice(&promised, 1)
			}
			s.Promises = append(s.Promises, PromiseSum{Limit: promised.Bound(), Value: v.Seconds(), Luck: v <= b.hi, Prompt: v >= b.answered()})
		}
	}
	if p.RenewEvery > 0 {
		s.Failures = &FailureSum{Class: string(p.Class), Safe: lockcore.SafeFailures(*p)}
		if p.Class == lockcore.LegacyCount || p.Class == lockcore.Critical {
			s.Failures.Count = p.MaxFailures
		}
	}
	if p.Acquire.Mode == lockcore.AcquireWait && p.Loop == nil {
		s.Wait = &WaitSum{Budget: p.Acquire.Budget.Seconds(), TTL: p.TTL.Seconds(), Busy: max(0, p.TTL-p.Acquire.Budget).Seconds()}
	}
	if p.Loop != nil && p.Loop.Mode == lockcore.LoopTTLHold {
		alone, races := lockcore.Cadence(*p)
		s.Cadence = &CadenceSum{Poll: p.Loop.Poll.Seconds(), Alone: alone.Seconds(), Least: p.TTL.Seconds(), Races: races}
	}
	return s
}
