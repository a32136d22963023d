package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// changeHistory writes the history of a run as somebody else might have recorded it: nothing that is judged is another.
func changeHistory(t *testing.T, run string) {
	t.Helper()
	path := filepath.Join(run, historyFile)
	was := read(t, path)
	now := bytes.Replace(was, []byte(`"samples":1`), []byte(`"samples":2`), 1)
	if bytes.Equal(was, now) {
		t.Fatal("nothing was changed")
	}
	write(t, path, now)
}

// A verdict names the bytes that it was made from. Where others lie beside it, each command that reads the run says so.
func TestAVerdictOfAnotherHistoryIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	recordedRun(t, dir, "fail")
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || got.stderr != "" {
		t.Fatalf("judge: %+v", got)
	}
	var j verdict.Judgement
	if err := json.Unmarshal(read(t, filepath.Join(run, verdictFile)), &j); err != nil {
		t.Fatal(err)
	}
	digest := func(name string) string {
		return fmt.Sprintf("sha256:%x", sha256.Sum256(read(t, filepath.Join(run, name))))
	}
	if want := (verdict.Sources{Experiment: digest(experimentFile), History: digest(historyFile)}); j.Sources == nil || *j.Sources != want {
		t.Fatalf("sources %+v, want %+v", j.Sources, want)
	}
	commands := []string{"compare pass-1 fail --allow-different all", "tune --from pass-1 --lock job --jitter 5ms"}
	says := "runs/pass-1/verdict.json does not belong to the history.jsonl beside it"
	for _, args := range commands {
		if got := tryIn(t, dir, strings.Fields(args)...); strings.Contains(got.stderr, "verdict.json") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	changeHistory(t, run)
	for _, args := range append(commands, "judge pass-1") {
		if got := tryIn(t, dir, strings.Fields(args)...); strings.Count(got.stderr, says) != 1 {
			t.Errorf("%s of a changed history: %+v", args, got)
		}
	}
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || got.stderr != "" {
		t.Errorf("judged again: %+v", got)
	}
	for doc, says := range map[string]string{`{"run": {}, "schemaVersion": 1}`: "does not say from which history it was made", `[]`: "is no verdict of lockdrill"} {
		write(t, filepath.Join(run, verdictFile), []byte(doc))
		if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", doc, got)
		}
	}
}

// Where a history is refused, no verdict and no report of an earlier one stays that could be taken for it.
func TestARefusedHistoryHasNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "pass-1")
	tryIn(t, dir, "judge", "pass-1")
	kept := read(t, filepath.Join(run, verdictFile))
	history := read(t, filepath.Join(run, historyFile))
	write(t, filepath.Join(run, historyFile), append(history, "{}\n{}\n"...))
	got := tryIn(t, dir, "judge", "pass-1", "--result-file", "word")
	if got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, "runs/pass-1 has no verdict now") {
		t.Errorf("%+v", got)
	}
	for _, name := range append(reportFiles(), verdictFile) {
		if _, err := os.Stat(filepath.Join(run, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	if word := string(read(t, filepath.Join(dir, "word"))); word != "usage" {
		t.Errorf("the result is %q", word)
	}
	if old := read(t, filepath.Join(run, verdictFile+aside)); !bytes.Equal(old, kept) {
		t.Error("the earlier verdict is not kept")
	}
	write(t, filepath.Join(run, historyFile), history)
	if got := tryIn(t, dir, "judge", "pass-1"); got.code != verdict.ExitPass || !bytes.Equal(read(t, filepath.Join(run, verdictFile)), kept) {
		t.Errorf("judged again: %+v", got)
	}
	other := t.TempDir() // what is no run's folder is nobody's business
	write(t, filepath.Join(other, verdictFile), []byte("{}"))
	if got := tryIn(t, dir, "judge", other); got.code != verdict.ExitUsage || string(read(t, filepath.Join(other, verdictFile))) != "{}" {
		t.Errorf("another folder: %+v", got)
	}
}
