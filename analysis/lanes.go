package analysis

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
)

// Lanes is a run as it is drawn: what was known to happen when, lane by lane. It concludes nothing that Judge does not conclude.
type Lanes struct {
	Seconds    float64 // until the last event
	TimeScale  float64 // 1 = real durations
	Live       bool    // false: a rehearsal
	Phases     []PhaseLane
	Faults     []FaultLane
	Locks      []LockLane
	Replicas   []ReplicaLane
	RoundTrips []RoundTrip // by their begin
	RTT50      float64     // of the calibration, in seconds; 0 = none
	RTT99      float64
	Trials     []TrialLane // those of Judgement.Takeovers, in its order
	Signals    []SignalLane
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
	Op          string  // "kill-holder#3"
	FaultResult         // as judged
	Applied     *Moment // nil: it never was
	Missed      *Moment // when it was said to be void; nil: it was not
	Over        Moment  // when its effect was over
}

// LockLane is one lock with its keys in the order of their first event.
type LockLane struct {
	Lock  string
	Loop  bool
	Keys  []KeyLane
	Again []Mark // duplicate terminal states, and effects after one of a later epoch
}

// KeyLane is one key: who surely held it when, in the order of grants.
type KeyLane struct {
	Key   string
	Holds []Hold
}

// Hold is one epoch: the lease from its grant to its end, and until when its holder relied on it.
type Hold struct {
	Epoch    string
	Rank     int    // place in the key's order of grants, 1 is the first
	Replica  string // incarnation; "" = nobody claims it
	Granted  Moment
	Belief   *Moment // end of the belief; nil = no acquire was answered ok
	End      Moment  // of the lease
	Stranger bool    // put there by a fault
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

// Life is one incarnation.
type Life struct {
	Incarnation string
	Extent
	Exit    string   // how it ended, if that was seen
	Killed  string   // the shot that killed it; "" = none
	Object  *Moment  // the object of its pod was gone; nil = it was not seen to go
	Belief  []Extent // relied on a lock
	Work    []Extent
	Effects []Moment // that the ledger accepted
	Refused []Moment // that it refused
}

// RoundTrip is one call to the locks' store, as its caller saw it.
type RoundTrip struct {
	At, Took float64 // seconds; Took is infinite where no answer came
	Who      string  // incarnation, or the probe
	Op       string  // acquire, renew, release, look
}

// LanesOf arranges h for pictures. e is the experiment as loaded (not scaled), j the judgement of the two.
func LanesOf(e *experiments.Experiment, h *history.History, j *Judgement) *Lanes {
	ix := newIndex(experiments.Scale(e), h)
	l := &Lanes{
		Seconds: seconds(ix.last), TimeScale: cmp.Or(j.Run.TimeScale, 1), Live: j.Run.Live,
		RTT50: seconds(ix.cal.RTT50), RTT99: seconds(ix.cal.RTT99),
	}
	for _, name := range []string{history.PhaseSteady, history.PhaseFaults, history.PhaseRevert, history.PhaseSettle, history.PhaseFinal} {
		if p := ix.phases[name]; p != nil {
			l.Phases = append(l.Phases, PhaseLane{name, seconds(p.From)})
		}
	}
	for _, s := range ix.shots {
		l.Faults = append(l.Faults, ix.faultLane(s))
	}
	l.Locks = ix.lockLanes()
	l.Replicas = ix.replicaLanes()
	l.RoundTrips = ix.roundTrips()
	l.Trials = ix.trialLanes()
	for i := range l.Trials {
		l.Trials[i].Limit = j.longestPromised(l.Trials[i].Lock)
	}
	l.Signals = ix.signalLanes()
	return l
}

// momentOf is s in seconds.
func momentOf(s history.Span) Moment {
	m := Moment{seconds(s.From), math.Inf(1)}
	if s.To != open {
		m.To = seconds(s.To)
	}
	return m
}

// lasted is when the fault was over; a process in a pod lived until its last sign of life, whenever the call was made.
func (s *shot) lasted() Moment {
	over := s.over
	if d := s.death(); d != nil {
		over.From = min(max(over.From, d.Sign), over.To)
	}
	return momentOf(over)
}

func (ix *index) faultLane(s *shot) FaultLane {
	f := FaultLane{Op: s.op, FaultResult: s.result(ix), Over: s.lasted()}
	if s.applied != nil {
		at := momentOf(s.applied.Span)
		f.Applied = &at
	}
	if s.void != nil {
		at := momentOf(s.void.Span)
		f.Missed = &at
	}
	return f
}

func (ix *index) lockLanes() []LockLane {
	var out []LockLane
	for _, k := range ix.keyOrder {
		i := slices.IndexFunc(out, func(l LockLane) bool { return l.Lock == k.lock })
		if i < 0 {
			i = len(out)
			out = append(out, LockLane{Lock: k.lock, Loop: k.loop})
		}
		key := KeyLane{Key: k.name}
		for _, e := range k.epochs {
			key.Holds = append(key.Holds, e.hold())
		}
		out[i].Keys = append(out[i].Keys, key)
		out[i].Again = append(out[i].Again, k.again()...)
	}
	return out
}

func (e *epoch) hold() Hold {
	h := Hold{Epoch: e.id, Rank: e.rank, Replica: e.replica, Granted: momentOf(e.granted), End: momentOf(e.life.end), Stranger: e.stranger}
	if e.belief != nil {
		end := momentOf(e.belief.end)
		h.Belief = &end
	}
	return h
}

// again lists the terminal states of the key's jobs beyond the first, and the effects of superseded epochs.
func (k *keyIndex) again() []Mark {
	var out []Mark
	for _, j := range k.jobs {
		for i, f := range j.terminals {
			if i > 0 {
				out = append(out, Mark{What: "duplicate", Who: f.epoch.replica, Key: k.name, At: momentOf(f.span), Note: "job " + j.id + " " + f.State + " again"})
			}
		}
	}
	top := 0
	for _, f := range k.effects {
		if f.fresh() && f.epoch.rank > 0 && f.epoch.rank < top {
			out = append(out, Mark{What: "stale", Who: f.epoch.replica, Key: k.name, At: momentOf(f.span), Note: f.State + " of " + f.Subject})
		}
		if f.fresh() {
			top = max(top, f.epoch.rank)
		}
	}
	return out
}

// roundTrips lists the calls to the locks' store, and the looks of the probe.
func (ix *index) roundTrips() []RoundTrip {
	var out []RoundTrip
	add := func(op string, cs []*call) {
		for _, c := range cs {
			t := RoundTrip{At: seconds(c.sent.From), Took: math.Inf(1), Who: c.source, Op: op}
			if c.exited && c.result != history.ResultError {
				t.Took = seconds(c.span.To - c.sent.From)
			}
			out = append(out, t)
		}
	}
	for _, k := range ix.keyOrder {
		add("acquire", k.attempts)
		for _, id := range slices.Sorted(maps.Keys(k.byID)) {
			add("renew", k.byID[id].renewals)
			add("release", k.byID[id].releases)
		}
		for _, s := range k.looks {
			out = append(out, RoundTrip{At: seconds(s.first.From), Took: seconds(s.first.Width()), Who: "probe", Op: "look"})
		}
	}
	slices.SortStableFunc(out, func(a, b RoundTrip) int { return cmp.Compare(a.At, b.At) })
	return out
}
