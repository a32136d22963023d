package experiments

import (
	"reflect"
	"testing"
	"time"
)

// A file that says where effects are read comes back the same, and with the defaults of its probes.
func TestEffectsComeBack(t *testing.T) {
	e, err := Load("testdata/effects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse("resolved.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if !reflect.DeepEqual(e.System.Effects, back.System.Effects) {
		t.Errorf("wrote %+v\nread  %+v", e.System.Effects, back.System.Effects)
	}
	if x := e.EffectsOf("list"); x.ProbeSettings != (ProbeSettings{Every: 20 * time.Millisecond, MaxGap: 500 * time.Millisecond}) || x.Probe() != "effects:listed" {
		t.Errorf("%+v", x)
	}
}
