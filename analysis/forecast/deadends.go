package forecast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
	"github.com/lockdrill/lockdrill/lockcore"
)

// What the times of a file alone keep a run from answering, whatever the locks do.

// DeadEnds are the sums L10 and L11 that do not hold: a run that does not come to its end within max_run, and shots that are due when the
// jobs have ended. Their times are real: scaled.
func DeadEnds(sums []Lint) []Lint {
	return slices.DeleteFunc(slices.Clone(sums), func(l Lint) bool { return l.OK || !l.Ahead() })
}

// Ahead reports a lint about the course of a run, which a run that is over has shown by itself.
func (l Lint) Ahead() bool { return l.Rule == ruleEnd || l.Rule == ruleJobs }

const (
	ruleEnd  = "L10"
	ruleJobs = "L11"
)

// endSum is L10. The expected duration is an estimate; where even the shortest one is too long, the run cannot end.
func endSum(e *experiments.Experiment) []Lint {
	if e.Limits.MaxRun <= 0 {
		return nil
	}
	s := experiments.Scale(e)
	d := durationOf(s)
	if d.Expected <= d.MaxRun {
		return nil
	}
	need := time.Duration(math.Ceil(d.Expected)) * time.Second
	least := leastOf(s)
	sum := lockcore.Sum{Rule: ruleEnd, Text: fmt.Sprintf("the run takes about %s, and limits.max_run is %s", need, s.Limits.MaxRun),
		Means: fmt.Sprintf("The run will probably be aborted before its end. Set max_run to %s or more, or take fewer shots or jobs.", need+need/4)}
	if least > s.Limits.MaxRun {
		sum.Means = fmt.Sprintf("The run cannot come to its end, because it takes at least %s. Set max_run to %s or more, or take fewer shots or jobs.",
			figures.Short(int64(least)), need+need/4)
	}
	return []Lint{{Sum: sum}}
}

// leastOf is the shortest time in which a run of e, which is scaled, can come to its end with every shot answered.
func leastOf(e *experiments.Experiment) time.Duration {
	var faults, jobs time.Duration
	for i := range e.Faults {
		f := &e.Faults[i]
		shots := time.Duration(max(1, f.Repeat.Count))
		if f.Repeat.Answered { // too many misses answer it soon
			shots = 1
		}
		each := f.For
		if l := e.Lock(f.Lock()); l != nil && f.Traits().Kills {
			each = bandOf(e, l, 0).lo
		}
		faults = max(faults, e.Earliest(f)+(shots-1)*max(each, f.Repeat.Every)+f.For)
	}
	for i := range e.System.Work {
		w := &e.System.Work[i]
		jobs = max(jobs, lastOffer(w))
	}
	return max(e.SteadyState.For+faults+Horizon(e, ""), jobs)
}

// lastOffer is when the last job is offered, from the first one on.
func lastOffer(w *experiments.Work) time.Duration {
	if w.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(max(0, w.Jobs-1)) / w.Rate * float64(time.Second))
}

// due is one shot of a fault, the earliest that it can come, from the first offer of a job on.
type due struct {
	f       *experiments.Fault
	at      time.Duration
	settled bool // and others like it follow, whenever it has settled
}

// shotsOf lists the shots of e, which is scaled, by time.
func shotsOf(e *experiments.Experiment) []due {
	var all []due
	for i := range e.Faults {
		f := &e.Faults[i]
		at, count := e.SteadyState.For+e.Earliest(f), max(1, f.Repeat.Count)
		if f.Repeat.Every == 0 {
			all = append(all, due{f, at, count > 1})
			continue
		}
		for n := range min(count, mostDue) {
			all = append(all, due{f, at + time.Duration(n)*f.Repeat.Every, false})
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	return all
}

// mostDue bounds the shots of one fault that are looked at.
const mostDue = 100_000

// jobsSum is L11: shots at the holder of a lock of jobs that come when the jobs surely have ended. A job that is struck is done again, so
// every shot before keeps the jobs going for a takeover and its work; of shots that follow one another as they settle nobody knows for
// how long.
func jobsSum(e *experiments.Experiment, lock string) []lockcore.Sum {
	if e.Lock(lock).Loop() || e.WorkUnder(lock) == nil || len(e.Faults) == 0 {
		return nil
	}
	s := experiments.Scale(e)
	l, w := s.Lock(lock), s.WorkUnder(lock)
	var work time.Duration
	for _, k := range w.Kinds() {
		if work = max(work, k.Hold.P50); k.Hold.P99 > k.Hold.P50 {
			work = max(work, 2*k.Hold.P99) // one in a hundred takes longer than p99
		}
	}
	ended := lastOffer(w) + work + l.Policy.Acquire.Timeout + w.Redeliver + time.Second
	until, endless := ended, false
	late, first := map[*experiments.Fault]int{}, map[*experiments.Fault]time.Duration{}
	for _, d := range shotsOf(s) {
		if until < d.at && !endless {
			if d.f.Lock() == lock {
				if late[d.f]++; late[d.f] == 1 {
					first[d.f] = d.at
				}
				if d.settled {
					late[d.f] = d.f.Repeat.Count
				}
			}
			continue
		}
		endless = endless || d.settled
		until = max(until, d.at+d.f.For+bandOf(s, l, 0).hi+work)
	}
	var out []lockcore.Sum
	for i := range s.Faults {
		f := &s.Faults[i]
		if n := late[f]; n > 0 {
			all := max(1, f.Repeat.Count)
			jobs := int(math.Ceil((first[f]).Seconds()*w.Rate)) + 1
			out = append(out, lockcore.Sum{Rule: ruleJobs,
				Text: fmt.Sprintf("%d of %s of fault %s will come %s after the first job or later, and the last job has ended after %s", n,
					figures.Plural(all, "shot"), f.ID, figures.Short(int64(first[f])), figures.Short(int64(until))),
				Means: fmt.Sprintf("They will hit no lock holder, so the run stays inconclusive. Start the fault sooner, or offer more jobs (jobs: %d last that long).", max(jobs, w.Jobs+1))})
		}
	}
	return out
}
