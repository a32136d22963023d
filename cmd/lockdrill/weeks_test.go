package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
	"github.com/lockdrill/lockdrill/history"
)

// weeksIn makes runs/ with a run a night in a new folder. They are rehearsals whose first line says that they were live, on which night, and
// of which release.
func weeksIn(t *testing.T, nights int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	drill := read(t, filepath.Join("..", "..", "scenarios", "first-drill.yaml"))
	drill = bytes.Replace(drill, []byte("takeover: {min: 400ms, max: 4s}"), []byte("takeover: {p50: 2s, max: 4s}"), 1)
	write(t, filepath.Join(dir, "nightly.yaml"), drill)
	for i := range nights {
		run := filepath.Join(dir, runsFolder, fmt.Sprintf("night-%02d", i+1))
		if got := tryIn(t, dir, "rehearse", "nightly.yaml", "--replay", fmt.Sprint(i+1), "--out", run); got.code > verdict.ExitInconclusive {
			t.Fatalf("status %d: %s", got.code, got.stderr)
		}
		path := filepath.Join(run, historyFile)
		events := read(t, path)
		head, rest, _ := bytes.Cut(events, []byte("\n"))
		var h history.Header
		if err := json.Unmarshal(head, &h); err != nil {
			t.Fatal(err)
		}
		h.Mode, h.Started, h.Run = history.Live, fmt.Sprintf("2026-03-%02dT02:00:00Z", i+1), filepath.Base(run)
		h.Labels = history.Labels{"release": map[bool]string{true: "1.3", false: "1.4"}[i < 2]}
		first, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, append(append(first, '\n'), rest...))
		if got := tryIn(t, dir, "judge", run); got.code > verdict.ExitInconclusive {
			t.Fatalf("status %d: %s", got.code, got.stderr)
		}
	}
	return dir
}

func TestLiveRunsOfWeeksAreListedAndJudgedTogether(t *testing.T) {
	t.Parallel()
	dir := weeksIn(t, 5)
	write(t, filepath.Join(dir, runsFolder, "pools.jsonl"), []byte(`{"name":"march","from":"2026-03-02T00:00:00Z"}`+"\n"))
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"history", verdict.ExitPass, []string{"first-drill: 5 runs", "2026-03-01 02:00", "labels: release=1.3 -> release=1.4", "release=1.3 -> release=1.4"}},
		{"history runs --label release=1.3 -f json", verdict.ExitPass, []string{`"id": "night-02"`, `"release": "1.3"`}},
		{"history runs -f html -o weeks.html", verdict.ExitPass, nil},
		{"history --label release=1.4 --pool", verdict.ExitPass, []string{"PASS  first-drill  3 runs together"}},
		{"history --pool runs --label release=1.4", verdict.ExitPass, []string{"PASS  first-drill  3 runs together", "every run with label release=1.4", "enough for a p50"}},
		{"history --pool runs --label release=1.4 -f json", verdict.ExitPass, []string{`"start": "label release=1.4"`, `"measure": "takeover.p50"`}},
		{"history --pool runs", verdict.ExitInconclusive, []string{"INCONCLUSIVE", "chosen by hand"}},
		{"history --pool runs/night-03 runs/night-04 runs/night-05 --label release=1.4", verdict.ExitInconclusive, []string{"chosen by hand"}},
		{"history --pool runs --on-inconclusive fail", verdict.ExitSLOFailed, []string{"INCONCLUSIVE"}},
		{"history --pool runs --label release=2.0", verdict.ExitUsage, []string{"no run in runs is meant"}},
		{"history --pool runs --since spring", verdict.ExitUsage, []string{`no pool "spring"`}},
		{"history --start spring", verdict.ExitPass, []string{"pool spring begins now"}},
		{"history --start spring", verdict.ExitUsage, nil},
		{"history --pool runs --since march", verdict.ExitPass, []string{"4 runs together"}},
		{"history --since spring", verdict.ExitUsage, []string{"go with --pool"}},
		{"history --label release", verdict.ExitUsage, []string{"KEY=VALUE"}},
		{"history nowhere", verdict.ExitUsage, []string{"nowhere"}},
		{"history -f csv", verdict.ExitUsage, []string{"text, json, html"}},
	} {
		got := tryIn(t, dir, strings.Fields(c.args)...)
		if got.code != c.code {
			t.Errorf("%s: status %d, want %d\n%s%s", c.args, got.code, c.code, got.stdout, got.stderr)
		}
		for _, w := range c.want {
			if !strings.Contains(got.stdout+got.stderr, w) {
				t.Errorf("%s: no %q in\n%s%s", c.args, w, got.stdout, got.stderr)
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "weeks.html"))
	if err != nil || !bytes.Contains(page, []byte(`href="runs/night-05/report.html"`)) || !bytes.Contains(page, []byte("takeover p50 of lock job")) {
		t.Errorf("the page: %v, %d bytes", err, len(page))
	}
}

func TestALabelStandsInTheHistory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ label, want string }{
		{"release", "KEY=VALUE"}, {"=x", "KEY=VALUE"}, {"a b=x", "KEY=VALUE"}, {"a=", "printable"}, {"a=x,y", "without a comma"}, {"a=\x1b[2J", "printable"},
	} {
		if got := tryIn(t, t.TempDir(), "run", "first-drill", "--label", c.label); got.code != verdict.ExitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: status %d, %s", c.label, got.code, got.stderr)
		}
	}
}
