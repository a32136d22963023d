package experiments

import (
	"testing"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

func TestHowLockOperationsAreSent(t *testing.T) {
	burst := func(via string) []Fault {
		return []Fault{{ID: "f", Spec: &fault.Failures{Of: "renew", Mode: fault.ModeError, Via: via}}}
	}
	for _, c := range []struct {
		name string
		e    Experiment
		want string
	}{
		{"no burst", Experiment{}, history.CallsBatched},
		{"in the replica", Experiment{Faults: burst(fault.ViaWorker)}, history.CallsBatched},
		{"on the way", Experiment{Faults: burst(fault.ViaProxy)}, history.CallsSingle},
		{"no batches in etcd", Experiment{Store: &Store{Kind: StoreEtcd}}, history.CallsSingle},
		{"their worker", Experiment{System: System{Worker: []string{"w"}}, Faults: burst(fault.ViaProxy)}, ""},
		{"observed", Experiment{System: System{Mode: ModeObserve}}, ""},
	} {
		if got := c.e.LockCalls(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
