package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments/sweep"
)

// sweptFile is the example of docs/rehearsal.md, as a reader would copy it.
func sweptFile(t *testing.T) string {
	t.Helper()
	doc := read(t, "../../docs/rehearsal.md")
	_, rest, found := strings.Cut(string(doc), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/rehearsal.md has no example")
	}
	path := filepath.Join(t.TempDir(), "outlived.yaml")
	write(t, path, []byte(text))
	return path
}

// Nothing renews the lease of 2s, so the sum says where the work must end: 2s less drift (20ms) and stop budget (100ms), which the p99
// (1.5 times the median) reaches at a median of 1.25s, and the longest of 40 jobs in 20 seeds before.
func TestSweepFindsWhereTheWorkOutlivesItsLease(t *testing.T) {
	t.Parallel()
	file := sweptFile(t)
	page := filepath.Join(t.TempDir(), "sweep.html")
	got := try(t, "rehearse", file, "--sweep", "hold=500ms..20s", "--seeds", "20", "-f", "json")
	var s sweep.Document
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.code != verdict.ExitPass || s.Live || s.Seeds != 20 || s.By != sweep.Broken || s.Holds == nil || s.Breaks == nil {
		t.Fatalf("%d, %+v", got.code, s)
	}
	if *s.Holds < 0.7 || *s.Breaks > 1.5 || *s.Holds >= *s.Breaks {
		t.Errorf("the ceiling lies in [%v, %v] s", *s.Holds, *s.Breaks)
	}
	if got := try(t, "rehearse", file, "--sweep", "hold=500ms..20s", "--seeds", "20", "-f", "html", "-o", page); got.code != verdict.ExitPass || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	drawn := read(t, page)
	for _, want := range []string{"REHEARSAL", "abandonments of lock job by hold", "</svg>"} {
		if !strings.Contains(string(drawn), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	said := try(t, "rehearse", file, "--sweep", "hold=500ms..20s", "--seeds", "20")
	if !strings.Contains(said.stdout, "All promises held at") || !strings.Contains(said.stdout, "BROKEN") {
		t.Errorf("%+v", said)
	}
}

func TestSweepMisuse(t *testing.T) {
	t.Parallel()
	misused(t, t.TempDir(), "rehearse "+sweptFile(t)+" --sweep", map[string]string{
		"steps=3":                    "name one dial",
		"rate=1/s..2/s,hold=1s..2s":  "name one dial",
		"rate=2/s..1/s":              "the second value must be above the first",
		"rate=1/s..2/s,lock=leader":  "name one that has a stream of jobs: job",
		"hold=1s..2s,steps=1":        "steps=1: want 2 to 100",
		"speed=1..2":                 "there are rate, replicas and hold",
		"hold=1s..2s --fail-above 2": "--fail-above 2",
		"hold=1s..2s --replay 2":     "give one of the two",
		"= --sweep=":                 "--sweep ''",
	})
}

// Each step is a run with a folder, and says which.
func TestLiveSweep(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	file := filepath.Join(work, "short.yaml")
	text := `apiVersion: lockdrill/v1
kind: Experiment
name: short
redis: {mode: embedded}
system:
  mode: embedded
  replicas: 2
  locks: [{name: leader, key: "short:leader", profile: cordum/workflow-reconciler}]
time_scale: 0.1
faults: [{id: kill, at: 0s, kill: {holder_of: leader, phase: after_grant}}]
probes: {lock_keys: {max_gap: 5s}, ledger: {max_gap: 5s}}
limits: {max_run: 1m}
slos: [{lock: leader, fence_regressions: {max: 0}}]
`
	write(t, file, []byte(text))
	got := tryIn(t, work, "run", file, "--sweep", "replicas=2..3,steps=2,finer=0", "-f", "json")
	var s sweep.Document
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.code != verdict.ExitPass || !s.Live || s.Seeds != 0 || len(s.Steps) != 2 || s.Holds == nil || *s.Holds != 3 || s.Breaks != nil {
		t.Fatalf("%d, %+v", got.code, s)
	}
	for _, step := range s.Steps {
		if step.Run == "" || !isDir(filepath.Join(work, step.Run)) || step.Outcome != sweep.Held {
			t.Errorf("%+v", step)
		}
	}
}
