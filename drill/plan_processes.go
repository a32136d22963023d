package drill

import (
	"context"
	"fmt"
	"time"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/internal/figures"
)

// processesGuard refuses a drill of processes where there are too few of them, or some that must never be struck.
func processesGuard(ctx context.Context, e *experiments.Experiment) Guard {
	found, doubts, err := testbed.FindProcesses(ctx, e.System.Processes)
	if err != nil {
		return Guard{Refuses: true, Says: err.Error()}
	}
	g := Guard{Says: fmt.Sprintf("%s (%s)", figures.Plural(len(found), "process"), e.System.Processes.Where())}
	for _, why := range doubts {
		g.Says += "; " + why
	}
	pids, named := map[int]bool{}, map[string]int{}
	for _, f := range found {
		pids[f.PID] = true
		if f.Refused != "" {
			g.Refuses, g.Says = true, g.Says+fmt.Sprintf("; process %d is not to be struck: %s", f.PID, f.Refused)
		}
		if named[f.Name]++; f.Name != "" && named[f.Name] == 2 {
			g.Says += fmt.Sprintf("; more than one is called %s: a lock that names %s names nobody", f.Name, f.Name)
		}
	}
	told := map[int]bool{}
	for _, f := range found {
		if pids[f.Parent] && !told[f.Parent] { // a shell or a supervisor has the words of what it starts in its own command line
			told[f.Parent] = true
			g.Refuses, g.Says = true, g.Says+fmt.Sprintf("; process %d was started by process %d, which is found as well: only one of them is the replica, so say more of its command line (it begins with ^)", f.PID, f.Parent)
		}
	}
	if len(found) < e.System.Replicas {
		g.Refuses, g.Says = true, g.Says+fmt.Sprintf(": system.replicas is %d, and a drill begins with that many", e.System.Replicas)
	}
	return g
}

// lookUpProcesses lists the processes that the drill would have.
func lookUpProcesses(ctx context.Context, e *experiments.Experiment, plan *forecast.Plan) {
	found, _, err := testbed.FindProcesses(ctx, e.System.Processes)
	if err != nil {
		return // the guard of the processes has said it
	}
	for _, f := range found {
		plan.Replicas = append(plan.Replicas, forecast.PlannedReplica{Name: f.Name, PID: f.PID, Since: f.Since.UTC().Format(time.RFC3339)})
	}
}
