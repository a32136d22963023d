package experiments

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// TestEveryDurationIsDeclared: each time.Duration that an Experiment can hold says in its tag whether it is scaled.
func TestEveryDurationIsDeclared(t *testing.T) {
	n := eachDuration(t, reflect.TypeFor[Experiment]())
	for _, kind := range fault.Kinds() {
		n += eachDuration(t, reflect.TypeOf(fault.New(kind)))
	}
	if n < 40 {
		t.Errorf("%d durations found", n)
	}
}

func eachDuration(t *testing.T, in reflect.Type) (n int) {
	switch in.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return eachDuration(t, in.Elem())
	case reflect.Struct:
		for i := range in.NumField() {
			f := in.Field(i)
			if duration := reflect.TypeFor[time.Duration](); f.Type != duration && (f.Type.Kind() != reflect.Pointer || f.Type.Elem() != duration) {
				n += eachDuration(t, f.Type)
				continue
			}
			if n++; f.Tag.Get("scale") != "yes" && f.Tag.Get("scale") != "no" {
				t.Errorf("%s.%s is neither declared scaled nor declared unscaled: give it a tag", in.Name(), f.Name)
			}
		}
	}
	return n
}

func TestScale(t *testing.T) {
	e, err := Load("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	s := Scale(e)

	second := time.Second
	for _, c := range []struct {
		what      string
		got, want time.Duration
	}{
		{"ttl", s.System.Locks[0].Policy.TTL, 3 * second},
		{"renew_every", s.System.Locks[0].Policy.RenewEvery, second},
		{"op_timeout", s.System.Locks[0].Policy.OpTimeout, 100 * time.Millisecond},
		{"release timeout", s.System.Locks[0].Policy.Release.Timeout, 100 * time.Millisecond},
		{"poll", s.System.Locks[1].Policy.Loop.Poll, 1500 * time.Millisecond},
		{"hold", s.System.Work[0].Hold.P99, 900 * time.Millisecond},
		{"redeliver", s.System.Work[0].Redeliver, 1500 * time.Millisecond},
		{"fault at", s.Faults[0].At, 500 * time.Millisecond},
		{"fault for", s.Faults[1].For, 3 * second},
		{"repeat every", s.Faults[2].Repeat.Every, 10 * second},
		{"takeover", *s.SLOs[0].Takeover.Max, 4750 * time.Millisecond},
		{"overlap", *s.SLOs[4].Overlap.Time.Max, 50 * time.Millisecond},
		{"restart", s.System.Restart, 500 * time.Millisecond},
		{"steady state", s.SteadyState.For, 5 * second},
		{"probe", s.Probes.LockKeys.Every, 5 * time.Millisecond},
		{"max_run", s.Limits.MaxRun, 10 * time.Minute},
	} {
		if c.got != c.want {
			t.Errorf("%s is %s, want %s", c.what, c.got, c.want)
		}
	}
	if s.System.Work[0].Rate != 400 || s.TimeScale != 1 || s.Scaled != 0.05 {
		t.Errorf("rate %g, time scale %g, scaled %g", s.System.Work[0].Rate, s.TimeScale, s.Scaled)
	}
	limit := func(e *Experiment) *MetricLimit {
		return e.SLOs[slices.IndexFunc(e.SLOs, func(s SLO) bool { return s.Metric != nil && s.Metric.Rate != nil })].Metric
	}
	if was, is := *limit(e).Rate, *limit(s).Rate; *is.Max != 20000 || *was.Max != 1000 || *is.Min != 20 || *was.Min != 1 {
		t.Errorf("a rate of %g to %g became %g to %g, want 20 to 20000 out of 1 to 1000", *was.Min, *was.Max, *is.Min, *is.Max)
	}
	if again := Scale(s); !reflect.DeepEqual(again, s) {
		t.Error("scaled twice it is not the same")
	}
	// Writing to the result never reaches the original.
	s.System.Locks[1].Policy.Loop.Poll, s.Faults[0].Spec.(*fault.Kill).HolderOf, *s.SLOs[0].Takeover.Max = 1, "other", 1
	s.AllowOverlap[0][0], s.Probes.Metrics[0].Labels["namespace"] = "other", "other"
	if after, err := Marshal(e); err != nil || string(after) != string(before) {
		t.Errorf("Scale changed what it was given (%v)", err)
	}
}

func TestCheckScale(t *testing.T) {
	e, err := Load("testdata/everything.yaml") // at 0.05 the op timeout of 2s is 100ms
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	if err := CheckScale(Scale(e), 20*ms); err != nil {
		t.Errorf("just enough is refused: %v", err)
	}
	err = CheckScale(Scale(e), 25*ms)
	if err == nil || !strings.Contains(err.Error(), "op timeout of lock job") || !strings.Contains(err.Error(), "at least 0.063") {
		t.Errorf("too fast: %v", err)
	}
	e.TimeScale = 1
	if err := CheckScale(Scale(e), time.Minute); err != nil {
		t.Errorf("real time is refused: %v", err)
	}
	e.TimeScale = 0.05
	e.System.Locks[0].Policy.StopBudget = 100 * ms
	if err := CheckScale(Scale(e), 5*ms); err == nil || !strings.Contains(err.Error(), "stop budget") {
		t.Errorf("a stop budget of 5ms: %v", err)
	}
}
