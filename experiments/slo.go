package experiments

import "time"

// SLO is one promise about one lock: exactly one measure is set.
type SLO struct {
	Lock string `rule:"required"`

	Takeover                *DurationLimits
	TickGap                 *DurationLimits
	DuplicateTerminalStates *CountLimit
	Abandonments            *CountLimit
	Abandonment             *AbandonmentLimits
	Overlap                 *OverlapLimit
	FenceLag                *Bound[time.Duration] // may be negative: early
	UnownedWork             *Bound[time.Duration] // seconds in all
	Busy                    *BusyLimit
	Stranded                *CountLimit
	FenceRegressions        *CountLimit
	ReExecuted              *CountLimit
	LockDebt                *DebtLimits
	NotOwned                *NotOwnedLimits
	FailedReleases          *FailedReleasesLimits
	OrphanAcquires          *CountLimit
	ForeignReleases         *CountLimit
	ForeignRenewals         *CountLimit
	DuplicateEpochs         *CountLimit
	LossToFence             *Bound[time.Duration]
	Blocked                 *Bound[time.Duration]
	Held                    *ClassLimits
	Wait                    *ClassLimits
	Metric                  *MetricLimit
	Logs                    *LogLimit

	Line int `file:"-"` // of the file, for messages
}

// Expectation is what a fault must bring about for the drill to mean anything: an SLO's words, counted for each confirmed shot of Fault,
// at the keys that it struck, until the next fault strikes them.
type Expectation struct {
	SLO
	Fault string // id; may be left out in a file with one fault
}

// Measure is the YAML name of the measure that the SLO bounds.
func (s *SLO) Measure() string {
	switch {
	case s.Takeover != nil:
		return "takeover"
	case s.TickGap != nil:
		return "tick_gap"
	case s.DuplicateTerminalStates != nil:
		return "duplicate_terminal_states"
	case s.Abandonments != nil:
		return "abandonments"
	case s.Abandonment != nil:
		return "abandonment"
	case s.Overlap != nil:
		return "overlap"
	case s.FenceLag != nil:
		return "fence_lag"
	case s.UnownedWork != nil:
		return "unowned_work"
	case s.Busy != nil:
		return "busy"
	case s.Stranded != nil:
		return "stranded"
	case s.FenceRegressions != nil:
		return "fence_regressions"
	case s.ReExecuted != nil:
		return "re_executed"
	case s.LockDebt != nil:
		return "lock_debt"
	case s.NotOwned != nil:
		return "not_owned"
	case s.FailedReleases != nil:
		return "failed_releases"
	case s.OrphanAcquires != nil:
		return "orphan_acquires"
	case s.ForeignReleases != nil:
		return "foreign_releases"
	case s.ForeignRenewals != nil:
		return "foreign_renewals"
	case s.DuplicateEpochs != nil:
		return "duplicate_epochs"
	case s.LossToFence != nil:
		return "loss_to_fence"
	case s.Blocked != nil:
		return "blocked"
	case s.Held != nil:
		return "held"
	case s.Wait != nil:
		return "wait"
	case s.Metric != nil:
		return "metric"
	case s.Logs != nil:
		return "logs"
	}
	return ""
}

// Bound is what one figure must be: each that is set is judged by itself. AtMost and AtLeast are shares of what lock Of of the same run
// measured. A field with the rule "brief" may be a bare value in a file: that is its Max.
type Bound[T int | float64 | time.Duration] struct {
	Max, Min, Exactly *T       `rule:"signed" scale:"yes"`
	AtMost, AtLeast   *float64 `rule:"positive,max=1000"` // of what Of measured
	Of                string   // a lock
}

// AtMost is the bound of a figure from above.
func AtMost[T int | float64 | time.Duration](limit T) *Bound[T] { return &Bound[T]{Max: &limit} }

// AtLeast is the bound of a figure from below.
func AtLeast[T int | float64 | time.Duration](limit T) *Bound[T] { return &Bound[T]{Min: &limit} }

// DurationLimits bounds a set of trials: the worst of them (Max), the least (Min), quantiles, or several of these. Scale scales them.
type DurationLimits struct {
	Bound[time.Duration]
	P50, P90, P95, P99 *time.Duration `scale:"yes"`
}

// Within bounds the worst of a set of trials.
func Within(max time.Duration) *DurationLimits { return &DurationLimits{Bound: *AtMost(max)} }

// CountLimit bounds a count. MinJobs asks for so many jobs that finished, else the answer is inconclusive.
type CountLimit struct {
	Bound[int]
	MinJobs int `rule:"min=1"`
}

// AbandonmentLimits bounds how a lock was given up (measurement.md).
type AbandonmentLimits struct {
	Missed, Late, Needless *Bound[int] `rule:"brief"`
}

// OverlapLimit bounds overlap at one level: belief and work are a time, effect is a count.
type OverlapLimit struct {
	Level string // belief, work, effect
	Time  Bound[time.Duration]
	Count Bound[int]
}

// BusyLimit bounds refusals while the holder was dead or done: how many there were, over how long, and how long each of them waited.
type BusyLimit struct {
	Count *Bound[int]           `rule:"brief"`
	Time  *Bound[time.Duration] `rule:"brief"`
	Each  *Bound[time.Duration] `rule:"brief"`
}

// DebtLimits bounds for how long keys stay taken that nobody needs any more: the longest debt, all of them together, the longest stretch
// of one in which somebody waited for the key, and the waiting for such keys in all (two who wait 3 s are 6 s).
type DebtLimits struct {
	Max, Effective *Bound[time.Duration] `rule:"brief"`
	Total          *Bound[time.Duration] `rule:"brief"`
	Waiting        *Bound[time.Duration] `file:"waiter_seconds" rule:"brief"`
}

// NotOwnedLimits bounds the share, 0 to 1, of answered renewals and releases that were told: not yours.
type NotOwnedLimits struct {
	Renew, Release *Bound[float64] `rule:"brief,max=1"`
}

// FailedReleasesLimits bounds the share, 0 to 1, of release calls that failed or were not answered, and that of leases of which no such
// call succeeded: they are left to their TTL.
type FailedReleasesLimits struct {
	Calls, GivenUp *Bound[float64] `rule:"brief,max=1"`
}

// ClassLimits bounds a distribution over the jobs of one class; "" = over all of the lock.
type ClassLimits struct {
	Class string `rule:"ident"`
	DurationLimits
}
