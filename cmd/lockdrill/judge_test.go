package main

import (
	"bytes"
	"os"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []history.Event{
		{Kind: history.RunPhase, Source: "runner", Phase: &history.Phase{Name: history.PhaseSteady}},
		{Kind: history.RunEnd, Source: "runner", Note: &history.Note{What: "completed", OK: true}},
	} {
		if _, err := rec.RecordNow(e); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, runsFolder, name)
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(run, experimentFile), experiment)
	write(t, filepath.Join(run, historyFile), h.Bytes())
	return run
}

// What an inconclusive run counts as changes the status and nothing that is written.
func TestJudgeOnInconclusive(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	storedRun(t, work, "a-run")
	if err := os.Symlink("a-run", filepath.Join(work, runsFolder, "latest")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag string
		code int
		says string
	}{
		{"", verdict.ExitInconclusive, ""},
		{"fail", verdict.ExitSLOFailed, "exit status 10 because of --on-inconclusive=fail; the verdict is inconclusive"},
		{"pass", verdict.ExitPass, "exit status 0 because of --on-inconclusive=pass; the verdict is inconclusive"},
		{"maybe", verdict.ExitUsage, `--on-inconclusive "maybe": want fail or pass`},
	} {
		got := tryIn(t, work, "judge", "latest", "--on-inconclusive", c.flag)
		if got.code != c.code || !strings.Contains(got.stderr, c.says) || c.code != verdict.ExitUsage && !strings.Contains(got.stdout, "runs/latest") {
			t.Errorf("%q: %+v", c.flag, got)
		}
		if told := strings.Contains(strings.Join(strings.Fields(got.stdout), " "), "A gate stops here, unless it says --on-inconclusive pass."); told != (c.code != verdict.ExitUsage) {
			t.Errorf("%q: what a gate does is told: %t\n%s", c.flag, told, got.stdout)
		}
		if c.code != verdict.ExitUsage && !strings.Contains(string(read(t, filepath.Join(work, runsFolder, "a-run", verdictFile))), `"exitCode": 11`) {
			t.Errorf("%q: the verdict changed", c.flag)
		}
	}
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

// A folder that is not what it should be is status 2, says its place, and gets no verdict.
func TestJudgeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, run string)
		want  string
	}{
		"no experiment": {
			func(t *testing.T, run string) { remove(t, filepath.Join(run, experimentFile)) },
			"runs/a-run: experiment.yaml is missing: not the folder of a run\n",
		},
		"no history": {
			func(t *testing.T, run string) { remove(t, filepath.Join(run, historyFile)) },
			"runs/a-run: history.jsonl is missing: not the folder of a run\n",
		},
		"damaged history": {
			func(t *testing.T, run string) {
				path := filepath.Join(run, historyFile)
				lines := bytes.SplitAfter(read(t, path), []byte("\n"))
				write(t, path, bytes.Join([][]byte{lines[0], []byte("{\"n\":1}\n"), lines[2]}, nil))
			},
			"runs/a-run/history.jsonl: history line 2: ",
		},
		"changed experiment": {
			func(t *testing.T, run string) {
				path := filepath.Join(run, experimentFile)
				write(t, path, append(read(t, path), "# a later thought\n"...))
			},
			"runs/a-run/experiment.yaml: not the file of this run: its digest is sha256:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			run := storedRun(t, dir, "a-run")
			c.spoil(t, run)
			got := tryIn(t, dir, "judge", "runs/a-run")
			if got.code != verdict.ExitUsage || got.stdout != "" || !strings.HasPrefix(got.stderr, c.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got %+v, want status 2 and %q", got, c.want)
			}
			if _, err := os.Stat(filepath.Join(run, verdictFile)); err == nil {
				t.Error("a verdict was written")
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// The header says at which scale limits were judged: one that the file does not give is another run's, or was edited.
func TestAHeaderThatContradictsTheFile(t *testing.T) {
	t.Parallel()
	for _, swap := range [][2]string{{`"time_scale":`, `"time_scale":1e300,"x":`}, {`"experiment":"`, `"experiment":"other-`}} {
		dir := t.TempDir()
		run := recordedRun(t, dir, "pass-1")
		path := filepath.Join(run, historyFile)
		text := string(read(t, path))
		line, rest, _ := strings.Cut(text, "\n")
		line = strings.Replace(line, swap[0], swap[1], 1)
		if before, after, ok := strings.Cut(line, `,"x":`); ok { // the old figure goes
			_, after, _ = strings.Cut(after, ",")
			line = before + "," + after
		}
		write(t, path, []byte(line+"\n"+rest))
		if got := tryIn(t, dir, "judge", run); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, "not the history of") {
			t.Errorf("%v: exit %d\n%s", swap, got.code, got.stderr)
		}
	}
}
