package drill

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lockdrill/lockdrill/drill/runner"
	"github.com/lockdrill/lockdrill/drill/testbed"
	"github.com/lockdrill/lockdrill/experiments/fault"
	"github.com/lockdrill/lockdrill/history"
)

// openProcesses prepares replicas that are processes of this host: of the experiment's own worker, or of this very binary.
func (d *Drill) openProcesses(context.Context) error {
	command := d.e.System.Worker
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the own binary: %w", err)
		}
		command = []string{self, "worker"}
	}
	fleet := testbed.NewFleet(testbed.FleetOptions{
		Command:  command,
		Dir:      d.dir,
		Clock:    d.clock,
		Origin:   d.origin,
		Later:    d.e.System.CheckWorker,
		Journal:  d.journal,
		OnEvents: func(events []history.Event) { _ = d.rec.RecordAll(events) }, // a failed recorder ends the run by itself
		OnExit:   d.exited,
	})
	d.env.Fleet, d.cfg.Fleet = history.FleetProcesses, fleet
	d.strikes.Signal, d.strikes.Send, d.strikes.Grace = fleet.Signal, fleet.Send, workerGrace
	d.stand(standing(fleet.Processes))
	return nil
}

// standing tells the machine's watcher of a fleet's processes.
func standing(processes func() (pids map[string]int, busy bool)) runner.Standing {
	return func() ([]runner.Process, bool) {
		pids, busy := processes()
		ps := make([]runner.Process, 0, len(pids))
		for incarnation, pid := range pids {
			ps = append(ps, runner.Process{Name: incarnation, PID: pid})
		}
		return ps, busy
	}
}

// workerGrace is what a worker that is asked to end has for it, as a supervisor would grant it.
const workerGrace = 10 * time.Second

// exited records the end of a life, and what of its output was no event.
func (d *Drill) exited(x testbed.Exit) {
	r := history.Replica{Name: x.Name, Incarnation: x.Incarnation, PID: x.PID, Exit: x.State, Lines: x.Lines, Bad: x.Bad, Wanted: d.wanted(x.Incarnation)}
	if len(x.BadLines) > 0 {
		r.BadLine = x.BadLines[0]
	}
	_ = d.record(history.Event{Kind: history.ReplicaExit, Span: x.Span, Source: "runner", Replica: &r})
}

// wanted says whether the runner ended this incarnation: by a fault, or because the drill is over.
func (d *Drill) wanted(incarnation string) bool {
	return d.log.Any(0, func(e history.Event) bool {
		if e.Kind != history.FaultIntent {
			return e.Kind == history.RunPhase && e.Phase.Name == history.PhaseFinal
		}
		does := fault.Seen(e.Fault.Kind, e.Fault.Form, "").Traits()
		return does.Kills && e.Fault.Victim == incarnation || (does.Kills || does.Rolls) && slices.Contains(e.Fault.Victims, incarnation)
	})
}
