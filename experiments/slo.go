package experiments

import "time"

// SLO is one promise about one lock, or about alerts: exactly one measure is set. Under expect it is what Fault must bring about for the
// drill to mean anything, counted for each confirmed shot of it, at the keys that it struck, until the next fault strikes them.
//
// A measure is one line: the type has its figures, their unit and whether quantiles are limited too, and asks says of what it is (loops,
// jobs, rolling restarts, the drill as a whole), or that it may be negative (signed). Checks and limits follow from that line.
type SLO struct {
	Lock  string `rule:"required,unless=alert"` // whose promise it is
	Fault string `rule:"ref=fault"`             // of expect and alerts: the fault; may be left out if there is one

	Takeover                *DurationLimits       // from the fault to the successor's first accepted effect
	TickGap                 *DurationLimits       `asks:"loops"` // from the last tick before the fault on; without a fault, in the whole watch
	DuplicateTerminalStates *CountLimit           `asks:"jobs"`  // second terminal states of jobs
	Abandonments            *CountLimit           // locks that were given up
	Abandonment             *AbandonmentLimits    // how locks were given up: too late, or without need
	Overlap                 *OverlapLimit         // two at once in one lock
	FenceLag                *Bound[time.Duration] `asks:"signed"` // work stop minus validity end; negative: in time
	UnownedWork             *Bound[time.Duration] // work past the lease end, in all
	Busy                    *BusyLimit            // acquires refused while the holder was dead or done
	Stranded                *CountLimit           `asks:"jobs"` // jobs without a terminal state at the end
	FenceRegressions        *CountLimit           // grants whose fence is not above an earlier one
	ReExecuted              *CountLimit           `asks:"jobs"` // executions of a job that had been executed
	LockDebt                *DebtLimits           // from the end of the work until the key is free
	NotOwned                *NotOwnedLimits       // renewals and releases answered: not yours
	FailedReleases          *FailedReleasesLimits // releases that failed, and leases left to their TTL
	OrphanAcquires          *CountLimit           // acquires that took effect and were not used
	ForeignReleases         *CountLimit           // releases of another's key
	ForeignRenewals         *CountLimit           // renewals of another's key
	StaleWrites             *CountLimit           // writes after one of a later holder
	DuplicateEpochs         *CountLimit           // grants of a token that had been granted before
	Vanished                *CountLimit           // keys that ended before their lease, and were not given back
	LossToFence             *Bound[time.Duration] // time for which a holder relied on a lost key
	Leaderless              *Bound[time.Duration] `rule:"for=@observed" asks:"loops"` // time without a leader, in all
	Blocked                 *Bound[time.Duration] // time after its work in which a worker was still giving its key back
	Held                    *ClassLimits          // how long the lock was held
	Wait                    *ClassLimits          `asks:"jobs"`    // how long jobs waited for the lock
	Rolling                 *RollingLimits        `asks:"rolling"` // cost of a rolling restart
	Metric                  *MetricLimit          `asks:"whole"`   // a number of probes.metrics
	Logs                    *LogLimit             `asks:"whole"`   // lines that match a pattern
	Alert                   *string               // name of an alert of probes.alerts that must fire, and go away; of silent: a regular expression
	AlertLimit

	Place Place `file:"-"` // of the row, for messages
}

// StandsIn keeps the place of the row.
func (s *SLO) StandsIn(file string, line, column int) { s.Place = Place{file, line, column} }

// Bound is what one figure must be: each that is set is judged by itself. AtMost and AtLeast are shares of what lock Of of the same run
// measured. A field with the rule "shorthand" may be a bare value in a file: that is its Max.
type Bound[T int | float64 | time.Duration] struct {
	Max     *T       `rule:"signed" scale:"yes"` // at most this
	Min     *T       `rule:"signed" scale:"yes"` // at least this
	Exactly *T       `rule:"signed" scale:"yes"` // just this
	AtMost  *float64 `rule:"positive,max=1000"`  // at most this share of the other lock's
	AtLeast *float64 `rule:"positive,max=1000"`  // at least this share of the other lock's
	Of      string   // the other lock
}

// AtMost is the bound of a figure from above.
func AtMost[T int | float64 | time.Duration](limit T) *Bound[T] { return &Bound[T]{Max: &limit} }

// DurationLimits bounds a set of trials: the worst of them (Max), the least (Min), quantiles, or several of these. Scale scales them.
type DurationLimits struct {
	Bound[time.Duration]
	P50, P90, P95, P99 *time.Duration `scale:"yes"` // at most this percentile
}

// Within bounds the worst of a set of trials.
func Within(max time.Duration) *DurationLimits { return &DurationLimits{Bound: *AtMost(max)} }

// CountLimit bounds a count. MinJobs asks for so many jobs that finished, else the answer is inconclusive.
type CountLimit struct {
	Bound[int]
	MinJobs int `rule:"min=1"` // fewer finished jobs: inconclusive
}

// AbandonmentLimits bounds how a lock was given up (measurement.md).
type AbandonmentLimits struct {
	Missed   *Bound[int] `rule:"shorthand"` // due, and not given up
	Late     *Bound[int] `rule:"shorthand"` // given up after the end of the validity
	Needless *Bound[int] `rule:"shorthand"` // given up although the lease was valid
}

// OverlapLimit bounds overlap at one level: belief, work and lease are a time, effect is a count.
type OverlapLimit struct {
	Level string // belief, work, lease, effect
	Time  Bound[time.Duration]
	Count Bound[int]
}

// BusyLimit bounds refusals while the holder was dead or done: how many there were, over how long, and how long each of them waited.
type BusyLimit struct {
	Count *Bound[int]           `rule:"shorthand"`
	Time  *Bound[time.Duration] `rule:"shorthand"`
	Each  *Bound[time.Duration] `rule:"shorthand"`
}

// RollingLimits bounds what one rolling restart costs at a leader loop: the worst one counts.
type RollingLimits struct {
	Handovers     *Bound[int]           `rule:"shorthand"` // how often another replica became the leader
	WithoutLeader *Bound[time.Duration] `rule:"shorthand"` // time without a leader, in all
	Longest       *Bound[time.Duration] `rule:"shorthand"` // longest stretch without a leader
}

// DebtLimits bounds for how long keys stay taken that nobody needs any more: the longest debt, all of them together, the longest stretch
// of one in which somebody waited for the key, and the waiting for such keys in all (two who wait 3 s are 6 s).
type DebtLimits struct {
	Max       *Bound[time.Duration] `rule:"shorthand"`                       // the longest debt
	Effective *Bound[time.Duration] `rule:"shorthand"`                       // longest stretch in which somebody waited
	Total     *Bound[time.Duration] `rule:"shorthand"`                       // all debts together
	Waiting   *Bound[time.Duration] `file:"waiter_seconds" rule:"shorthand"` // all waiting: two who wait 3s are 6s
}

// NotOwnedLimits bounds the share, 0 to 1, of answered renewals and releases that were told: not yours.
type NotOwnedLimits struct {
	Renew   *Bound[float64] `rule:"shorthand,max=1"` // share of answered renewals
	Release *Bound[float64] `rule:"shorthand,max=1"` // share of answered releases
}

// FailedReleasesLimits bounds the share, 0 to 1, of release calls that failed or were not answered, and that of leases of which no such
// call succeeded: they are left to their TTL.
type FailedReleasesLimits struct {
	Calls   *Bound[float64] `rule:"shorthand,max=1"` // share of release calls that failed
	GivenUp *Bound[float64] `rule:"shorthand,max=1"` // share of leases that no release call ended
}

// ClassLimits bounds a distribution over the jobs of one class; "" = over all of the lock.
type ClassLimits struct {
	Class string `rule:"ident"` // of jobs; default: all
	DurationLimits
}
