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

// injectors make the kinds of faults that the drill has the parts for; the others are refused with the experiment.
func (d *Drill) injectors() map[string]runner.Injector {
	d.made = injectors.New(d.strikes)
	all := map[string]runner.Injector{}
	for _, kind := range fault.Kinds() {
		if i := d.made.Of(kind); i != nil {
			all[kind] = i
		}
	}
	return all
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
			return testbed.EndPods(ctx, r)
		},
	})
	return all
}
