package analysis

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
)

// What a file is refused for is what a judgement would lack: a fault that the measure is counted from, or one that struck the lock.
func TestWhatMeasuresRestOnIsSaidOnce(t *testing.T) {
	table := measures()
	for name, m := range table {
		if table[name+ofWatch] != nil { // which answers where there is no fault
			continue
		}
		measure, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(name, bySignal), ofWatch), ".")
		onFault, onVictim := experiments.Rests(measure)
		if struck := m.needs&needStruck != 0 || m.kills; struck != onVictim || onFault != (m.kills || measure == "rolling" || measure == "alert") {
			t.Errorf("%s: a file is refused by (%t, %t), and the table says kills %t, struck %t", name, onFault, onVictim, m.kills, struck)
		}
	}
}

// Every question that a file can ask has its row in the table with its words, and the table has no others.
func TestEveryQuestionHasAMeasure(t *testing.T) {
	table := measures()
	known := map[string]bool{}
	asked := func(l *experiments.Limit) {
		name := rowFor(table, l)
		m := table[name]
		switch {
		case m == nil:
			t.Errorf("%s has no row in the table of measures", l.Figure())
		case m.unit == "" || m.sees == nil:
			t.Errorf("%s: %+v", l.Figure(), m)
		}
		known[name], known[name+bySignal], known[name+ofWatch] = true, true, true // where the lock has a signal for it, and where no fault strikes
	}
	of := reflect.TypeFor[experiments.SLO]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() != reflect.Pointer {
			continue
		}
		for _, s := range everyPart(of.Field(i)) {
			limits := s.Limits()
			if len(limits) == 0 {
				t.Errorf("%s asks nothing", of.Field(i).Name)
			}
			for k := range limits {
				asked(&limits[k])
			}
		}
	}
	for name := range table {
		if !known[name] {
			t.Errorf("no promise of a file is about %q", name)
		}
	}
}

// everyPart are promises that ask, between them, everything that a field can ask.
func everyPart(f reflect.StructField) (all []experiments.SLO) {
	one := experiments.AtMost[float64]
	switch f.Name {
	case "Metric":
		for _, l := range []experiments.MetricLimit{{Delta: one(1)}, {Rate: one(1)}, {Max: one(1)}} {
			l.Name = "errors"
			all = append(all, experiments.SLO{Metric: &l})
		}
		return all
	case "Overlap":
		for _, level := range []string{"belief", "work", "lease", "effect"} {
			all = append(all, experiments.SLO{Overlap: &experiments.OverlapLimit{Level: level, Time: *experiments.AtMost(time.Second), Count: *experiments.AtMost(1)}})
		}
		return all
	case "Alert":
		name := "LockLost"
		return []experiments.SLO{{Alert: &name}, {Alert: &name, AlertLimit: experiments.AlertLimit{Silent: true}}}
	}
	var s experiments.SLO
	reflect.ValueOf(&s).Elem().FieldByIndex(f.Index).Set(allocated(f.Type))
	return append(all, s)
}

// allocated is a pointer of that type with everything set that it leads to.
func allocated(of reflect.Type) reflect.Value {
	p := reflect.New(of.Elem())
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Pointer:
				f.Set(allocated(f.Type()))
			case reflect.Struct:
				fill(f)
			}
		}
	}
	if of.Elem().Kind() == reflect.Struct {
		fill(p.Elem())
	}
	return p
}
