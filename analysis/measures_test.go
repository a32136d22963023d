package analysis

import (
	"reflect"
	"testing"

	"github.com/lockdrill/lockdrill/experiments"
)

// Every promise that a file can make has its row in the table, and the table has no others.
func TestEveryPromiseHasAMeasure(t *testing.T) {
	table := measures()
	of := reflect.TypeFor[experiments.SLO]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() != reflect.Pointer {
			continue
		}
		var s experiments.SLO
		reflect.ValueOf(&s).Elem().Field(i).Set(reflect.New(of.Field(i).Type.Elem()))
		if table[s.Measure()] == nil {
			t.Errorf("the promise %s (measure %q) has no row in the table of measures", of.Field(i).Name, s.Measure())
		}
		delete(table, s.Measure())
	}
	for name := range table {
		t.Errorf("no promise of a file is about %q", name)
	}
}
