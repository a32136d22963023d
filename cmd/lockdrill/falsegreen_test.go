package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

const jobLock = `    - name: job
      key_prefix: "job:"
      policy:
        ttl: 400ms
        renew_every: 100ms
        class: standard
        op_timeout: 50ms
        stop_budget: 20ms
        release: {mode: bounded_retry, attempts: 2, timeout: 50ms}
        acquire: {mode: try, timeout: 50ms}
`

const jobWork = `  work:
    - {lock: job, jobs: 40, rate: 20/s, hold: {p50: 50ms, p99: 80ms}, redeliver: 300ms}
`

// goodDrill passes in a few seconds, on a machine that stalls for a second as well. Every false green below differs from it in one thing.
const goodDrill = `apiVersion: lockdrill/v1
kind: Experiment
name: good
environment: local
redis: {mode: spawn}
system:
  mode: embedded
  replicas: 2
  restart: 100ms
  locks:
    - name: loop
      key: the-loop
      policy:
        ttl: 400ms
        renew_every: 100ms
        class: standard
        op_timeout: 50ms
        stop_budget: 20ms
        release: {mode: none}
        acquire: {mode: try, timeout: 50ms}
        loop: {poll: 50ms, mode: renewed, tick: 10ms}
` + jobLock + jobWork + `steady_state: {for: 300ms, timeout: 20s}
faults:
  - id: kill
    at: 0s
    repeat: {count: 2, every: settled}
    kill: {holder_of: loop, phase: after_renew}
probes:
  lock_keys: {every: 20ms, max_gap: 2s}
  ledger: {every: 20ms, max_gap: 2s}
limits: {max_kills: 4, max_run: 1m}
slos:
  ` + goodSLO + "\n"

// The good drill's SLO, beyond any takeover of it even where the machine is busy; and one to put in its place where no takeover is
// asked about: a run waits for as long as a breach would take to show.
const (
	goodSLO  = "- {lock: loop, takeover: {max: 2s}}"
	shortSLO = "- {lock: loop, overlap: {level: effect, max: 0}}"
)

// edit replaces one piece of the good drill; a piece that is not there is a mistake of the test.
func edit(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the drill has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

// drillOut runs a drill through the binary and returns its verdict, exit status and everything it said.
type drillOut struct {
	dir  string
	code int
	text string
	j    verdict.Judgement
}

func runDrill(t *testing.T, yaml string, during func(pid int), args ...string) drillOut {
	t.Helper()
	return runDrillIn(t, t.TempDir(), unrehearsed(yaml), during, args...)
}

// ends checks the status of a drill.
func (o drillOut) ends(t *testing.T, code int) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, want %d, verdict %q\n%s", o.code, code, o.j.Verdict, o.text)
	}
}

// unrehearsed names the replicas' program, which is the same one: a run then has no rehearsals before it, which cost more than most of these drills.
// In a pod the image says what runs.
func unrehearsed(yaml string) string {
	if strings.Contains(yaml, "  worker: [") || strings.Contains(yaml, "\nkubernetes:") {
		return yaml
	}
	return strings.Replace(yaml, "  mode: embedded\n", fmt.Sprintf("  mode: embedded\n  worker: [%q, worker]\n", built), 1)
}

func runDrillIn(t *testing.T, dir, yaml string, during func(pid int), args ...string) drillOut {
	t.Helper()
	file := filepath.Join(dir, "drill.yaml")
	write(t, file, []byte(yaml))
	o := drillOut{dir: filepath.Join(dir, "run")}
	cmd := lockdrill(append([]string{"run", file, "--out", o.dir, "--log-level", "debug"}, args...)...)
	cmd.Env = append(os.Environ(), scriptedEnv+"="+t.TempDir()) // for experiments whose worker is this test
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	must(t, cmd.Start())
	if during != nil {
		during(cmd.Process.Pid)
	}
	_ = cmd.Wait()
	o.code, o.text = cmd.ProcessState.ExitCode(), text.String()
	if _, err := os.Stat(filepath.Join(o.dir, verdictFile)); err == nil {
		o.j = *judgementIn(t, o.dir)
	}
	return o
}

// childrenOf lists the direct children of a process.
func childrenOf(pid int) []int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		if more, e := os.ReadFile(task); e == nil && err == nil {
			data = append(append(data, ' '), more...)
		}
	}
	seen := map[int]bool{}
	var pids []int
	for _, f := range strings.Fields(string(data)) {
		if p, err := strconv.Atoi(f); err == nil && !seen[p] {
			seen[p] = true
			pids = append(pids, p)
		}
	}
	return pids
}

func comm(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(data))
}

// waitForChild waits until the process has a child of that name.
func waitForChild(t *testing.T, pid int, name string) int {
	t.Helper()
	found := 0
	until(t, "a child "+name, func() bool {
		for _, c := range childrenOf(pid) {
			if comm(c) == name {
				found = c
			}
		}
		return found != 0
	})
	return found
}

// waitForWorker waits until two replicas run.
func waitForWorker(t *testing.T, pid int) {
	t.Helper()
	until(t, "replicas", func() bool {
		n := 0
		for _, c := range childrenOf(pid) {
			if args := commandLine(c); len(args) > 1 && args[1] == "worker" {
				n++
			}
		}
		return n >= 2
	})
}

// commandLine is a process's own; that of a child is its parent's until it has become the program that it was started as.
func commandLine(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// allGone waits until none of the processes is there, or it is dead and nobody has waited for it yet.
func allGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		entry := fmt.Sprintf("/proc/%d", pid)
		until(t, fmt.Sprintf("the end of process %d (%s)", pid, comm(pid)), func() bool { return stateOf(entry) == "" || zombie(entry) })
	}
}

// inFile tells whether a file has a text by now; its path may not be known yet, "".
func inFile(path func() string, text string) func() bool {
	return func() bool {
		data, _ := os.ReadFile(path())
		return strings.Contains(string(data), text)
	}
}

// The good drill passes, with a server of its own and without one. What a peer would call green says that it shows nothing, and why: what the judge makes of each
// such history is TestRetoldRecordings of package analysis.
func TestFalseGreens(t *testing.T) {
	besideDrills(t)
	for _, c := range []struct {
		name, yaml string
		code       int
		why        string // must be said
	}{
		{"good", goodDrill, verdict.ExitPass, "PASS"},
		{"good without a server", edit(t, goodDrill, "mode: spawn", "mode: embedded"), verdict.ExitPass, "PASS"},
		{"the key probe is blind", edit(t, goodDrill, "lock_keys: {every: 20ms, max_gap: 2s}", "lock_keys: {every: 30ms, max_gap: 30001us}",
			goodSLO, "- {lock: loop, overlap: {level: belief, max: 10m}}"), verdict.ExitInconclusive, "was delayed"}, // however quiet the machine: the looks themselves take more than a microsecond; however busy, no overlap is so long
		{"replicas that cannot start", edit(t, goodDrill, "  replicas: 2\n", "  replicas: 2\n  worker: [/bin/false]\n"), verdict.ExitInconclusive, "cannot start"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := runDrill(t, c.yaml, nil)
			o.ends(t, c.code)
			says(t, o.text, c.why)
		})
	}
}
