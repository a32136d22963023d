package experiments

import (
	"reflect"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// TestExamplesSayEverything: each field of the vocabulary is used in one of these files.
func TestExamplesSayEverything(t *testing.T) {
	used, all := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"testdata/everything.yaml", "testdata/faults.yaml", "testdata/external.yaml", "testdata/pods.yaml", "testdata/observed.yaml", "testdata/effects.yaml", "testdata/processes.yaml",
		"testdata/cluster.yaml", "testdata/sentinel.yaml", "testdata/holders.yaml", "testdata/etcd.yaml", "testdata/postgres.yaml", "testdata/lease.yaml", "testdata/etcd-external.yaml"} {
		e, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		usedFields(reflect.ValueOf(e).Elem(), used)
	}
	allFields(reflect.TypeFor[Experiment](), all)
	for _, kind := range fault.Kinds() {
		allFields(reflect.TypeOf(fault.New(kind)), all)
	}
	for name := range all {
		elsewhere := name == "System.PolicySheet" || name == "PolicySheet.LeaderElection" || name == "System.Worker" || // these need files
			name == "HolderNames.Label" || name == "HolderNames.Annotation" || // or exclude what is there
			name == "Store.URL" || name == "Store.UsernameEnv" || name == "Store.PasswordEnv" || // no kind can be external yet
			name == "Processes.PIDFiles" || name == "Processes.Unit" || name == "Processes.Cgroup" || name == "Processes.Command"
		if !used[name] && !elsewhere {
			t.Errorf("%s is in no example", name)
		}
	}
}

func usedFields(v reflect.Value, used map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			usedFields(v.Elem(), used)
		}
	case reflect.Slice:
		for i := range v.Len() {
			usedFields(v.Index(i), used)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				used[v.Type().Name()+"."+v.Type().Field(i).Name] = true
			}
			usedFields(v.Field(i), used)
		}
	}
}

func allFields(t reflect.Type, all map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		allFields(t.Elem(), all)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" && f.Tag.Get("file") != "-" {
				all[t.Name()+"."+f.Name] = true
				allFields(f.Type, all)
			}
		}
	}
}
