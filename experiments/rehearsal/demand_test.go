package rehearsal

import (
	"context"
	"testing"

	"github.com/lockdrill/lockdrill/analysis"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/lockcore/sim"
)

const election = `
apiVersion: lockdrill/v1
kind: Experiment
name: election
system:
  mode: embedded
  replicas: 3
  restart: 1s
  locks:
    - name: leader
      key: "drill:leader"
      policy:
        ttl: 6s
        renew_every: 2s
        class: standard
        op_timeout: 500ms
        drift: 60ms
        stop_budget: 200ms
        release: {mode: single, timeout: 500ms, after_abandon: skip}
        acquire: {mode: try, timeout: 500ms}
        loop: {poll: 2s, mode: renewed, tick: 50ms}
faults:
  - {id: kill-leader, at: 5s, repeat: {count: 4, every: settled}, kill: {holder_of: leader, phase: random}}
limits: {max_run: 10m}
slos:
  - {lock: leader, takeover: {max: 30s}}
`

// Followers that live and stand still from the third of four kills on are a takeover that never comes: no kill is set aside because
// nobody asked for the lock after it.
func TestFollowersThatDeadlockAreATakeoverThatNeverComes(t *testing.T) {
	e, err := experiments.Parse("election.yaml", []byte(election))
	if err != nil {
		t.Fatal(err)
	}
	judged := func(deadlock bool) *verdict.Judgement {
		r := New(e, sim.DefaultNet())
		stuck := false
		stick := func(incarnation string) { r.d.w.After(0, func() { r.d.w.Pause(incarnation) }) }
		r.config.Emit = func(ev history.Event) {
			r.d.record(ev)
			switch {
			case deadlock && ev.Kind == history.FaultApplied && ev.Fault.Shot == 3:
				stuck = true
				for incarnation := range r.d.running {
					stick(incarnation)
				}
			case stuck && ev.Kind == history.ReplicaReady:
				stick(ev.Replica.Incarnation)
			case ev.Kind == history.RunPhase && ev.Phase.Name == history.PhaseFinal:
				stuck = false
			}
		}
		d, err := r.Run(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return analysis.FactsOf(e, d.History).AsLive().Judge()
	}
	if row := judged(false).SLOs[0]; row.Verdict != verdict.Pass || row.N != 4 {
		t.Errorf("followers that take over: %+v", row)
	}
	j := judged(true)
	if row := j.SLOs[0]; row.Verdict != verdict.Fail || row.N != 3 || row.Hi != nil {
		t.Errorf("followers that deadlock after half of the kills: %+v", row)
	}
	if f := j.Faults[2]; !f.Confirmed || f.Void {
		t.Errorf("the kill that nobody took over after: %+v", f)
	}
}
