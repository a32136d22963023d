package vocab

import (
	"maps"
	"math"
	"reflect"
	"time"
)

// Scaled is how long a duration of a file takes at a time scale.
func Scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(math.Round(float64(d) * by))
}

// Scale sets to to a deep copy of from, both pointers to one type: durations whose tag is `scale:"yes"` are multiplied by by, and numbers
// whose tag is `scale:"inverse"`, and those of a section with that tag, are divided by it.
func Scale(to, from any, by float64) {
	scaler{time: by, rate: 1}.copy(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

// scaler is what the durations and the numbers of a section are multiplied with, and divided by.
type scaler struct{ time, rate float64 }

func (s scaler) copy(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).Name == "_" {
				continue
			}
			s.of(from.Type().Field(i)).copy(to.Field(i), from.Field(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			s.copy(to.Elem(), from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			copied := reflect.New(from.Elem().Type().Elem())
			s.copy(copied.Elem(), from.Elem().Elem())
			to.Set(copied)
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				s.copy(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		to.Set(from)
		if !from.IsNil() {
			to.Set(reflect.ValueOf(maps.Clone(from.Interface().(map[string]string))))
		}
	case reflect.Float64:
		to.SetFloat(from.Float() / s.rate)
	default:
		to.Set(from)
		if from.Type() == duration {
			to.SetInt(int64(Scaled(time.Duration(from.Int()), s.time)))
		}
	}
}

// of is how a field is scaled.
func (s scaler) of(f reflect.StructField) scaler {
	tag := f.Tag.Get("scale")
	switch {
	case tag == "inverse":
		return scaler{time: s.time, rate: s.time}
	case isOrPoints(f.Type, duration) && tag != "yes":
		s.time = 1
	case isOrPoints(f.Type, reflect.TypeFor[float64]()) && tag != "yes":
		s.rate = 1
	}
	return s
}

// isOrPoints reports whether t is the other type or points at one.
func isOrPoints(t, other reflect.Type) bool {
	return t == other || t.Kind() == reflect.Pointer && t.Elem() == other
}
