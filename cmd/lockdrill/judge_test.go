package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/experiments"
	"github.com/lockdrill/lockdrill/history"
	"github.com/lockdrill/lockdrill/scenarios"
)

// storedRun makes the folder of a run in which nothing happened, as runs/<name> below dir, and returns its path.
func storedRun(t *testing.T, dir, name string) string {
	t.Helper()
	experiment, ok := scenarios.Get("first-drill")
	if !ok {
		t.Fatal("first-drill is not shipped")
	}
	var h bytes.Buffer
	header := history.Header{Tool: "test", Run: name, Experiment: "first-drill", Digest: experiments.Digest(experiment), Seed: 1,
		Mode: history.Live, TimeScale: 1, Started: "2026-01-02T03:04:05Z"}
	now := int64(0)
	rec, err := history.NewRecorder(&h, header, func() int64 { now++; return now }, nil)
	must(t, err)
	for _, e := range []history.Event{
		{Kind: history.RunPhase, Source: "runner", Phase: &history.Phase{Name: history.PhaseSteady}},
		{Kind: history.RunEnd, Source: "runner", Note: &history.Note{What: "completed", OK: true}},
	} {
		if _, err := rec.RecordNow(e); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, runsFolder, name)
	must(t, os.MkdirAll(run, 0o700))
	write(t, filepath.Join(run, experimentFile), experiment)
	write(t, filepath.Join(run, historyFile), h.Bytes())
	return run
}

func TestJudgeToleratesTornEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(storedRun(t, dir, "a-run"), historyFile)
	whole := read(t, path)
	write(t, path, whole[:len(whole)-20])
	if got := tryIn(t, dir, "judge", "a-run"); got.code == verdict.ExitPass || got.code == verdict.ExitUsage || !strings.Contains(got.stdout, "cut off") {
		t.Errorf("a torn history: %+v", got)
	}
}

// recordedRun copies a recorded run to runs/name below dir.
func recordedRun(t *testing.T, dir, name string) string {
	t.Helper()
	run := filepath.Join(dir, runsFolder, name)
	must(t, os.MkdirAll(run, 0o700))
	for _, file := range []string{experimentFile, historyFile} {
		write(t, filepath.Join(run, file), read(t, filepath.Join("../../reports/testdata/recorded", name, file)))
	}
	return run
}

func reportFiles() []string {
	var files []string
	for _, f := range formats() {
		if f.file != "" {
			files = append(files, f.file)
		}
	}
	return files
}

// A report that cannot be written is said; the verdict and the status stand.
func TestAReportThatCannotBeWrittenChangesNoVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := recordedRun(t, dir, "fail")
	must(t, os.MkdirAll(filepath.Join(run, "junit.xml", "in the way"), 0o700))
	got := tryIn(t, dir, "judge", "fail")
	if got.code != verdict.ExitSLOFailed || !strings.HasPrefix(got.stdout, "FAIL") ||
		!strings.Contains(got.stderr, "junit.xml not written; the verdict stands, and lockdrill judge runs/fail writes them anew") {
		t.Errorf("%+v", got)
	}
	for _, file := range append(reportFiles(), verdictFile) {
		if info, err := os.Stat(filepath.Join(run, file)); err != nil || file != "junit.xml" && info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(run, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// docs/gating.md names every format, and only flags that exist.
func TestGatingPageNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	page := string(read(t, "../../docs/gating.md"))
	for _, name := range formatNames() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/gating.md does not name the format %s", name)
		}
	}
	help := try(t, "run", "--help").stdout + try(t, "export", "ci", "--help").stdout
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]+").FindAllString(page, -1) {
		if !strings.Contains(help, flag) {
			t.Errorf("docs/gating.md names %s, which neither run nor export ci has", flag)
		}
	}
}

// Every document comes as text, as Markdown, as a page and as data, with the same status: a figure of the text stands in both others.
func TestEveryDocumentHasItsForms(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	keys := map[string][]string{"plan": {`"schemaVersion": 1`, `"timeline"`, `"undone"`, `"guards"`, `"refuses"`, `"maxRun"`}}
	for args, figure := range map[string]string{
		"plan first-drill --hash --verbose":                                             "gives up ttl 1s - drift 10ms",
		"tune --profile cordum/scheduler-job":                                           "over ttl 60s",
		"tune --p99 18s --jitter 4s --guard 2s --takeover 30s --seeds 1":                "= 22.64s, under ttl 24s",
		"rehearse first-drill --seeds 2":                                                "470ms to 1.62s by the timings",
		"rehearse first-drill --seeds 1 --sweep rate=6/s..7/s,steps=2,finer=0":          "of lock job from 6/s to 7/s",
		"history runs/base":                                                             "3 runs",
		"history --pool runs/base":                                                      "3 runs together",
		"compare base head --slo takeover --allow-different=system.locks.leader.policy": "base 3 runs",
	} {
		text := tryIn(t, dir, strings.Fields(args)...)
		if !strings.Contains(strings.Join(strings.Fields(text.stdout), " "), figure) {
			t.Errorf("%s: no %q in\n%s%s", args, figure, text.stdout, text.stderr)
		}
		for form, opens := range map[string]string{"md": "#", "html": "<!doctype html>"} {
			got := tryIn(t, dir, append(strings.Fields(args), "-f", form)...)
			if got.code != text.code || !strings.HasPrefix(got.stdout, opens) || !strings.Contains(strings.NewReplacer(`\`, "", "**", "").Replace(got.stdout), figure) {
				t.Errorf("%s -f %s: status %d, want %d; no %q at the start, or no %q in\n%s%s", args, form, got.code, text.code, opens, figure, got.stdout, got.stderr)
			}
			if strings.Contains(args, "--hash") && (!strings.Contains(got.stdout, "--plan sha256:") || !strings.Contains(got.stdout, "ttl: 1s")) {
				t.Errorf("%s -f %s: no hash, or no policy", args, form)
			}
		}
		if got := tryIn(t, dir, append(strings.Fields(args), "-f", "json")...); got.code != text.code || !json.Valid(bytes.TrimSpace([]byte(got.stdout))) {
			t.Errorf("%s -f json: status %d, want %d: %s", args, got.code, text.code, got.stdout)
		} else {
			says(t, got.stdout, keys[strings.Fields(args)[0]]...)
		}
	}
}

// What an inconclusive run counts as changes the status and nothing that is written.
func TestJudgeOnInconclusive(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	run := storedRun(t, work, "a-run")
	must(t, os.Symlink("a-run", filepath.Join(work, runsFolder, "latest")))
	const stops, stays = "A gate stops here, unless it says --on-inconclusive pass (exit status 11).", "; the verdict is inconclusive"
	answers(t, work, "judge latest", []answer{
		{"", verdict.ExitInconclusive, []string{stops, "runs/latest"}},
		{"--on-inconclusive fail", verdict.ExitSLOFailed, []string{stops, "exit status 10 because of --on-inconclusive=fail" + stays}},
		{"--on-inconclusive pass", verdict.ExitPass, []string{stops, "exit status 0 because of --on-inconclusive=pass" + stays}},
	})
	if j := judgementIn(t, run); j.ExitCode != verdict.ExitInconclusive {
		t.Errorf("the verdict changed: %d", j.ExitCode)
	}
}

// judge redoes everything from verdict.json on, byte for byte, wherever it is called from. The word for a gate is that of the status, and each form is
// the same on standard output, in a file and in the folder.
func TestJudgeWritesEveryFormat(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"pass-1": verdict.ExitPass, "fail": verdict.ExitSLOFailed, "inconclusive": verdict.ExitInconclusive, "aborted": verdict.ExitAborted, "dirty": verdict.ExitDirty} {
		dir := t.TempDir()
		run := recordedRun(t, dir, name)
		tryIn(t, dir, "judge", name, "--result-file", "word").ends(t, want, "report runs/"+name+"/"+fullReport())
		if word := string(read(t, filepath.Join(dir, "word"))); word != verdict.ExitName(want) {
			t.Errorf("%s: the word is %q", name, word)
		}
		before := inFolder(t, run)
		for _, file := range append(reportFiles(), verdictFile) {
			must(t, os.Remove(filepath.Join(run, file)))
		}
		tryIn(t, run, "judge", ".").ends(t, want)
		if after := inFolder(t, run); !maps.Equal(before, after) || len(after) != 3+len(reportFiles()) {
			t.Errorf("%s: the folder holds other files than before: %q", name, slices.Sorted(maps.Keys(after)))
		}
		for _, f := range formats() {
			if name != "fail" {
				break
			}
			onStdout := tryIn(t, dir, "judge", name, "-f", f.name)
			if got := tryIn(t, dir, "judge", name, "-f", f.name, "-o", "out"); got.code != want || got.stdout+inTime(got.stderr) != "" || onStdout.code != want || onStdout.stdout == "" || inTime(onStdout.stderr) != "" {
				t.Errorf("%s: %+v, and to a file: %+v", f.name, onStdout, got)
			}
			if string(read(t, filepath.Join(dir, "out"))) != onStdout.stdout {
				t.Errorf("%s: the file is not what standard output is", f.name)
			}
			if kept := map[string]string{"html": f.file, "json": verdictFile}[f.name]; kept != "" && string(read(t, filepath.Join(run, kept))) != onStdout.stdout {
				t.Errorf("%s: the folder has another %s", f.name, kept)
			}
			if f.name == "md" {
				says(t, onStdout.stdout, "lockdrill run runs/fail/experiment.yaml --seed ")
			}
		}
	}
}
