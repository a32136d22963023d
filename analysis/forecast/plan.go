package forecast

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/stats"
	"github.com/lockdrill/lockdrill/lockcore"
)

// Plan is what an experiment would do, worked out before anything is touched. It judges nothing. Unless it says otherwise, its
// figures are those of the file, in seconds.
type Plan struct {
	Experiment  string            `json:"experiment"`
	Environment string            `json:"environment"`
	TimeScale   float64           `json:"timeScale"`
	Timeline    []PlannedFault    `json:"timeline"`            // in the order of their first shots
	LockCalls   string            `json:"lockCalls,omitempty"` // how lock operations are sent: batched or single; "" = by workers that are not lockdrill's own
	Overlaps    [][2]string       `json:"overlaps"`            // pairs that may be in effect together
	Bands       []verdict.Band    `json:"takeoverBands"`
	Sums        []Lint            `json:"sums"`
	LockSums    []LockSums        `json:"lockSums"`
	Beyond      []PlannedBeyond   `json:"beyond,omitempty"` // what of the real locks their policies cannot say
	Quantiles   []PlannedQuantile `json:"quantiles"`
	Duration    PlannedDuration   `json:"duration"`
	Caps        PlannedCaps       `json:"caps"`
	Guards      []PlannedGuard    `json:"guards"`             // as they stand at the moment of planning; filled in by whoever asks them
	Pods        []PlannedPod      `json:"pods,omitempty"`     // likewise
	Replicas    []PlannedReplica  `json:"replicas,omitempty"` // likewise

	Holders   []PlannedHolder        `json:"holders,omitempty"`   // likewise
	Beliefs   []PlannedBelief        `json:"beliefs,omitempty"`   // likewise
	Told      []PlannedTold          `json:"told,omitempty"`      // what can be promised of each observed lock
	Effects   []PlannedEffects       `json:"effects,omitempty"`   // likewise
	Signals   []PlannedSignal        `json:"signals,omitempty"`   // likewise
	Expected  []RehearsedExpectation `json:"expected,omitempty"`  // what a few rehearsals say of them; filled in by whoever rehearses, as LockSums.Seeds is
	Rehearsed int64                  `json:"rehearsed,omitempty"` // how many
}

// PlannedGuard is one answer to whether the run may start.
type PlannedGuard struct {
	Name      string `json:"guard"`
	Refuses   bool   `json:"refuses"`
	Momentary bool   `json:"momentary,omitempty"` // its refusal may be gone when the run is to begin: a plan shows it, and does not end with it
	Says      string `json:"says"`
	Flag      string `json:"flag,omitempty"`  // by which the operator meets it
	Paste     string `json:"paste,omitempty"` // lines of a file that mend it
}

// PlannedPod is one pod that a drill would have, as it stands at the moment of planning.
type PlannedPod struct {
	Name  string `json:"name"`
	UID   string `json:"uid"`
	Node  string `json:"node,omitempty"` // "" = not placed yet
	Phase string `json:"phase"`
	Ready bool   `json:"ready"`
}

// PlannedReplica is one process of somebody's own that a drill would have, as it stands at the moment of planning.
type PlannedReplica struct {
	Name  string `json:"name,omitempty"` // its owner's word for it; "" = none is known
	PID   int    `json:"pid"`
	Since string `json:"since"`
}

// PlannedHolder is who holds an observed lock, of jobs one of its keys, at the moment of planning.
type PlannedHolder struct {
	Lock     string `json:"lock"`
	Key      string `json:"key"`
	Name     string `json:"name,omitempty"`     // the replica's owner's word for it
	PID      int    `json:"pid,omitempty"`      // 0 = a pod
	By       string `json:"by,omitempty"`       // the source that says so; "" = none knows
	Disputed bool   `json:"disputed,omitempty"` // sources name several
	Why      string `json:"why,omitempty"`      // why nobody is named

	Says []string `json:"says,omitempty"` // what each source says, or lacks
}

// PlannedBelief is what replicas say of whether they hold an observed lock, at the moment of planning.
type PlannedBelief struct {
	Lock   string   `json:"lock"`
	Source string   `json:"source"`         // metric, log, http or command
	Leads  []string `json:"leads"`          // the replicas that say that they do
	Says   []string `json:"says,omitempty"` // what each replica says
	Why    string   `json:"why,omitempty"`  // why nothing is known
}

// PlannedTold is what tells which measures of an observed lock.
type PlannedTold struct {
	Lock string                 `json:"lock"`
	By   []experiments.Answered `json:"by"`
}

// PlannedEffects are the last effects of a source of an observed system, as they stand at the moment of planning.
type PlannedEffects struct {
	Name   string   `json:"name"`
	Lock   string   `json:"lock"`
	Source string   `json:"source"`
	Last   []string `json:"last"`          // what the map makes of them, the newest last
	Why    string   `json:"why,omitempty"` // there are none
}

// PlannedBeyond is what of some real locks their policies cannot say.
type PlannedBeyond struct {
	What  string   `json:"what"`
	Locks []string `json:"locks"`
}

// PlannedSignal are the first samples of a signal, or the files of logs, as they stand at the moment of planning.
type PlannedSignal struct {
	Name   string   `json:"name"`
	Source string   `json:"source"`
	First  []string `json:"first"`
	Why    string   `json:"why,omitempty"` // there are none
}

// PlannedFault is one fault with all its shots.
type PlannedFault struct {
	ID         string   `json:"id"`
	Kind       string   `json:"kind"`
	Form       string   `json:"form,omitempty"`
	Timing     string   `json:"timing,omitempty"` // kills: moment of the lease
	Lock       string   `json:"lock,omitempty"`   // whose holder it strikes
	Whom       string   `json:"whom"`
	Now        []string `json:"now,omitempty"`   // who that would be at the moment of planning, where it can be looked up
	At         float64  `json:"at"`              // after the steady state; with After the earliest
	After      string   `json:"after,omitempty"` // the fault whose last shot it waits for, until that has settled
	Delay      float64  `json:"delay,omitempty"` // from then on
	For        float64  `json:"for,omitempty"`   // 0 = an instant, or bounded by a count
	Shots      int      `json:"shots"`
	Likely     int      `json:"likely,omitempty"` // until answered: so many where none misses; shots is the most
	Every      float64  `json:"every,omitempty"`  // between shots; 0 = each waits until the last has settled
	Configured string   `json:"configured,omitempty"`
	Does       string   `json:"does"`
	Confirmed  string   `json:"confirmed"`
	Undone     string   `json:"undone"`
}

// PlannedQuantile is what it takes to answer a promised quantile at all.
type PlannedQuantile struct {
	Lock     string  `json:"lock"`
	Measure  string  `json:"measure"`
	Quantile string  `json:"quantile"` // p50, p90 ...
	Limit    float64 `json:"limit"`
	Declared int     `json:"declared"`                  // independent faults that the file declares for it
	Need     int     `json:"need"`                      // that a clean answer takes
	NeedOne  int     `json:"needWithOneMiss,omitempty"` // faults that repeat until it is answered: that it takes where one misses
}

// PlannedDuration is how long the run would take, in real seconds: as scaled.
type PlannedDuration struct {
	SteadyState float64 `json:"steadyState"` // at least
	Faults      float64 `json:"faults"`      // about: each kill settles in the middle of its takeover band
	Horizon     float64 `json:"horizon"`     // waited after the last fault for a late breach
	Jobs        float64 `json:"jobs"`        // until the last job that is offered is done, from the start
	Expected    float64 `json:"expected"`
	MaxRun      float64 `json:"maxRun"` // then the run is aborted
}

// PlannedCaps are limits that hold whatever the faults ask for.
type PlannedCaps struct {
	MaxKills   int    `json:"maxKills"`
	MaxTargets int    `json:"maxTargets"` // 0 = no cap
	KillSwitch string `json:"killSwitch,omitempty"`
}

// PlanOf works out what e, as it was loaded, would do.
func PlanOf(e *experiments.Experiment) *Plan {
	p := &Plan{
		Experiment: e.Name, Environment: e.Environment, TimeScale: e.TimeScale,
		LockCalls: e.LockCalls(), Guards: []PlannedGuard{}, Timeline: []PlannedFault{}, Overlaps: e.AllowOverlap, Bands: Bands(e, 0), Sums: Lints(e, 0), LockSums: LockSumsOf(e), Beyond: unsaid(e), Quantiles: []PlannedQuantile{},
		Duration: durationOf(experiments.Scale(e)),
		Caps:     PlannedCaps{MaxKills: e.Limits.MaxKills, MaxTargets: e.Limits.MaxTargets, KillSwitch: e.Limits.KillSwitch},
	}
	if p.Overlaps == nil {
		p.Overlaps = [][2]string{}
	}
	for i := range e.Faults {
		p.Timeline = append(p.Timeline, plannedFault(e, &e.Faults[i]))
	}
	slices.SortStableFunc(p.Timeline, func(a, b PlannedFault) int { return cmp.Compare(a.At, b.At) })
	for i := range e.System.Locks {
		p.Quantiles = append(p.Quantiles, quantilesOf(e, e.System.Locks[i].Name)...)
		if e.Observed() {
			p.Told = append(p.Told, PlannedTold{Lock: e.System.Locks[i].Name, By: e.Answered(&e.System.Locks[i])})
		}
	}
	return p
}

// unsaid is what the policies of e's locks cannot say, each sentence once.
func unsaid(e *experiments.Experiment) (all []PlannedBeyond) {
	for i := range e.System.Locks {
		l := &e.System.Locks[i]
		for _, what := range l.Beyond {
			at := slices.IndexFunc(all, func(b PlannedBeyond) bool { return b.What == what })
			if at < 0 {
				at, all = len(all), append(all, PlannedBeyond{What: what})
			}
			all[at].Locks = append(all[at].Locks, l.Name)
		}
	}
	return all
}

func plannedFault(e *experiments.Experiment, f *experiments.Fault) PlannedFault {
	says := e.Describe(f)
	p := PlannedFault{
		ID: f.ID, Kind: f.Kind(), Form: f.Form(), Lock: f.Lock(), Whom: f.Aim().InWords(),
		At: e.Earliest(f).Seconds(), For: f.For.Seconds(), Shots: max(1, f.Repeat.Count), Every: f.Repeat.Every.Seconds(),
		Configured: f.Magnitude(), Does: says.Does, Confirmed: says.Confirmed, Undone: says.Undone,
	}
	if after, delay := e.Begin(f); after != nil {
		p.After, p.Delay = after.ID, delay.Seconds()
	}
	if f.Repeat.Answered {
		p.Likely = likelyShots(e, f)
	}
	if t := f.Traits(); t.Kills && !t.Rolls {
		p.Timing = string(cmp.Or(f.Moment(), fault.RandomPhase))
	}
	return p
}

func quantilesOf(e *experiments.Experiment, lock string) []PlannedQuantile {
	var out []PlannedQuantile
	declared, _, growing := trialsDeclared(e, lock)
	for _, l := range limitsOn(e, lock) {
		if l.Quantile == 0 {
			continue
		}
		q := PlannedQuantile{Lock: lock, Measure: l.Measure, Quantile: l.Bound(), Limit: time.Duration(l.At).Seconds(), Declared: declared, Need: stats.TrialsNeeded(l.Quantile, 0)}
		if growing {
			q.Need, q.NeedOne = stats.SequentialTrialsNeeded(l.Quantile, 0), stats.SequentialTrialsNeeded(l.Quantile, 1)
		}
		out = append(out, q)
	}
	return out
}

// durationOf estimates the run of e, which is scaled.
func durationOf(e *experiments.Experiment) PlannedDuration {
	var faults, jobs time.Duration
	for i := range e.Faults {
		faults = max(faults, lengthOf(e, &e.Faults[i]))
	}
	for i := range e.System.Work {
		w := &e.System.Work[i]
		jobs = max(jobs, time.Duration(float64(w.Jobs)/w.Rate*float64(time.Second))+w.Longest())
	}
	horizon := Horizon(e, "")
	for _, s := range e.AlertRows() { // where it fires late, and goes away late
		horizon = max(horizon, s.AlertWait(false, false), s.AlertWait(true, true))
	}
	expected := max(e.SteadyState.For+faults+horizon, jobs)
	return PlannedDuration{
		SteadyState: e.SteadyState.For.Seconds(), Faults: faults.Seconds(), Horizon: horizon.Seconds(), Jobs: jobs.Seconds(),
		Expected: expected.Seconds(), MaxRun: e.Limits.MaxRun.Seconds(),
	}
}

// lengthOf is about how long a series of shots takes, from the steady state on.
func lengthOf(e *experiments.Experiment, f *experiments.Fault) time.Duration {
	shots := time.Duration(likelyShots(e, f))
	one := f.For
	if r, ok := f.Spec.(fault.Rolling); ok {
		one = e.System.Restart + r.Rolls().Pause
	}
	for i := range e.System.Locks {
		l, t := &e.System.Locks[i], f.Traits()
		switch {
		case l.Name != f.Lock():
		case t.Kills: // the wait for its moment, the takeover, and the replica's return beside it
			b := bandOf(e, l, 0)
			one = waitFor(l, f.Moment()) + max((b.lo+b.hi)/2, e.System.Restart)
		case t.Fails != "" && f.For == 0:
			p := &l.Policy
			one = time.Duration(t.Count)*(max(p.RenewEvery, p.Acquire.Timeout)+t.Delay) + p.TTL
		}
	}
	after, begins := e.Begin(f)
	if after != nil {
		begins += lengthOf(e, after)
	}
	if f.Repeat.Every > 0 {
		return begins + (shots-1)*max(f.Repeat.Every, one) + one
	}
	return begins + shots*one
}

// waitFor is about how long a kill waits for its moment within the lease.
func waitFor(l *experiments.Lock, phase fault.Phase) time.Duration {
	p := &l.Policy
	cycle := p.TTL
	if p.Loop != nil {
		cycle += p.Loop.Poll
	}
	renews := p.RenewEvery > 0 && (p.Loop == nil || p.Loop.Mode == lockcore.LoopRenewed)
	if renews && (phase == fault.AfterRenew || phase == fault.BeforeRenew) {
		return p.RenewEvery
	}
	return cycle / 2
}
