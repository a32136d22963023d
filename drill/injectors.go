package drill

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/drill/undo"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/injectors"
	"github.com/lockdrill/lockdrill/stores"
	"github.com/lockdrill/lockdrill/stores/redis"
)

// makeInjectors refuses a fault that takes something that the drill has not.
func (d *Drill) makeInjectors() error {
	d.strikes.Mark = d.journal.MarkOf
	return runner.Wired(d.e, striking{d.strikes})
}

// striking has the runner strike by what the drill has for it.
type striking struct{ *injectors.Reach }

func (s striking) Prepare(ctx context.Context, f fault.Spec, shot history.Event) (runner.Strike, error) {
	return s.Reach.Prepare(ctx, f, shot)
}

// placeCommands says of commands where they are run, unless the file does: their undoing must find the same ones from anywhere.
func placeCommands(e *experiments.Experiment) error {
	for i := range e.Faults {
		c, ok := e.Faults[i].Spec.(fault.Commanding)
		if !ok || c.Runs().Dir != "" {
			continue
		}
		here, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("find the folder in which %s runs its commands: %w", e.Faults[i].ID, err)
		}
		c.Runs().Dir = here
	}
	return nil
}

// reverters undo by the record alone, in any process: faults, and what a run stands on.
func reverters(runnerDead bool, at Cluster) map[string]undo.Reverter {
	return reverting(&injectors.Reach{}, runnerDead, at)
}

func reverting(reach *injectors.Reach, runnerDead bool, at Cluster) map[string]undo.Reverter {
	reach.Open = redis.Kind.Outside
	reach.Cluster = func(ctx context.Context, r undo.Record) (injectors.Network, error) {
		r, err := at.elsewhere(r)
		if err != nil {
			return nil, err
		}
		return testbed.ClusterOf(ctx, r, at.Kubeconfig != "")
	}
	all := reach.Reverters(runnerDead)
	maps.Copy(all, map[string]undo.Reverter{
		undo.StandReplica: stores.EndStand,
		undo.StandServer:  stores.EndStand,
		undo.StandKeys:    stores.EndKeys,
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
