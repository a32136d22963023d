package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// Ten minutes with 500 jobs and ten kills of their leader.
const longDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: ten-minutes
system:
  mode: embedded
  replicas: 3
  locks:
    - {name: leader, profile: cordum/workflow-reconciler, key: "ten:leader"}
    - {name: job, profile: cordum/scheduler-job, key_prefix: "ten:job:"}
  work:
    - {lock: job, jobs: 500, rate: 1/s, hold: {p50: 15s, p99: 40s}, redeliver: 15s, fenced: true}
faults:
  - id: kill-leader
    at: 20s
    repeat: {count: 10, every: settled}
    kill: {holder_of: leader, phase: after_grant}
limits: {max_run: 30m}
slos:
  - {lock: leader, takeover: {max: 30s}}
  - {lock: job, duplicate_terminal_states: {max: 0, min_jobs: 500}}
`

// The page of a long drill can still be mailed.
func TestPageOfALongDrillIsSmall(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, filepath.Join(work, "ten.yaml"), []byte(longDrill))
	if got := tryIn(t, work, "rehearse", "ten.yaml", "--replay", "3", "--out", "ten"); got.code != verdict.ExitPass {
		t.Fatalf("%+v", got)
	}
	page := read(t, filepath.Join(work, "ten", "report.html"))
	if n := len(page); n < 200_000 || n > 2_000_000 {
		t.Errorf("the page of 500 jobs has %d bytes", n)
	}
	if !strings.Contains(string(page), "500 offered, 500 finished") {
		t.Error("the page does not say what became of the jobs")
	}
}
