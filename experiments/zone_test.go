package experiments

import (
	"os"
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
)

// A kill of a zone strikes all pods on nodes of it, or as many as the file says, and none of another zone.
func TestAZoneIsStruckByTheLabelsOfItsPods(t *testing.T) {
	data, err := os.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Parse("pods.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	here, there := map[string]string{fault.ZoneLabel: "eu-west-1a", "app": "web"}, map[string]string{fault.ZoneLabel: "eu-west-1b", "app": "web"}
	for i := range e.Faults {
		aim := e.Faults[i].Aim()
		if e.Faults[i].ID == "zone" && (!aim.All || !aim.Fits(here) || aim.Fits(there) || aim.Fits(map[string]string{"app": "web"})) {
			t.Errorf("%+v: it is to strike all pods of its zone alone", aim)
		}
	}
	for _, c := range []struct {
		kill fault.Kill
		want fault.Aim
	}{
		{fault.Kill{Zone: "z"}, fault.Aim{Pods: fault.ZoneLabel + "=z", All: true}},
		{fault.Kill{Zone: "z", Count: 2}, fault.Aim{Pods: fault.ZoneLabel + "=z", Some: fault.Some{Count: 2}, Pick: fault.PickRandom}},
		{fault.Kill{Zone: "z", Pods: map[string]string{"a": "b"}, Pick: fault.PickOldest}, fault.Aim{Pods: "a=b," + fault.ZoneLabel + "=z", Pick: fault.PickOldest}},
	} {
		c.kill.Fill()
		if got := c.kill.Target(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.kill, got, c.want)
		}
	}
}
