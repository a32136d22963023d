package drill

import (
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/testkit"
	"github.com/lockdrill/lockdrill/lockcore"
	"github.com/lockdrill/lockdrill/probes"
)

// A promise about logs is about all of the run: were they covered only until the workers are told to stop, a stop that takes longer than
// max_gap would be a gap.
func TestLogsAreReadUntilTheWorkersHaveStopped(t *testing.T) {
	logs, err := probes.NewLogs(map[string]string{"a": "a"}, func(s string) string { return s })
	testkit.Must(t, err)
	if s := sampledLogs(logs, time.Second); s.Live || s.Name != probes.LogsName {
		t.Errorf("%+v", s)
	}
}

// A job prefix that covers a loop's key, or another prefix, does not take its entries.
func TestAKeyBelongsToItsLoopOrTheLongestPrefix(t *testing.T) {
	d := &Drill{e: &experiments.Experiment{System: experiments.System{Locks: []experiments.Lock{
		{Name: "job", KeyPrefix: "x:"},
		{Name: "big", KeyPrefix: "x:big:"},
		{Name: "leader", Key: "x:leader", Policy: lockcore.Policy{Loop: &lockcore.Loop{}}},
	}}}}
	for key, want := range map[string]string{"x:leader": "leader", "x:leader-2": "job", "x:big:1": "big", "x:1": "job", "y": "unknown"} {
		if got := d.lockOf(key); got != want {
			t.Errorf("%s belongs to %s, want %s", key, got, want)
		}
		stored := "run:" + key
		if want == "unknown" { // somebody else's, such as a snapshot whose age is watched
			stored = key
		}
		if got := d.stored("run:", key); got != stored {
			t.Errorf("%s is called %s in the store, want %s", key, got, stored)
		}
	}
}
