package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/workercheck"
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
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	build.Dir = "../../scenarios/workers/go"
	build.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the worker in Go: %v\n%s", err, out)
	}
	return binary
}

// patientCheck checks a worker that is right, at times that a busy machine keeps. Where this one kept a tick of 10 ms waiting for two more,
// which means that others waited longer, it shows nothing that some steps were not seen.
func patientCheck(t *testing.T, args ...string) result {
	t.Helper()
	const every = 10 * time.Millisecond
	over, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		late, last := time.Duration(0), time.Now()
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
				late, last = max(late, time.Since(last)-every), time.Now()
			case <-over:
				worst <- late
				return
			}
		}
	}()
	got := try(t, append([]string{"worker-check", "--ttl", "2s"}, args...)...)
	close(over)
	if late := <-worst; got.code == verdict.ExitInconclusive && strings.Contains(got.stdout, " 0 wrong,") && late > 2*every {
		t.Skipf("NOT SHOWN: this machine was late by %s for a worker that is right\n%s", late, got.stdout)
	}
	return got
}

func TestLiveWorkerCheck(t *testing.T) {
	needDrill(t)
	t.Parallel()
	worker := goWorker(t)
	t.Run("right", func(t *testing.T) {
		got := patientCheck(t, "--", worker)
		if got.code != verdict.ExitPass || !strings.Contains(got.stdout, "0 wrong, 0 not seen") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("lockdrill's own", func(t *testing.T) { // it makes armed calls fail, which those to copy do not
		got := patientCheck(t, "--only", "jobs", "--", built, "worker")
		if got.code != verdict.ExitPass || !strings.Contains(got.stdout, "2 renewals failed") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("half of it is not seen", func(t *testing.T) {
		jobless := filepath.Join(t.TempDir(), "jobless")
		if err := os.WriteFile(jobless, []byte("#!/bin/sh\ngrep --line-buffered -v '\"cmd\":\"offer\"' | "+worker+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		got := try(t, "worker-check", "--", jobless)
		if got.code != verdict.ExitInconclusive || !strings.Contains(got.stdout, "a worker of loops only need not") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		got := try(t, "worker-check", "-f", "json", "--ready", "1s", "--", "sh", "-c", "echo hello; exec sleep 100")
		var r workercheck.Report
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != verdict.ExitSLOFailed {
			t.Fatalf("%v: %+v", err, got)
		}
		if first := r.Steps[0]; r.SchemaVersion != 1 || first.Name != "ready" || first.Result != workercheck.Wrong || first.Change == "" || !strings.Contains(first.Seen, "hello") {
			t.Errorf("got %+v", first)
		}
	})
	t.Run("misused", func(t *testing.T) {
		for _, args := range [][]string{{"--", "no-such-program"}, {"--ttl", "1ms", "--", worker}, {"--only", "half", "--", worker}, {}} {
			if got := try(t, append([]string{"worker-check"}, args...)...); got.code != verdict.ExitUsage || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("%v: %+v", args, got)
			}
		}
	})
}
