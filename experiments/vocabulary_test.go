package experiments

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

func good(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDefaults(t *testing.T) {
	e, err := Load("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	if e.Environment != "local" || e.Redis.Mode != RedisAuto || e.TimeScale != 1 || e.Seed != 0 || e.System.Restart != 500*ms ||
		e.SteadyState != (SteadyState{For: 2 * time.Second, Timeout: 30 * time.Second}) ||
		e.Probes.LockKeys != (ProbeSettings{Every: 5 * ms, MaxGap: 50 * ms}) || e.Probes.Ledger != (ProbeSettings{Every: 10 * ms, MaxGap: 50 * ms}) ||
		!reflect.DeepEqual(e.Limits, RunLimits{MaxKills: 2, MaxRun: 10 * time.Minute}) {
		t.Errorf("defaults: %+v", e)
	}
	if w := e.System.Work[0]; !w.Fenced || !w.Look || w.Strict {
		t.Errorf("work defaults: %+v", w)
	}
	if f := e.Faults[0]; f.Repeat != (Repeat{Count: 1, Settled: true}) || !reflect.DeepEqual(f.Spec, &fault.Kill{HolderOf: "leader", Phase: fault.RandomPhase, How: fault.Crash}) {
		t.Errorf("fault defaults: %+v %+v", f, f.Spec)
	}
}

// TestUnions: each kind of fault and each measure is named by Kind, Lock and Measure; none is forgotten when one is added.
func TestUnions(t *testing.T) {
	for _, kind := range fault.Kinds() {
		f, lock := Fault{Spec: fault.New(kind)}, ""
		if holder := reflect.ValueOf(f.Spec).Elem().FieldByName("HolderOf"); holder.IsValid() {
			lock = "a-lock"
			holder.SetString(lock)
		}
		if f.Kind() != kind || f.Lock() != lock || (lock == "") != (f.Traits().AtStore || f.Traits().Rolls) {
			t.Errorf("kind %q of lock %q, want %q of %q", f.Kind(), f.Lock(), kind, lock)
		}
	}
	for _, f := range vocabulary.Fields(reflect.TypeFor[SLO]()) {
		if f.Type.Kind() != reflect.Pointer {
			continue
		}
		var slo SLO
		reflect.ValueOf(&slo).Elem().FieldByIndex(f.Index).Set(reflect.New(f.Type.Elem()))
		if slo.Measure() != f.Name {
			t.Errorf("measure %q, want %q", slo.Measure(), f.Name)
		}
	}
}

func TestDigest(t *testing.T) {
	if got := Digest(nil); got != "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("digest of nothing is %s", got)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	long := strings.Repeat("x", 500)
	_, err := Parse("long.yaml", []byte(strings.Replace(good(t), "name: base", "name: "+long, 1)))
	if err == nil {
		t.Fatal("a name of 500 letters was taken")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.Contains(line, "is no name") && len(line) > 160+20 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
}
