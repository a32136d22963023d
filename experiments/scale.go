package experiments

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// Scale gives e as it is run: the durations whose tag is `scale:"yes"` multiplied by e.TimeScale, rates divided by it. The result has
// TimeScale 1 and says in Scaled what was done; scaled again it is the same. e is not changed and shares no memory with the result.
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
			for _, limit := range []*float64{m.Rate.Max, m.Rate.Min, m.Rate.Exactly} {
				if limit != nil {
					*limit /= by
				}
			}
		}
	}
	out.TimeScale = 1
	if e.Scaled == 0 {
		out.Scaled = by
	}
	return out
}

// copyScaled sets to to a deep copy of from, with its durations multiplied as their tags say.
func copyScaled(to, from reflect.Value, by float64) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			f := from.Type().Field(i)
			factor := by
			if durationIn(f.Type) && f.Tag.Get("scale") != "yes" {
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
			to.SetInt(int64(fault.Scaled(time.Duration(from.Int()), by)))
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
// e is scaled; at real time nothing is refused.
func CheckScale(e *Experiment, p99 time.Duration) error {
	scale := cmp.Or(e.Scaled, 1)
	if scale == 1 {
		return nil
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
