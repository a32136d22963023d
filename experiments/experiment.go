// Package experiments is the vocabulary of lockdrill's YAML files: what is drilled, what is broken, what is watched and what
// is promised. It is pure, and the only reader of YAML in the project.
//
// Load gives a checked Experiment with its profiles resolved and all durations real; Scale gives the same experiment at its
// time scale. Its one invariant: an Experiment that Load returned has no problem that could be known without touching
// anything, and every problem of a bad file is reported at once with its place.
package experiments

import (
	"time"

	"github.com/lockdrill/lockdrill/lockcore"
)

// Experiment is one drill, resolved: profiles are expanded, defaults filled in. In a file a field HolderOf is spelled
// holder_of; the tag `file` names the exceptions, and forms.go the types that are spelled differently.
type Experiment struct {
	Name         string
	Description  string
	Environment  string // "local" is what the run started itself
	Redis        Redis
	System       System
	TimeScale    float64 // 1 = real; Scale multiplies by it
	SteadyState  SteadyState
	Faults       []Fault
	AllowOverlap [][2]string // pairs of fault ids
	Probes       Probes
	AbortWhen    []AbortCondition
	Limits       RunLimits
	SLOs         []SLO `file:"slos"`
	Seed         int64 // 0 = chosen by the run

	Scaled float64 `file:"-"` // what Scale has multiplied by; 0 = not scaled
}

// Redis says where the locks live.
type Redis struct {
	Mode RedisMode
	URL  string // external only
}

// RedisMode is auto (a redis-server on the PATH, else embedded), embedded, spawn or external.
type RedisMode string

const (
	RedisAuto     RedisMode = "auto"
	RedisEmbedded RedisMode = "embedded"
	RedisSpawn    RedisMode = "spawn"
	RedisExternal RedisMode = "external"
)

// System is what is drilled.
type System struct {
	Mode        string        // "embedded": replicas run the lock core, or Worker
	Replicas    int           //
	Worker      []string      // command of a foreign worker that speaks the worker protocol; empty = lockdrill's own
	Restart     time.Duration // a killed replica is replaced after so long (real time, not scaled)
	PolicySheet string        // file with a leader_election section, beside the experiment's; Load turns it into Locks and SLOs and empties it
	Locks       []Lock
	Work        []Work
}

// Lock is a named lock with its policy. A lock whose policy has a Loop is a leader loop with one key; any other lock is taken
// per job, with key = KeyPrefix + job id.
type Lock struct {
	Name      string
	Profile   string // name of the shipped profile it came from
	Key       string // loops
	KeyPrefix string // job locks
	Policy    lockcore.Policy

	Place Place `file:"-"` // for messages
}

// Place is where something stands in a file. Line and Column count from 1; 0 = nowhere.
type Place struct {
	File         string
	Line, Column int
}

// Loop reports whether the lock is a leader loop.
func (l *Lock) Loop() bool { return l.Policy.Loop != nil }

// Work is a stream of jobs under a job lock.
type Work struct {
	Lock      string
	Jobs      int
	Rate      float64       // jobs a second offered (real; Scale divides by the time scale)
	Hold      Hold          // length of a job's work
	Redeliver time.Duration // every job that is not finished is offered again so often
	Fenced    bool          // the ledger compares fences (default true)
	Strict    bool          // the ledger refuses a second terminal state (default false)
	Look      bool          // skip jobs that are already terminal (default true)
	Classes   []string      // optional job classes, dealt round robin
}

// Hold is a log-normal distribution of work durations by two of its quantiles; P99 == P50 is constant work.
type Hold struct {
	P50, P99 time.Duration
}

// SteadyState must hold before the first fault: a holder for each loop, renewals, jobs finishing, for For; else the run ends
// after Timeout as inconclusive.
type SteadyState struct {
	For     time.Duration // real time, not scaled
	Timeout time.Duration
}

// Fault is one fault of the timeline: a typed union. Exactly one of the kind pointers is set.
type Fault struct {
	ID     string
	At     time.Duration // after the steady state
	For    time.Duration // 0 for instants
	Repeat Repeat

	Kill          *Kill
	RenewFailures *RenewFailures
}

// Kind is the YAML name of the fault's kind.
func (f *Fault) Kind() string {
	switch {
	case f.Kill != nil:
		return "kill"
	case f.RenewFailures != nil:
		return "renew_failures"
	}
	return ""
}

// Lock is the name of the lock whose holder the fault is aimed at.
func (f *Fault) Lock() string {
	switch {
	case f.Kill != nil:
		return f.Kill.HolderOf
	case f.RenewFailures != nil:
		return f.RenewFailures.HolderOf
	}
	return ""
}

// Repeat says how many shots a fault has. Settled: the next shot waits until the last one has settled; else every Every.
type Repeat struct {
	Count   int // at least 1
	Settled bool
	Every   time.Duration
}

// Kill is SIGKILL of the replica that holds a key of the lock at the moment of firing.
type Kill struct {
	HolderOf string
	Phase    KillPhase
	Form     string // "crash"
}

// KillPhase is the moment within the lease at which a kill is fired.
type KillPhase string

const (
	KillAfterGrant  KillPhase = "after_grant"
	KillAfterRenew  KillPhase = "after_renew"
	KillBeforeRenew KillPhase = "before_renew"
	KillRandom      KillPhase = "random"
	KillAcquired    KillPhase = "acquired" // `on: acquired`: the next grant of any key of the lock, for locks too short to be held by chance
)

// RenewFailures makes renewals of the holder fail inside its lock store.
type RenewFailures struct {
	HolderOf string
	Mode     string // "error"
	Count    int    // so many renewals; 0 = all during For
}

// Probes says how evidence is gathered.
type Probes struct {
	LockKeys ProbeSettings
	Ledger   ProbeSettings
	Metrics  []Metric
}

// ProbeSettings is a probe's period and the longest tolerated stretch without a look. Neither is scaled.
type ProbeSettings struct {
	Every  time.Duration
	MaxGap time.Duration
}

// AbortCondition ends a run early; it is no SLO.
type AbortCondition struct {
	DuplicateTerminalStatesAbove *int
}

// RunLimits are caps that hold whatever the faults ask for. Neither is scaled.
type RunLimits struct {
	MaxKills int           // 0 = twice the declared count
	MaxRun   time.Duration // of the whole run
}

// SLO is one promise about one lock: exactly one measure is set.
type SLO struct {
	Lock string

	Takeover                *DurationLimits
	TickGap                 *DurationLimits
	DuplicateTerminalStates *CountLimit
	Abandonments            *CountLimit
	Abandonment             *AbandonmentLimits
	Overlap                 *OverlapLimit
	FenceLag                *DurationLimits // Max only
	UnownedWork             *DurationLimits // Max only: seconds in all
	Busy                    *BusyLimit
	Stranded                *CountLimit
	FenceRegressions        *CountLimit
	ReExecuted              *CountLimit
	LockDebt                *DebtLimits
	NotOwned                *NotOwnedLimits
	OrphanAcquires          *CountLimit
	Held                    *ClassLimits
	Wait                    *ClassLimits
	Metric                  *MetricLimit

	Line int `file:"-"` // of the file, for messages
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
	case s.OrphanAcquires != nil:
		return "orphan_acquires"
	case s.Held != nil:
		return "held"
	case s.Wait != nil:
		return "wait"
	case s.Metric != nil:
		return "metric"
	}
	return ""
}

// DurationLimits bounds a set of trials: the worst of them, quantiles of them, or both. Scale scales them.
type DurationLimits struct {
	Max, P50, P90, P95, P99 *time.Duration
}

// CountLimit bounds a count. MinJobs asks for so many jobs that finished, else the answer is inconclusive.
type CountLimit struct {
	Max     int
	MinJobs int
}

// AbandonmentLimits bounds how a lock was given up (measurement.md).
type AbandonmentLimits struct {
	Missed, Late, Needless *int
}

// OverlapLimit bounds overlap at one level: belief and work take MaxTime, effect takes MaxCount.
type OverlapLimit struct {
	Level    string // belief, work, effect
	MaxTime  time.Duration
	MaxCount int
}

// BusyLimit bounds refusals while the holder was dead or done.
type BusyLimit struct {
	MaxCount *int
	MaxTime  *time.Duration
}

// DebtLimits bounds for how long keys stay taken that nobody needs any more: the longest debt, the longest stretch of one in
// which somebody waited for the key, and the waiting for such keys in all (two who wait 3 s are 6 s).
type DebtLimits struct {
	Max, Effective *time.Duration
	Waiting        *time.Duration `file:"waiter_seconds"`
}

// NotOwnedLimits bounds the share, 0 to 1, of answered renewals and releases that were told: not yours.
type NotOwnedLimits struct {
	Renew, Release *float64
}

// ClassLimits bounds a distribution over the jobs of one class; "" = over all of the lock.
type ClassLimits struct {
	Class string
	DurationLimits
}
