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
	"github.com/lockdrill/lockdrill/drill/sweep"
	"github.com/lockdrill/lockdrill/history"
)

// comparedIn puts the recorded runs of testdata/compared into runs/ of a new folder: base/1 to 3, and head/1 to 3, which poll more slowly.
func comparedIn(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	recorded := os.DirFS(filepath.Join("..", "..", "reports", "testdata", "compared"))
	must(t, os.CopyFS(filepath.Join(dir, runsFolder), recorded))
	return dir
}

const slowerPoll = "--allow-different=system.locks.leader.policy.loop.poll"

func TestCompareAnswersWithItsStatus(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	if err := os.Symlink("1", filepath.Join(dir, runsFolder, "base", "latest")); err != nil { // leads to a run that is there anyway
		t.Fatal(err)
	}
	storedRun(t, dir, "stored")
	answers(t, dir, "compare", []answer{
		{"base head", verdict.ExitRefused, []string{"REFUSED", "system.locks.leader.policy.loop.poll: 120ms -> 400ms"}},
		{"runs/base runs/head " + slowerPoll, verdict.ExitSLOFailed, []string{"REGRESSED", "WORSE    leader  takeover", "TOO FEW  leader  busy count", "allowed to differ", "runs/head/3"}},
		{"base head --allow-different tool", verdict.ExitRefused, []string{"REFUSED"}},
		{"runs/base/1 runs/base/2,runs/base/3", verdict.ExitInconclusive, []string{"CANNOT SAY", "busy.count: 1 beside 2 runs: too few", "one run on a side"}},
		{"runs/base/1 runs/base/2,runs/base/3 --slo leader/takeover,tick_gap", verdict.ExitPass, []string{"NO REGRESSION", "same"}},
		{"head base --slo takeover --allow-different all", verdict.ExitPass, []string{"BETTER   leader  takeover"}},
		{"base head --slo takeover --tolerance 90% " + slowerPoll, verdict.ExitPass, []string{"significant, but within the tolerance of 90%"}},
		{"base head --slo takeover --alpha 0.0001 " + slowerPoll, verdict.ExitPass, []string{"not significant"}},
		{"stored head", verdict.ExitRefused, []string{"experiment: first-drill -> baseline-drill"}},
		{"base head -f md " + slowerPoll, verdict.ExitSLOFailed, []string{"## REGRESSED", "| **WORSE** | leader | takeover |"}},
	})
	for _, wrong := range []string{"head", "none"} { // is refused before a report is written
		if got := tryIn(t, dir, "judge", "runs/head/1", "-f", "html", "--against", wrong); got.code != verdict.ExitUsage {
			t.Errorf("--against %s: %+v", wrong, got)
		}
	}
	if found, err := filepath.Glob(filepath.Join(dir, runsFolder, "*", "1", "*")); err != nil || len(found) != 4 {
		t.Errorf("files of two runs: %v (%v): something was written", found, err)
	}
	answers(t, dir, "judge runs/head/1 -f html", []answer{ // a page beside its baseline; a refused comparison does not keep it from being written
		{"--against base " + slowerPoll, verdict.ExitPass, []string{"REGRESSED, base 3 runs, head 1 run."}},
		{"--against base", verdict.ExitPass, []string{"REFUSED, base 3 runs, head 1 run."}},
		{"--against head", verdict.ExitUsage, []string{"are the same run"}},
		{"--against none", verdict.ExitUsage, []string{"none: no such folder"}},
		{"", verdict.ExitPass, []string{"This run was not compared with another one."}},
	})
}

// The page's example is what the command prints.
func TestCompareIsAsThePageSays(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(string(read(t, "../../docs/comparing.md")), "<!-- compare:example -->\n```\n$ lockdrill ")
	command, rest, line := strings.Cut(rest, "\n")
	shown, _, closed := strings.Cut(rest, "```\n<!-- /compare:example -->\n")
	if !ok || !line || !closed {
		t.Fatal("docs/comparing.md has no block between <!-- compare:example --> and <!-- /compare:example -->")
	}
	if got := tryIn(t, comparedIn(t), strings.Fields(command)...); got.stdout != shown {
		t.Errorf("the page shows\n%s\nbut the command prints\n%s", shown, got.stdout)
	}
}

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
		must(t, json.Unmarshal(head, &h))
		h.Mode, h.Started, h.Run = history.Live, fmt.Sprintf("2026-03-%02dT02:00:00Z", i+1), filepath.Base(run)
		h.Labels = history.Labels{"release": map[bool]string{true: "1.3", false: "1.4"}[i < 2]}
		first, err := json.Marshal(h)
		must(t, err)
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
	answers(t, dir, "", []answer{
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
		{"history --start spring", verdict.ExitPass, []string{"pool spring begins now"}},
		{"history --start spring", verdict.ExitUsage, nil},
		{"history --pool runs --since march", verdict.ExitPass, []string{"4 runs together"}},
	})
	page, err := os.ReadFile(filepath.Join(dir, "weeks.html"))
	if err != nil || !bytes.Contains(page, []byte(`href="runs/night-05/report.html"`)) || !bytes.Contains(page, []byte("takeover p50 of lock job")) {
		t.Errorf("the page: %v, %d bytes", err, len(page))
	}
}

// sweptDrill is the example of docs/rehearsal.md, as a reader would copy it.
func sweptDrill(t *testing.T) string {
	t.Helper()
	doc := read(t, "../../docs/rehearsal.md")
	_, rest, found := strings.Cut(string(doc), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/rehearsal.md has no example")
	}
	return text
}

// Nothing renews the lease of 2s, so the sum says where the work must end: 2s less drift (20ms) and stop budget (100ms), which the p99
// (1.5 times the median) reaches at a median of 1.25s, and the longest of 40 jobs in 20 seeds before.
func TestSweepFindsWhereTheWorkOutlivesItsLease(t *testing.T) {
	t.Parallel()
	got := tryIn(t, folder(t, "outlived.yaml", sweptDrill(t)), "rehearse", "outlived.yaml", "--sweep", "hold=500ms..20s", "--seeds", "20", "-f", "json")
	var s sweep.Document
	unmarshal(t, got.stdout, &s)
	if got.code != verdict.ExitPass || s.Live || s.Seeds != 20 || s.By != sweep.Broken || s.Holds == nil || s.Breaks == nil || *s.Holds < 0.7 || *s.Breaks > 1.5 || *s.Holds >= *s.Breaks {
		t.Errorf("%d, %+v", got.code, s)
	}
}
