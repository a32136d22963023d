package main

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// lateDrill has limits just above what its timings allow on a machine in time: a second of lateness would break them.
const lateDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: late
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 3
  restart: 300ms
  locks:
    - name: leader
      key: late:leader
      policy:
        ttl: 600ms
        renew_every: 200ms
        renew_jitter: 0.1
        class: standard
        op_timeout: 100ms
        drift: 10ms
        stop_budget: 50ms
        release: {mode: bounded_retry, attempts: 2, timeout: 100ms, after_abandon: if_work_stopped}
        acquire: {mode: try, timeout: 100ms}
        loop: {poll: 100ms, jitter: 0.1, mode: renewed, tick: 20ms}
steady_state: {for: 500ms, timeout: 20s}
faults:
  - {id: kill-leader, at: 0s, repeat: {count: 2, every: settled}, kill: {holder_of: leader, phase: random}}
limits: {max_run: 40s}
slos:
  - {lock: leader, takeover: {max: 920ms}}
  - {lock: leader, tick_gap: {max: 1050ms}}
`

// busyLoops fill the processors with n processes of somebody else's until the test ends; each ends by itself after 2s of
// processor time, which with 20 of them on two processors is twenty seconds.
func busyLoops(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "ulimit -t 2; while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		})
	}
}

// Twenty busy loops of somebody else's beside a drill whose limits leave no room: no takeover is called a breach, what the machine has made
// of it is recorded, and the advice is not to promise more.
func TestLiveALoadedMachineIsNoBreach(t *testing.T) {
	needDrill(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says who waited for a processor")
	}
	busyLoops(t, 20)
	o := runDrill(t, lateDrill, nil)
	if o.code == verdict.ExitSLOFailed || o.code == verdict.ExitError {
		t.Fatalf("exit status %d under load:\n%s", o.code, o.text)
	}
	if o.j.Machine == nil || !o.j.Machine.Judges || o.j.Machine.Late <= 0 {
		t.Errorf("with 20 busy loops the machine was late by %+v:\n%s", o.j.Machine, o.text)
	}
	h, err := readHistory(o.dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.Header.Schema != history.SchemaVersion || !slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.Late != nil && len(e.Late.Waits) > 0 }) {
		t.Error("no stretch of the history says who waited for a processor")
	}
	for _, s := range o.j.SLOs {
		if strings.Contains(s.Why, "this machine was late") && !strings.Contains(s.Next, "quieter machine") {
			t.Errorf("%s: %q, and next %q", s.Measure, s.Why, s.Next)
		}
	}
}
