package lockcore

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Validate refuses a policy that cannot be followed. The error joins every problem; each names its field.
// It says nothing about a policy that is merely unwise: that is what drills show.
func (p Policy) Validate() error {
	var v problems
	v.positive("TTL", p.TTL)
	v.notNegative("RenewEvery", p.RenewEvery)
	v.share("RenewJitter", p.RenewJitter)
	v.notNegative("Drift", p.Drift)
	v.notNegative("StopBudget", p.StopBudget)
	v.require(p.TTL <= 0 || p.Drift+p.StopBudget < p.TTL, "Drift + StopBudget", "leave nothing of the TTL")
	v.require(slices.Contains([]Class{Critical, Standard, Continuity, LegacyCount, LegacyWarn}, p.Class), "Class", "is %q", p.Class)
	v.require(p.MaxFailures >= 0, "MaxFailures", "is negative")
	if p.RenewEvery > 0 {
		v.positive("OpTimeout", p.OpTimeout)
		v.require(p.Class != LegacyCount || p.MaxFailures > 0, "MaxFailures", "is 0, but class legacy_count fences by nothing else")
	}
	v.release(p.Release)
	v.acquire(p.Acquire)
	if p.Loop != nil {
		v.loop(*p.Loop)
	}
	return errors.Join(v...)
}

type problems []error

func (v *problems) require(ok bool, field, format string, args ...any) {
	if !ok {
		*v = append(*v, fmt.Errorf("policy %s %s", field, fmt.Sprintf(format, args...)))
	}
}

func (v *problems) positive(field string, d time.Duration) {
	v.require(d > 0, field, "is %s, not above 0", d)
}

func (v *problems) notNegative(field string, d time.Duration) {
	v.require(d >= 0, field, "is %s, below 0", d)
}

func (v *problems) share(field string, f float64) {
	v.require(f >= 0 && f <= 1, field, "is %v, not a share between 0 and 1", f)
}

func (v *problems) release(r Release) {
	switch r.Mode {
	case ReleaseNone:
		return
	case ReleaseSingle:
	case ReleaseBoundedRetry:
		v.require(r.Attempts > 0, "Release.Attempts", "is %d, not above 0", r.Attempts)
		v.require(slices.Contains([]ReleaseRetry{"", RetryPaused, RetryAtOnce}, r.Retry), "Release.Retry", "is %q", r.Retry)
	default:
		v.require(false, "Release.Mode", "is %q", r.Mode)
		return
	}
	v.positive("Release.Timeout", r.Timeout)
	v.require(r.AfterAbandon == AfterAbandonSkip || r.AfterAbandon == AfterAbandonStopped, "Release.AfterAbandon", "is %q", r.AfterAbandon)
}

func (v *problems) acquire(a Acquire) {
	v.positive("Acquire.Timeout", a.Timeout)
	v.require(slices.Contains([]UndoMode{"", UndoTried, UndoNone}, a.Undo), "Acquire.Undo", "is %q", a.Undo)
	v.require(slices.Contains([]OnError{"", OnErrorAgain, OnErrorFail}, a.OnError), "Acquire.OnError", "is %q", a.OnError)
	v.require(slices.Contains([]LastTry{"", LastTryCut, LastTryWhole}, a.LastTry), "Acquire.LastTry", "is %q", a.LastTry)
	switch a.Mode {
	case AcquireTry:
		return
	case AcquireWait:
		v.positive("Acquire.Budget", a.Budget)
		v.positive("Acquire.Backoff.Every", a.Backoff.Every)
	default:
		v.require(false, "Acquire.Mode", "is %q", a.Mode)
		return
	}
	switch a.Backoff.Mode {
	case BackoffFixed:
	case BackoffDecorrelated, BackoffWake:
		v.require(a.Backoff.Cap >= a.Backoff.Every, "Acquire.Backoff.Cap", "is below Every")
	default:
		v.require(false, "Acquire.Backoff.Mode", "is %q", a.Backoff.Mode)
	}
}

func (v *problems) loop(l Loop) {
	v.positive("Loop.Poll", l.Poll)
	v.share("Loop.Jitter", l.Jitter)
	v.notNegative("Loop.Tick", l.Tick)
	v.require(slices.Contains([]LoopMode{LoopTTLHold, LoopExplicit, LoopRenewed}, l.Mode), "Loop.Mode", "is %q", l.Mode)
	v.require(slices.Contains([]LoopEffect{"", EffectBefore, EffectAfter}, l.Effect), "Loop.Effect", "is %q", l.Effect)
}
