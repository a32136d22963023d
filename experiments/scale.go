package experiments

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"time"

	"github.com/lockdrill/lockdrill/internal/figures"
)

// scales declares for every duration of an Experiment, by type and field, whether time_scale multiplies it; those of faults say it in a tag.
// A duration that is not declared here is a bug, and the tests say so.
var scales = map[string]bool{
	"Policy.TTL":        true,
	"Policy.RenewEvery": true,
	"Policy.OpTimeout":  true,
	"Policy.Drift":      true,
	"Policy.StopBudget": true,
	"Release.Timeout":   true,
	"Acquire.Timeout":   true,
	"Acquire.Budget":    true,
	"Backoff.Every":     true,
	"Backoff.Cap":       true,
	"Loop.Poll":         true,
	"Loop.Tick":         true,

	"Hold.P50":       true,
	"Hold.P99":       true,
	"Work.Redeliver": true,

	"Fault.At":     true,
	"Fault.For":    true,
	"Repeat.Every": true,

	"DurationLimits.Max":   true,
	"DurationLimits.P50":   true,
	"DurationLimits.P90":   true,
	"DurationLimits.P95":   true,
	"DurationLimits.P99":   true,
	"OverlapLimit.MaxTime": true,
	"BusyLimit.MaxTime":    true,
	"DebtLimits.Max":       true,
	"DebtLimits.Effective": true,
	"DebtLimits.Waiting":   true,

	"System.Restart":       false,
	"Kubernetes.Grace":     false,
	"Logs.MaxGap":          false,
	"SteadyState.For":      false,
	"SteadyState.Timeout":  false,
	"Metric.Every":         false,
	"ProbeSettings.Every":  false,
	"ProbeSettings.MaxGap": false,
	"RunLimits.MaxRun":     false,
}

// Scale gives e as it is run: everything of scales multiplied by e.TimeScale, rates divided by it. The result has TimeScale 1
// and says in Scaled what was done; scaled again it is the same. e is not changed and shares no memory with the result.
func Scale(e *Experiment) *Experiment {
	by := e.TimeScale
	if by <= 0 {
		panic(fmt.Sprintf("experiments: time scale %g: not an experiment that Load returned", by))
	}
	out := new(Experiment)
	copyScaled(reflect.ValueOf(out).Elem(), reflect.ValueOf(e).Elem(), by)
	for i := range out.System.Work {
		out.System.Work[i].Rate /= by
	}
	for i := range out.SLOs {
		if m := out.SLOs[i].Metric; m != nil && m.Rate != nil {
			*m.Rate /= by
		}
	}
	out.TimeScale = 1
	if e.Scaled == 0 {
		out.Scaled = by
	}
	return out
}

// copyScaled sets to to a deep copy of from, with its durations multiplied as declared.
func copyScaled(to, from reflect.Value, by float64) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			f := from.Type().Field(i)
			factor := by
			if durationIn(f.Type) && !scales[from.Type().Name()+"."+f.Name] && f.Tag.Get("scale") != "yes" {
				factor = 1
			}
			copyScaled(to.Field(i), from.Field(i), factor)
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyScaled(to.Elem(), from.Elem(), by)
		}
	case reflect.Interface:
		if !from.IsNil() {
			copied := reflect.New(from.Elem().Type().Elem())
			copyScaled(copied.Elem(), from.Elem().Elem(), by)
			to.Set(copied)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyScaled(to.Index(i), from.Index(i), by)
			}
		}
	case reflect.Map:
		to.Set(from)
		if !from.IsNil() {
			to.Set(reflect.ValueOf(maps.Clone(from.Interface().(map[string]string))))
		}
	default:
		to.Set(from)
		if from.Type() == durationType {
			to.SetInt(int64(math.Round(float64(from.Int()) * by)))
		}
	}
}

// durationIn reports whether t is a duration or points at one.
func durationIn(t reflect.Type) bool {
	return t == durationType || t.Kind() == reflect.Pointer && t.Elem() == durationType
}

// minOverhead is how many times a scaled timeout must exceed the p99 of what does not scale.
const minOverhead = 5

// CheckScale refuses a time scale at which a lock's op timeout or stop budget would be less than five times p99, the measured
// overhead that does not scale (round trips, timers): such a run would measure this machine and not the policy.
// e may be scaled already or not; at real time nothing is refused.
func CheckScale(e *Experiment, p99 time.Duration) error {
	scale := e.TimeScale
	if e.Scaled != 0 {
		scale = e.Scaled
	}
	if scale == 1 {
		return nil
	}
	if e.Scaled == 0 {
		e = Scale(e)
	}
	least := minOverhead * p99
	for _, l := range e.System.Locks {
		for _, t := range []struct {
			name  string
			value time.Duration
		}{{"op timeout", l.Policy.OpTimeout}, {"stop budget", l.Policy.StopBudget}} {
			if t.value > 0 && t.value < least {
				return fmt.Errorf("time_scale %g makes the %s of lock %s %s, under %d times the overhead that does not scale (p99 %s): use at least %g",
					scale, t.name, l.Name, figures.Spell(t.value), minOverhead, figures.Spell(p99.Round(100*time.Microsecond)), roundUp(scale*float64(least)/float64(t.value)))
			}
		}
	}
	return nil
}

// roundUp gives a scale in thousandths, so that the advice holds.
func roundUp(scale float64) float64 { return math.Ceil(scale*1000) / 1000 }
