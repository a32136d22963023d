package lockcore

import "time"

// Policy is how a lock behaves, as data. The zero value is not valid; profiles give complete ones. All durations are real
// (the time scale has been applied). In the tags, as in package experiments, `rule` says what a value must be like, and `scale` whether a
// time scale multiplies it.
type Policy struct {
	TTL         time.Duration `json:"ttl" rule:"required,positive" scale:"yes"`                                    // lease of an acquire and of each renewal
	RenewEvery  time.Duration `json:"renew_every" scale:"yes"`                                                     // time between renewals, below the TTL; 0s: never renewed
	RenewJitter float64       `json:"renew_jitter" rule:"max=1"`                                                   // share of renew_every by which each interval varies
	Class       Class         `json:"class" rule:"words=standard|legacy_count|critical|continuity|legacy_warn"`    // what makes the holder give up; default: standard
	MaxFailures int           `json:"max_failures" rule:"min=1,need=class:legacy_count|critical,need=renew_every"` // failures in a row after which legacy_count and critical give up
	OpTimeout   time.Duration `json:"op_timeout" rule:"positive" scale:"yes"`                                      // of one renewal; default: a fifth of the ttl, at most 2s
	Drift       time.Duration `json:"drift" scale:"yes"`                                                           // taken off every validity
	StopBudget  time.Duration `json:"stop_budget" scale:"yes"`                                                     // what the work needs to stop, taken off the validity
	Release     Release       `json:"release"`                                                                     // how it is given back; default: tried twice, or as a loop does
	Acquire     Acquire       `json:"acquire"`                                                                     // how a lock is sought; left out: one try
	Loop        *Loop         `json:"loop"`                                                                        // makes the lock a leader loop; left out: it is taken per job
}

// Class is the renewal class: what makes the holder give up.
type Class string

const (
	Critical    Class = "critical"     // N consecutive failures or the deadline, whichever is first
	Standard    Class = "standard"     // the deadline: validity end - stop budget; a definitive loss at once
	Continuity  Class = "continuity"   // never; UNOWNED is visible
	LegacyCount Class = "legacy_count" // N consecutive failures only, whatever their kind; release skipped afterwards
	LegacyWarn  Class = "legacy_warn"  // never
)

// Release says how a lock is given back.
type Release struct {
	Mode         ReleaseMode   `json:"mode" rule:"required,words=none|bounded_retry|single"`                                             // none: left to its TTL; single: tried once; bounded_retry: tried again
	Attempts     int           `json:"attempts" rule:"min=1,for=mode:bounded_retry,need=mode:bounded_retry"`                             // tries in all
	Timeout      time.Duration `json:"timeout" rule:"positive,for=mode:single|bounded_retry,need=mode:single|bounded_retry" scale:"yes"` // of one try
	Retry        ReleaseRetry  `json:"retry" rule:"words=at_once|paused,for=mode:bounded_retry"`                                         // after a tenth of the timeout (paused, the default), or at once
	AfterAbandon AfterAbandon  `json:"after_abandon" rule:"words=skip|if_work_stopped"`                                                  // whether an abandoned lock is released
}

// ReleaseRetry is paused (a tenth of the timeout: a refused connection deserves another moment) or at_once.
type ReleaseRetry string

const (
	RetryPaused ReleaseRetry = "paused"
	RetryAtOnce ReleaseRetry = "at_once"
)

// ReleaseMode is none (the key is left to its TTL), single, or bounded_retry.
type ReleaseMode string

const (
	ReleaseNone         ReleaseMode = "none"
	ReleaseSingle       ReleaseMode = "single"
	ReleaseBoundedRetry ReleaseMode = "bounded_retry"
)

// AfterAbandon says whether an abandoned lock is released.
type AfterAbandon string

const (
	AfterAbandonSkip    AfterAbandon = "skip"
	AfterAbandonStopped AfterAbandon = "if_work_stopped"
)

// Acquire says how a lock is sought.
type Acquire struct {
	Mode    AcquireMode   `json:"mode" rule:"required,words=try|wait"`                             // try: once; wait: until the budget is spent
	Timeout time.Duration `json:"timeout" rule:"required,positive" scale:"yes"`                    // of one try
	Budget  time.Duration `json:"budget" rule:"positive,for=mode:wait,need=mode:wait" scale:"yes"` // give up after so long
	Backoff Backoff       `json:"backoff" rule:"for=mode:wait,need=mode:wait"`                     // the pause between tries
	Undo    UndoMode      `json:"undo" rule:"words=tried|none"`                                    // tried: an acquire without an answer is given back, the default; none: its key is left to the TTL
	OnError OnError       `json:"on_error" rule:"words=again|fail,for=mode:wait"`                  // again: a try that fails is followed by the next, the default; fail: it is the answer
	LastTry LastTry       `json:"last_try" rule:"words=cut|whole,for=mode:wait"`                   // cut: the last try ends with the budget, the default; whole: it has its timeout
}

// UndoMode says what becomes of an acquire that may have taken effect unseen: tried (it is given back, with a few calls), or none (the
// key stays until its TTL).
type UndoMode string

const (
	UndoTried UndoMode = "tried"
	UndoNone  UndoMode = "none"
)

// OnError says what a bounded wait makes of a try that fails, or has no answer: again (it goes on), or fail (that is its answer).
type OnError string

const (
	OnErrorAgain OnError = "again"
	OnErrorFail  OnError = "fail"
)

// LastTry says how long a try of a bounded wait may take: cut (until the end of the budget), or whole (its own timeout: it only begins
// within the budget).
type LastTry string

const (
	LastTryCut   LastTry = "cut"
	LastTryWhole LastTry = "whole"
)

// AcquireMode is try (once) or wait (until the budget is spent).
type AcquireMode string

const (
	AcquireTry  AcquireMode = "try"
	AcquireWait AcquireMode = "wait"
)

// Backoff is the pause between the tries of a bounded wait. A try is never later than the PTTL that the store named.
type Backoff struct {
	Mode  BackoffMode   `json:"mode" rule:"required,words=fixed|decorrelated|wake"` // fixed: always every; decorrelated: random up to cap; wake: in turn
	Every time.Duration `json:"every" rule:"required,positive" scale:"yes"`         // fixed: the pause; decorrelated, wake: the smallest
	Cap   time.Duration `json:"cap" rule:"positive" scale:"yes"`                    // decorrelated, wake: the largest
}

// BackoffMode is fixed, decorrelated (jitter: random between Every and three times the last pause, at most Cap), or wake: the
// store tells who stands in line that the turn has come, and Cap is how long nobody asks meanwhile; a store without a line is
// asked as with decorrelated.
type BackoffMode string

const (
	BackoffFixed        BackoffMode = "fixed"
	BackoffDecorrelated BackoffMode = "decorrelated"
	BackoffWake         BackoffMode = "wake"
)

// Loop is a leader loop: a tick of work under the lock, every poll.
type Loop struct {
	Poll   time.Duration `json:"poll" rule:"required,positive" scale:"yes"`            // between two ticks
	Jitter float64       `json:"jitter" rule:"max=1"`                                  // share of poll by which it varies
	Mode   LoopMode      `json:"mode" rule:"required,words=ttl_hold|renewed|explicit"` // after a tick: ttl_hold leaves the lock to its TTL, renewed keeps it, explicit releases it
	Tick   time.Duration `json:"tick" scale:"yes"`                                     // length of one tick's work
	Effect LoopEffect    `json:"effect" rule:"words=before|after"`                     // whether a tick writes before its work (the default) or after
}

// LoopEffect says when a tick writes its effect: before its work, where the lock was just taken or looked at, or after it.
type LoopEffect string

const (
	EffectBefore LoopEffect = "before"
	EffectAfter  LoopEffect = "after"
)

// LoopMode says what happens to the lock after a tick.
type LoopMode string

const (
	LoopTTLHold  LoopMode = "ttl_hold" // left to its TTL; renewed (if at all) only during the tick
	LoopExplicit LoopMode = "explicit" // released after each tick
	LoopRenewed  LoopMode = "renewed"  // kept and renewed between ticks until death or loss
)
