package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// The hash of a plan is that of what would be run: it stays, whoever asks, and is another once the file or what it executes is.
func TestPlanHashIsOfWhatIsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, err := os.ReadFile("../../scenarios/first-drill.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, worker := filepath.Join(dir, "drill.yaml"), filepath.Join(dir, "worker")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(flags ...string) string {
		t.Helper()
		got := try(t, append([]string{"plan", file, "--hash"}, flags...)...)
		_, after, ok := strings.Cut(got.stdout, "\nhash  ")
		if !ok || got.code != verdict.ExitPass {
			t.Fatalf("plan --hash: %+v", got)
		}
		return strings.TrimSpace(after)
	}
	text := strings.Replace(string(source), "system:\n", "system:\n  worker: [./worker]\n", 1)
	write(file, text)
	write(worker, "#!/bin/sh\nexit 1\n")
	first := hash()
	if again := hash(); again != first {
		t.Errorf("%s, and then %s", first, again)
	}
	write(worker, "#!/bin/sh\nexit 2\n")
	second := hash()
	set := hash("--set", "system.replicas=4")
	write(file, strings.Replace(text, "replicas: 3", "replicas: 4", 1))
	third := hash()
	if set != third {
		t.Errorf("--set gives %s, and the same value in the file %s", set, third)
	}
	if got := try(t, "validate", file, "--set", "system.replicas=none"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "--set:1:17: system.replicas: a whole number is wanted") {
		t.Errorf("validate --set: %+v", got)
	}
	if got := try(t, "rehearse", file, "--set", "system.replicas=none"); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "--set:1:17: ") {
		t.Errorf("rehearse --set: %+v", got)
	}
	if second == first || third == second || third == first {
		t.Errorf("%s; another worker: %s; another file: %s", first, second, third)
	}
	out := filepath.Join(dir, "run")
	if got := try(t, "run", file, "--set", "system.replicas=4", "--plan", first, "--out", out); got.code != verdict.ExitRefused || !strings.Contains(got.stderr, "the approved plan is "+first+", and this is "+third) {
		t.Errorf("run --plan of another: %+v", got)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the refused run has made its folder")
	}
}
