package analysis

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/internal/figures"
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
	env := ix.environment
	offers := !loop && (env == nil || env.Fleet != history.FleetObservedProcesses && env.Fleet != history.FleetObservedPods)
	if offers || env != nil && (env.Proxy != "" || env.Store.Kind == "embedded") { // it offers jobs, or it carries the calls
		way = append(way, theRunner)
	}
	return way
}

// latenessJudges reports that the replicas were on the runner's machine, whoever started them.
func (ix *Facts) latenessJudges() bool {
	return ix.environment != nil && (ix.environment.Fleet == history.FleetProcesses || ix.environment.Fleet == history.FleetObservedProcesses)
}

// off is what of a lateness is taken off what was measured.
func (ix *Facts) off(late int64) int64 {
	if !ix.latenessJudges() {
		return 0
	}
	return late
}

func (ix *Facts) offSeconds(late float64) float64 {
	if !ix.latenessJudges() {
		return 0
	}
	return late
}

// lateTrial sets how late the machine was in the trial.
func (ix *Facts) lateTrial(k *keyIndex, t *trial) {
	who := anybody
	if t.after != nil {
		who = t.after.replica
	}
	way, until := ix.wayOf(k.loop, who), t.x.To
	if until == open { // the last instant at which it surely had not ended
		until = t.x.From
	}
	t.late = ix.lateness(t.start.From, until, way...)
	if t.tick != nil {
		t.tickLate = ix.lateness(t.tickSpan.From, t.tickSpan.To, way...)
	}
}

// lateDebt is how late the machine was in a debt, in what of it somebody waited, and in all these waits.
type lateDebt struct{ time, effective, waiting int64 }

// lateIn is lateDebt of d, which ended at until at the earliest, and of the stretches in which somebody surely waited. It is the holder who
// is to give the key back.
func (ix *Facts) lateIn(d *debt, until int64, waits []stretchOf) (late lateDebt) {
	if len(ix.late) == 0 {
		return lateDebt{}
	}
	way := ix.wayOf(ix.keys[d.e.key].loop, d.e.replica)
	late.time = min(d.time.lo, ix.lateness(d.start.From, max(until, d.start.To), way...))
	for _, s := range waits {
		late.waiting += ix.lateness(s.from, s.to, way...)
	}
	for _, s := range merged(slices.Clone(waits)) {
		late.effective += ix.lateness(s.from, s.to, way...)
	}
	return late
}

// shownLate is how late the machine was in the slowest trial.
func (s series) shownLate(measure string) int64 {
	t := s.slowest()
	switch {
	case t == nil:
		return 0
	case measure == "tick_gap":
		return t.tickLate
	}
	return t.late
}

// value is a time, and what of it a late machine may have made: a machine in time would have given inTime.
type value struct {
	dur
	late int64 // at most lo
}

// valued is d where the machine was late by so much.
func (ix *Facts) valued(d dur, late int64) value { return value{d, min(d.lo, ix.off(late))} }

func (v value) inTime() dur { return dur{v.lo - v.late, v.hi} }

func (v value) add(o value) value { return value{v.dur.add(o.dur), v.late + o.late} }

// worst is the range of the larger of the two.
func (v value) worst(o value) value {
	d := v.dur.worst(o.dur)
	return value{d, d.lo - max(v.inTime().lo, o.inTime().lo)}
}

// belatedAny is what values lack of which each is held against an upper limit, and some of which the machine made late: it names the longest.
func belatedAny(values []value, limit int64) (missing []verdict.Missing) {
	longest := int64(-1)
	for _, v := range values {
		kept := v.hi != open && v.hi-v.late <= limit
		if v.late > 0 && v.hi > limit && v.inTime().lo <= limit && (v.lo > limit || kept) && v.lo > longest {
			longest, missing = v.lo, lateMachine(v.dur, v.late, limit)
		}
	}
	return missing
}

// lateMachine is what a figure lacks where it is the machine that keeps it from an answer: then nothing is said against the lock, nor for it.
func lateMachine(v dur, late, limit int64) []verdict.Missing {
	return []verdict.Missing{verdict.Lacking(verdict.MissingLateMachine, v, figures.Ceil(late), figures.Exact(limit))}
}

// machine sums up how late the runner's machine was; nil where it never was.
func (ix *Facts) machine() *verdict.LateMachine {
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
	return &verdict.LateMachine{Stretches: len(ix.late), Late: seconds(sum), Worst: seconds(worst), Judges: ix.latenessJudges()}
}
