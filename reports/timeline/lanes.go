package timeline

import (
	"math"
	"slices"
	"strings"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Lanes is a run as it is drawn: what was known to happen when, lane by lane. It concludes nothing that Judge does not conclude.
type Lanes struct {
	Seconds   float64 // until the last event
	TimeScale float64 // 1 = real durations
	Live      bool    // false: a rehearsal
	Phases    []PhaseLane
	Faults    []FaultLane
	Locks     []LockLane
	Replicas  []ReplicaLane
	Trials    []TrialLane // those of Judgement.Takeovers, in its order
	Signals   []SignalLane
}

// key is the lane of a key; nil = it has none.
func (l *Lanes) key(lock, key string) *KeyLane {
	for i := range l.Locks {
		for k := range l.Locks[i].Keys {
			if l.Locks[i].Lock == lock && l.Locks[i].Keys[k].Key == key {
				return &l.Locks[i].Keys[k]
			}
		}
	}
	return nil
}

// Holder is who held a key under a value; "" = nobody is known to, or several did.
func (l *Lanes) Holder(lock, key, epoch string) (who string) {
	k := l.key(lock, key)
	if k == nil {
		return ""
	}
	for _, h := range k.Holds {
		switch {
		case h.Epoch != epoch || h.Replica == who:
		case who != "":
			return ""
		default:
			who = h.Replica
		}
	}
	return who
}

// Moment is an instant of the run that lies surely in [From, To], in seconds since the run's origin. To is infinite where its end was
// never seen.
type Moment struct{ From, To float64 }

// Open reports an instant that was never seen to have come.
func (m Moment) Open() bool { return math.IsInf(m.To, 1) }

// Extent is a stretch of the run with uncertain ends.
type Extent struct{ Start, End Moment }

// PhaseLane is the beginning of a phase of the run.
type PhaseLane struct {
	Name string
	At   float64
}

// FaultLane is one shot of a fault.
type FaultLane struct {
	Op                  string  // "kill-holder#3"
	verdict.FaultResult         // as judged
	Applied             *Moment // nil: it never was
	Missed              *Moment // when it was said to be void; nil: it was not
	Over                Moment  // when its effect was over
}

// LockLane is one lock with its keys in the order of their first event.
type LockLane struct {
	Lock  string
	None  bool // there is no lock: effects alone, whose jobs stand for keys
	Keys  []KeyLane
	Again []Mark // duplicate terminal states, and effects after one of a later epoch
	Both  []Both
}

// Both is a time in which two replicas surely believed to hold a key of a lock.
type Both struct {
	Key  string // "" = the lock's one key
	A, B string // incarnations
	Extent
	Refs []int64 // events that say so
}

// KeyLane is one key: who surely held it when, in the order of grants.
type KeyLane struct {
	Key   string
	Holds []Hold
}

// Hold is one epoch: the lease from its grant to its end, and until when it had its holder.
type Hold struct {
	Epoch   string
	Replica string // incarnation; "" = nobody is known to be its holder
	Granted Moment
	Held    *Moment // until when its holder relied on it or, where nobody tells of that, lived; nil = it never had one
	End     Moment  // of the lease
}

// Mark is something that happened at one instant.
type Mark struct {
	What string // duplicate, stale, abandonment
	Who  string // incarnation
	Key  string
	At   Moment
	Note string
}

// ReplicaLane is one replica over its lives.
type ReplicaLane struct {
	Name   string
	Lives  []Life
	Marks  []Mark // abandonments
	Paused []Extent
}

// Called is its owner's words for the replica, each once: a later life may have another. "" = none.
func (r *ReplicaLane) Called() string {
	var words []string
	for i := range r.Lives {
		if c := r.Lives[i].Called; c != "" && !slices.Contains(words, c) {
			words = append(words, c)
		}
	}
	return strings.Join(words, ", ")
}

// Life is one incarnation.
type Life struct {
	Incarnation string
	Called      string // its owner's word for it; "" = none
	Extent
	Exit    string   // how it ended, if that was seen
	Killed  string   // the shot that killed it; "" = none
	Object  *Moment  // the object of its pod was gone; nil = it was not seen to go
	Belief  []Extent // relied on a lock
	Work    []Extent
	Effects []Moment // that the ledger accepted
	Refused []Moment // that it refused
}

// TrialLane is one takeover, or one theft that no fault explains: the instants from which its value was measured.
type TrialLane struct {
	Number           int     // 1, 2, 3 ... in Judgement.Takeovers
	verdict.Takeover         // as judged
	Struck           *Moment // the fault; nil = none, or never applied
	Clock            Moment  // from when on it is counted
	Held             Hold    // the victim's epoch
	Renewed          *Moment // the last extension of its lease that was applied; of a victim that recovered, before the fault
	Next             *Hold   // granted next
	Ended            *Moment // what ended it; nil while censored
	Until            float64 // censored: how far absence is attested
	Attempts         []Attempt
	Work             []Extent // under the victim's epoch
	NextWork         []Extent // under the epoch that ended it
	Limit            *float64 // what the experiment promises at most, in seconds; nil = nothing
}

// Attempt is one acquire of the key, from before the fault until the trial's end.
type Attempt struct {
	Who    string
	At     Extent // sent, answered
	Result string // granted, held, error; "" = no answer
}

// SignalLane is one metric that the experiment declares, at all its targets.
type SignalLane struct {
	Metric  string
	Kind    string // counter, gauge ...; "" = nobody said
	Targets []SignalTarget
}

// SignalTarget is the metric at one target: every change of its value that a look has shown.
type SignalTarget struct {
	Target string // incarnation, or "endpoint"
	Points []SignalPoint
	Last   float64 // the last answered look, in seconds
	Gone   string  // why no look is answered any more; "" = they are
}

// SignalPoint is one value, the sum of the series that match, from the instant at which it was first seen.
type SignalPoint struct {
	At     Moment // changed between the look before and this one
	Value  float64
	Absent bool   // the target has no such series, or Odd
	Odd    string // NaN, +Inf or -Inf: what it showed cannot be drawn
}
