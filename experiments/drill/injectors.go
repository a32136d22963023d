package drill

import (
	"context"
	"maps"

	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/experiments/runner"
	"github.com/lockdrill/lockdrill/experiments/testbed"
	"github.com/lockdrill/lockdrill/experiments/undo"
	"github.com/lockdrill/lockdrill/injectors"
)

// makeInjectors makes those that the drill has the parts for, and refuses a fault that needs another.
func (d *Drill) makeInjectors() error {
	set := injectors.New(d.strikes)
	d.made, d.hit = map[string]runner.Injector{}, set.Hit
	for _, kind := range fault.Kinds() {
		if i := set.Of(kind); i != nil {
			d.made[kind] = i
		}
	}
	return runner.Wired(d.e, d.made)
}

// reverters undo by the record alone, in any process: faults, and what a run stands on.
func reverters(runnerDead bool, at Cluster) map[string]undo.Reverter {
	all := injectors.Reverters(testbed.Dial, runnerDead)
	maps.Copy(all, map[string]undo.Reverter{
		undo.StandReplica: testbed.EndStand,
		undo.StandServer:  testbed.EndStand,
		undo.StandKeys:    testbed.EndKeys,
		undo.StandRoute:   testbed.EndRoute,
		undo.StandPods: func(ctx context.Context, r undo.Record) error {
			r, err := at.elsewhere(r)
			if err != nil {
				return err
			}
			return testbed.EndPods(ctx, r, at.Kubeconfig != "")
		},
	})
	return all
}
