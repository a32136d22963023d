package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/internal/witnesstest"
)

// copiedDrill puts a worker that others copy through kills, a pause longer than its lease, and a store out of its reach.
const copiedDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: copied
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 3
  restart: 100ms
  worker: [%s]
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 2s
        renew_every: 500ms
        class: standard
        op_timeout: 400ms
        stop_budget: 200ms
        release: {mode: none}
        acquire: {mode: try, timeout: 400ms}
        loop: {poll: 200ms, mode: renewed, tick: 10ms}
    - name: job
      key_prefix: "job:"
      policy:
        ttl: 2s
        renew_every: 500ms
        class: standard
        op_timeout: 400ms
        stop_budget: 200ms
        release: {mode: bounded_retry, attempts: 2, timeout: 400ms}
        acquire: {mode: try, timeout: 400ms}
  work:
    - {lock: job, jobs: 80, rate: 4/s, hold: {p50: 1s, p99: 1200ms}, redeliver: 2s}
steady_state: {for: 500ms, timeout: 30s}
faults:
  - id: kill
    at: 0s
    repeat: {count: 2, every: settled}
    kill: {holder_of: loop, phase: after_renew}
  - {id: pause, at: 6s, for: 3s, pause: {holder_of: job}}
  - {id: silence, at: 12s, for: 3s, black_hole: {holder_of: loop}}
allow_overlap: [[kill, pause], [kill, silence], [pause, silence]]
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_kills: 6, max_run: 2m}
slos:
  - {lock: loop, takeover: {max: 6s}}
  - {lock: loop, overlap: {level: effect, max: 0}}
  - {lock: job, duplicate_terminal_states: {max: 0}}
  - {lock: job, stranded: {max: 0}}
  - {lock: job, orphan_acquires: {max: 0}}
  - {lock: job, abandonment: {missed: 0}}
`

// The workers that others copy keep every promise, and nothing that they claim is refuted.
func TestLiveTheWorkersThatOthersCopyPassADrill(t *testing.T) {
	needDrill(t)
	t.Parallel()
	for name, command := range copied(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runDrill(t, fmt.Sprintf(copiedDrill, strings.Join(command, ", ")), nil)
			skipIfTooLate(t, o.code, o.dir)
			if o.code != verdict.ExitPass || len(o.j.Findings) > 0 {
				t.Errorf("exit status %d, findings %+v\n%s", o.code, o.j.Findings, o.text)
			}
		})
	}
}

// copied are the commands of the workers in scenarios/workers.
func copied(t *testing.T) map[string][]string {
	t.Helper()
	script, err := filepath.Abs("../../scenarios/workers/python/worker.py")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"go": {goWorker(t)}, "python": {witnesstest.Python(t), "-B", script}}
}

func goWorker(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../scenarios/workers/go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the worker in Go: %v\n%s", err, out)
	}
	return binary
}
