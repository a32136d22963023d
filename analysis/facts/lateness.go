package facts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// lateStretch is a stretch in which the runner's machine was late.
type lateStretch struct {
	history.Span
	history.Late
}

// foreign is the share of the processor time in the stretch that neither replicas nor stores of the run used. What they fill themselves
// is the system's own doing, on any machine.
func (s *lateStretch) foreign() float64 {
	if s.Busy == 0 { // nobody says who filled them
		return 1
	}
	return float64(s.Busy-s.Ours) / float64(s.Busy)
}

// kept is for how long the machine may have kept those who are on the way waiting, at most. Waits of several may have come one after
// the other, so they add up, to no more than the stretch. anybody is whoever waited longest.
func (s *lateStretch) kept(way []string) int64 {
	waited := int64(0)
	for _, who := range way {
		switch who {
		case theRunner:
			waited += s.Stall - s.Still
		case anybody:
			longest := int64(0)
			for name, ns := range s.Waits {
				if name != history.WaitsStore && name != history.WaitsLedger {
					longest = max(longest, ns)
				}
			}
			waited += longest
		default:
			waited += s.Waits[who]
		}
	}
	return min(s.Width(), s.Still+int64(float64(waited)*s.foreign()))
}

// Who is on a way, beside incarnations and the stores.
const (
	theRunner = "runner"
	anybody   = "" // a replica of which nobody knows which one
)

// lateness is by how much the machine may have been late from one instant to another, at most, for what went the way from who to the
// stores. Where replicas are not on the runner's machine it says how late that one was, and nothing can be held against it.
func (ix *Facts) lateness(from, to int64, way ...string) int64 {
	first, _ := slices.BinarySearchFunc(ix.late, from, func(s lateStretch, at int64) int { return cmp.Compare(s.To, at) })
	sum := int64(0)
	for i := range ix.late[first:] {
		s := &ix.late[first+i]
		if s.From >= to {
			break
		}
		kept := s.Stall
		if ix.latenessJudges() {
			kept = s.kept(way)
		}
		sum += min(kept, min(s.To, to)-max(s.From, from))
	}
	return sum
}

// wayOf is who is on the way of a request of who for a lock: the stores, and the runner where it has to pass something on.
func (ix *Facts) wayOf(loop bool, who string) []string {
	way := []string{who, history.WaitsStore, history.WaitsLedger}
	env := ix.env
	offers := !loop && (env == nil || env.Fleet != history.FleetObservedProcesses && env.Fleet != history.FleetObservedPods)
	if offers || env != nil && (env.Proxy != "" || env.Store.Kind == "embedded") { // it offers jobs, or it carries the calls
		way = append(way, theRunner)
	}
	return way
}

// latenessJudges reports that the replicas were on the runner's machine, whoever started them.
func (ix *Facts) latenessJudges() bool {
	return ix.env != nil && (ix.env.Fleet == history.FleetProcesses || ix.env.Fleet == history.FleetObservedProcesses)
}

// off is what of a lateness is taken off what was measured.
func (ix *Facts) off(late int64) int64 {
	if !ix.latenessJudges() {
		return 0
	}
	return late
}

// lateTrial sets how late the machine was in the trial.
func (ix *Facts) lateTrial(k *Key, t *Trial) {
	who := anybody
	if t.After != nil {
		who = t.After.Replica
	}
	way, until := ix.wayOf(k.Loop, who), t.Ended.To
	if until == Open { // the last instant at which it surely had not ended
		until = t.Ended.From
	}
	t.Late = ix.lateness(t.Start.From, until, way...)
	if t.Tick != nil {
		t.TickLate = ix.lateness(t.tickSpan.From, t.tickSpan.To, way...)
	}
}

// lateDebt is how late the machine was in a debt, in what of it somebody waited, and in all these waits.
type lateDebt struct{ Time, Effective, Waiting int64 }

// lateIn is lateDebt of d, which ended at until at the earliest, and of the stretches in which somebody surely waited. It is the holder who
// is to give the key back.
func (ix *Facts) lateIn(d *Debt, until int64, waits []stretchOf) (late lateDebt) {
	if len(ix.late) == 0 {
		return lateDebt{}
	}
	way := ix.wayOf(ix.Keys[d.E.Key].Loop, d.E.Replica)
	late.Time = min(d.Time.Lo, ix.lateness(d.Start.From, max(until, d.Start.To), way...))
	for _, s := range waits {
		late.Waiting += ix.lateness(s.from, s.to, way...)
	}
	for _, s := range merged(slices.Clone(waits)) {
		late.Effective += ix.lateness(s.from, s.to, way...)
	}
	_, latency := ix.latency(d.E, d.Start, late.Time)
	if late.Time > 0 && latency || d.Cause == CauseOrphan && slices.ContainsFunc(d.E.Acquires, ix.timedOutLate) { // in time there had been no debt
		return lateDebt{d.Time.Lo, d.Effective.Lo, d.Waiting.Lo}
	}
	return late
}

// belated reports that a late machine may have made e's holder give it up: it made a renewal time out, or else the next one would have been
// answered by then.
func (ix *Facts) belated(e *Epoch) bool {
	at, last := e.Abandoned.Span, (*Call)(nil)
	for c := range e.calls() {
		if c.Outcome == history.OK && c.Returned && c.answered.To <= at.To && (last == nil || c.Sent.From > last.Sent.From) {
			last = c
		}
	}
	if len(ix.late) == 0 || last == nil {
		return false
	}
	if slices.ContainsFunc(e.Renewals, func(c *Call) bool { return c.Sent.From >= last.Sent.To && c.Sent.From <= at.To && ix.timedOutLate(c) }) {
		return true
	}
	from := last.Sent.From
	late := ix.off(ix.lateness(from, at.To, ix.wayOf(ix.Keys[e.Key].Loop, e.Replica)...))
	return late > 0 && at.To-from-late <= int64(ix.policy(e.Lock).RenewEvery)+ix.usual(e)
}

// timedOutLate reports a call without an answer that a machine in time may have answered: without the lateness in it, it waited no longer than
// others of its caller that were answered.
func (ix *Facts) timedOutLate(c *Call) bool {
	if !c.Returned || c.Outcome != history.Unknown || c.fault != "" {
		return false
	}
	late := ix.off(ix.lateCall(c))
	return late > 0 && c.answered.To-c.Sent.From-late <= ix.usual(c.Of)
}

// usual is the longest that an answered call of e's holder took, without what stood still or was late.
func (ix *Facts) usual(e *Epoch) int64 { return max(ix.Cal.RTT99, ix.longest[e.Replica]) }

// timeCalls finds that of all replicas, where a machine was late: nobody asks else.
func (ix *Facts) timeCalls() {
	if len(ix.late) == 0 {
		return
	}
	ix.longest = map[string]int64{}
	for who, epochs := range ix.Epochs {
		for _, e := range epochs {
			for c := range e.calls() {
				if from, to := c.Sent.From, c.answered.To; c.Outcome == history.OK && c.Returned {
					ix.longest[who] = max(ix.longest[who], ix.lessStanding(e, Dur{to - from, to - from}, from, to).Lo-ix.off(ix.lateCall(c)))
				}
			}
		}
	}
}

func (ix *Facts) lateCall(c *Call) int64 {
	return ix.lateness(c.Sent.From, c.answered.To, ix.wayOf(ix.Keys[c.Of.Key].Loop, c.Source)...)
}

// ShownLate is how late the machine was in the slowest trial.
func (s Series) ShownLate(measure string) int64 {
	t := s.Slowest()
	switch {
	case t == nil:
		return 0
	case measure == MeasureTicks:
		return t.TickLate
	}
	return t.Late
}

// Value is a time, and what of it a late machine may have made: a machine in time would have given InTime.
type Value struct {
	Dur
	Late int64 // at most lo
}

// Valued is d where the machine was late by so much.
func (ix *Facts) Valued(d Dur, late int64) Value { return Value{d, min(d.Lo, ix.off(late))} }

func (v Value) InTime() Dur { return Dur{v.Lo - v.Late, v.Hi} }

func (v Value) Add(o Value) Value { return Value{v.Dur.Add(o.Dur), v.Late + o.Late} }

// Worst is the range of the larger of the two.
func (v Value) Worst(o Value) Value {
	d := v.Dur.Worst(o.Dur)
	return Value{d, d.Lo - max(v.InTime().Lo, o.InTime().Lo)}
}

// Machine sums up how late the runner's machine was; nil where it never was.
func (ix *Facts) Machine() *verdict.LateMachine {
	if len(ix.late) == 0 {
		return nil
	}
	sum, worst := int64(0), int64(0)
	for i := range ix.late {
		s := &ix.late[i]
		long := s.Stall
		if ix.latenessJudges() { // nothing that is taken off a trial is more than what is told here
			long = max(long, s.kept(append(slices.Collect(maps.Keys(s.Waits)), theRunner)))
		}
		sum, worst = sum+long, max(worst, long)
	}
	return &verdict.LateMachine{Stretches: len(ix.late), Late: Seconds(sum), Worst: Seconds(worst), Judges: ix.latenessJudges()}
}
