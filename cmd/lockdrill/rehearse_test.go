package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/forecast"
	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// A promise that no kill can keep is breached in every seed; one that may be breached as often is not the gate's business.
func TestRehearseSaysHowLikelyABreachIs(t *testing.T) {
	t.Parallel()
	got := try(t, "rehearse", "too-tight-slo", "--seeds", "20")
	if got.code != verdict.ExitSLOFailed || !strings.Contains(got.stdout, "REHEARSAL") || !strings.Contains(got.stdout, "100.0%") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	if got := try(t, "rehearse", "too-tight-slo", "--seeds", "20", "--fail-above", "1"); got.code != verdict.ExitPass {
		t.Errorf("with --fail-above 1: %+v", got)
	}
	got = try(t, "rehearse", "first-drill", "--seeds", "10", "-f", "json")
	var doc forecast.Rehearsal
	if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.code != verdict.ExitPass || !doc.Rehearsal || doc.Seeds != 10 || doc.Breach != 0 || len(doc.Rows) != 11 || doc.Worst == nil || len(doc.Locks) != 2 {
		t.Errorf("%d, %+v", got.code, doc)
	}
}

// One seed is written as a run's folder: the same history each time, which judge reads, and which never counts as a live run.
func TestReplayWritesARun(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	args := []string{"rehearse", "first-drill", "--replay", "4", "--out", "a"}
	if got := tryIn(t, work, args...); got.code != verdict.ExitPass || !strings.Contains(got.stdout, "REHEARSAL") {
		t.Fatalf("%+v", got)
	}
	if got := tryIn(t, work, append(args[:5:5], "b")...); got.code != verdict.ExitPass || !bytes.Equal(read(t, filepath.Join(work, "a", historyFile)), read(t, filepath.Join(work, "b", historyFile))) {
		t.Errorf("the same seed gives another history: %+v", got)
	}
	before := read(t, filepath.Join(work, "a", verdictFile))
	got := tryIn(t, work, "judge", "a")
	if got.code != verdict.ExitInconclusive || !bytes.Equal(read(t, filepath.Join(work, "a", verdictFile)), before) {
		t.Errorf("judge: %+v", got)
	}
	if got := tryIn(t, work, args...); got.code != verdict.ExitUsage {
		t.Errorf("a second time into the same folder: %+v", got)
	}
}

// The command that shows a seed again repeats the values that were given, so that it shows the same drill.
func TestRehearseSaysAgainWhatWasSet(t *testing.T) {
	t.Parallel()
	got := try(t, "rehearse", "first-drill", "--seeds", "1", "--set", "slos.0.takeover.max=4s", "--set", "description=it's late")
	flat := strings.Join(strings.Fields(got.stdout), " ")
	if want := `lockdrill rehearse first-drill --set slos.0.takeover.max=4s --set 'description=it'\''s late' --replay 1`; !strings.Contains(flat, want) {
		t.Errorf("%q is not in %+v", want, got)
	}
}

func TestRehearseMisuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"rehearse first-drill --seeds 0", "--seeds 0: want 1 to 1000000\n"},
		{"rehearse first-drill --seeds 99999999999", "--seeds 99999999999: want 1 to 1000000\n"},
		{"rehearse first-drill --fail-above 5", "--fail-above 5: want a share from 0 to 1\n"},
		{"rehearse first-drill --out x", "--out is the folder of a seed's history: it goes with --replay SEED\n"},
		{"rehearse", "lockdrill rehearse: no argument given, usage: lockdrill rehearse FILE|NAME [flags]; see lockdrill rehearse --help\n"},
	} {
		if got := try(t, strings.Fields(c.args)...); got != (result{verdict.ExitUsage, "", c.want}) {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
	watched, err := filepath.Abs("../../scenarios/testdata/pods-observed-lease/experiment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	misused(t, t.TempDir(), "rehearse", map[string]string{watched: watched + ": system.mode observe is not rehearsed: "})
}

// A folder that was filled in part looks like a run: nothing of it stays.
func TestARehearsalThatCannotBeWrittenLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := writeRecorded(dir, []byte("x"), &history.History{}) // its header is refused once the file is there
	if _, stat := os.Stat(dir); err == nil || !strings.HasPrefix(err.Error(), dir+": ") || !errors.Is(stat, fs.ErrNotExist) {
		t.Errorf("%v, and the folder: %v", err, stat)
	}
}

// Of two rehearsals that are given the same folder at the same time, the second is refused and leaves the first one's files alone.
func TestARehearsalLeavesAnothersFolderAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{historyFile, experimentFile} {
		write(t, filepath.Join(dir, name), []byte("theirs"))
	}
	if err := writeRecorded(dir, []byte("ours"), &history.History{}); codeOf(err) != verdict.ExitUsage {
		t.Errorf("%d, %v", codeOf(err), err)
	}
	for _, name := range []string{historyFile, experimentFile} {
		if got := string(read(t, filepath.Join(dir, name))); got != "theirs" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
