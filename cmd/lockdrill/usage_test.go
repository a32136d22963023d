package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/scenarios"
)

// Misuse is status 2, nothing on stdout, and one line on stderr that begins with its place and ends with what to do.
func TestMisuse(t *testing.T) {
	t.Parallel()
	var shipped []string
	for _, s := range scenarios.List() {
		shipped = append(shipped, s.Name)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"vlidate x.yaml", `lockdrill: unknown command "vlidate", did you mean "validate"?; see lockdrill --help`},
		{"vlidate --seeds 3", `lockdrill: unknown command "vlidate", did you mean "validate"?; see lockdrill --help`},
		{"frobnicate", `lockdrill: unknown command "frobnicate"; see lockdrill --help`},
		{"--frobnicate", `lockdrill: unknown flag: --frobnicate; see lockdrill --help`},
		{"judge", `lockdrill judge: no argument given, usage: lockdrill judge DIR [flags]; see lockdrill judge --help`},
		{"judge a b", `lockdrill judge: 2 arguments given, usage: lockdrill judge DIR [flags]; see lockdrill judge --help`},
		{"judge --ouput x.json a", `lockdrill judge: unknown flag: --ouput, did you mean "--output"?; see lockdrill judge --help`},
		{"run first-drill --seed abc", `lockdrill run: invalid argument "abc" for "--seed" flag: want a whole number; see lockdrill run --help`},
		{"rehearse first-drill --fail-above much", `lockdrill rehearse: invalid argument "much" for "--fail-above" flag: want a number such as 0.05; see lockdrill rehearse --help`},
		{"list -f xml", `lockdrill list: invalid argument "xml" for "-f, --format" flag: must be text, json; see lockdrill list --help`},
		{"list -o no/such/x", `no/such/x: write: no such file or directory`},
		{"validate", `lockdrill validate: no argument given, usage: lockdrill validate FILE|NAME... [flags]; see lockdrill validate --help`},
		{"validate frist-drill", `frist-drill: no such scenario, did you mean "first-drill"? A file is named with its .yaml or a path; lockdrill list shows the scenarios`},
		{"validate nothing-like-it", `nothing-like-it: no such scenario (shipped: ` + strings.Join(shipped, ", ") + `; a file is named with its .yaml or a path)`},
		{"plan .", `.: this is a folder; name an experiment file in it, such as NAME.lockdrill.yaml`},
		{"plan ..", `..: this is a folder; name an experiment file in it, such as ../NAME.lockdrill.yaml`},
		{"plan ./.", `./.: this is a folder; name an experiment file in it, such as NAME.lockdrill.yaml`},
		{"validate .", `.: this folder has no experiment file; one is YAML with kind: Experiment`},
		{"validate not-there.yaml", `not-there.yaml: read: no such file or directory`},
		{"list all", `lockdrill list: takes no argument, and "all" is one; see lockdrill list --help`},
		{"help exit-code", `lockdrill help: unknown topic "exit-code", did you mean "exit-codes"?`},
		{"run", `lockdrill run: no argument given, usage: lockdrill run FILE|NAME|DIR... [-- WORKER ARGUMENT...] [flags]; see lockdrill run --help`},
		{"judge not-there", `not-there: no such folder; runs are folders such as runs/latest`},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := try(t, strings.Fields(c.args)...)
			if want := (result{verdict.ExitUsage, "", c.want + "\n"}); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// misused runs a command with arguments that are refused: status 2, nothing on standard output, on standard error why, and no secret.
func misused(t *testing.T, dir, command string, says map[string]string) {
	t.Helper()
	for args, want := range says {
		got := tryIn(t, dir, strings.Fields(command+" "+args)...)
		if got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "hunter2") {
			t.Errorf("lockdrill %s %s: %+v, want %q", command, args, got, want)
		}
	}
}

// A gate whose command came out empty must not go green.
func TestNoCommand(t *testing.T) {
	t.Parallel()
	got := try(t)
	if got.code != verdict.ExitUsage || got.stdout != "" || !strings.HasSuffix(got.stderr, "lockdrill: no command given\n") {
		t.Errorf("got %+v", got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--help", "help", "help judge", "judge --help", "help exit-codes", "completion bash"} {
		if got := try(t, strings.Fields(args)...); got.code != verdict.ExitPass || got.stdout == "" || got.stderr != "" {
			t.Errorf("lockdrill %s: %+v", args, got)
		}
	}
	if got := try(t, "--help"); strings.Contains(got.stdout, "\n  worker") {
		t.Errorf("a worker command is shown to people:\n%s", got.stdout)
	}
}

// A worker's command stands beside the experiment file, wherever lockdrill is run; one that cannot be executed is known at once.
func TestWorkerCommandIsPlacedBesideTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "drill.yaml")
	yaml := edit(t, goodDrill, "  replicas: 2\n", "  replicas: 2\n  worker: [./their-worker, --fast]\n")
	write(t, file, []byte(yaml))
	got := tryIn(t, t.TempDir(), "run", file)
	if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "system.worker") {
		t.Errorf("a missing worker: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "their-worker"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	e, _, err := loadExperiment(file)
	if err != nil || e.System.Worker[0] != filepath.Join(dir, "their-worker") || e.System.Worker[1] != "--fast" {
		t.Errorf("worker %v, %v", e, err)
	}
}

// A time scale that this machine can never keep is refused by validate already, and not when the drill has begun.
func TestATimeScaleThatTheMachineCannotKeepIsRefusedByValidate(t *testing.T) {
	t.Parallel()
	file := edit(t, goodDrill, "steady_state:", "time_scale: 0.03\nsteady_state:", "stop_budget: ", "stop_budget: 300us #")
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	write(t, path, []byte(file))
	got := try(t, "validate", path)
	if got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "this machine is too slow: time_scale 0.03 makes the ") {
		t.Errorf("status %d: %s%s", got.code, got.stdout, got.stderr)
	}
}
