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
	answers(t, dir, "compare", []answer{
		{"base head", verdict.ExitRefused, []string{"REFUSED", "system.locks.leader.policy.loop.poll: 120ms -> 400ms"}},
		{"runs/base runs/head " + slowerPoll, verdict.ExitSLOFailed, []string{"REGRESSED", "WORSE    leader  takeover", "TOO FEW  leader  busy count", "allowed to differ", "runs/head/3"}},
		{"base head --allow-different tool", verdict.ExitRefused, []string{"REFUSED"}},
		{"runs/base/1 runs/base/2,runs/base/3", verdict.ExitInconclusive, []string{"CANNOT SAY", "busy.count: 1 beside 2 runs: too few", "one run on a side"}},
		{"runs/base/1 runs/base/2,runs/base/3 --slo leader/takeover,tick_gap", verdict.ExitPass, []string{"NO REGRESSION", "same"}},
		{"head base --slo takeover --allow-different all", verdict.ExitPass, []string{"BETTER   leader  takeover"}},
		{"base head --slo takeover --tolerance 90% " + slowerPoll, verdict.ExitPass, []string{"significant, but within the tolerance of 90%"}},
		{"base head --slo takeover --alpha 0.0001 " + slowerPoll, verdict.ExitPass, []string{"not significant"}},
		{"base head -f md " + slowerPoll, verdict.ExitSLOFailed, []string{"## REGRESSED", "| **WORSE** | leader | takeover |"}},
	})
	if found, err := filepath.Glob(filepath.Join(dir, runsFolder, "*", "1", "*")); err != nil || len(found) != 4 {
		t.Errorf("files of two runs: %v (%v): something was written", found, err)
	}
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

// What cannot be compared is status 2, says its place, and leaves stdout empty.
func TestCompareRefusesWhatIsNoComparison(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	broken := filepath.Join(dir, "broken", "one")
	must(t, os.MkdirAll(broken, 0o700))
	write(t, filepath.Join(broken, experimentFile), []byte("name: x"))
	must(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	storedRun(t, dir, "other")
	misused(t, dir, "compare", map[string]string{
		"base":                              "1 argument given, usage: lockdrill compare BASE HEAD",
		"base nowhere":                      "nowhere: no such folder",
		"base empty":                        "empty: neither the folder of a run nor one that holds such folders",
		"base broken":                       "broken/one: history.jsonl is missing",
		"base base":                         "are the same run",
		"runs/base/1,runs/base/1 head":      "are the same run",
		"runs/base/1,,base head":            "names a run without a name",
		"base head --slo nothing":           `no run has an SLO "nothing"; there are leader/takeover, leader/tick_gap, leader/overlap.effect, leader/busy.count`,
		"base head --alpha 0":               "--alpha 0: want a chance above 0 and below 0.5",
		"base head --tolerance much":        "--tolerance much: want a share such as 10% or 0.1",
		"base head --tolerance=-1%":         "--tolerance -1%: want a share",
		"base head -f yaml":                 "must be text, json, html, md",
		"base head --allow-diffrent system": `did you mean "--allow-different"?`,
	})
	tryIn(t, dir, "compare", "other", "head").ends(t, verdict.ExitRefused, "experiment: first-drill -> baseline-drill")
}

// The page of a run shows it beside its baseline; a refused comparison does not keep the page from being written.
func TestReportBesideABaseline(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	answers(t, dir, "judge", []answer{
		{"runs/head/1 -f html --against base " + slowerPoll, verdict.ExitPass, []string{"REGRESSED, base 3 runs, head 1 run."}},
		{"runs/head/1 -f html --against base", verdict.ExitPass, []string{"REFUSED, base 3 runs, head 1 run."}},
		{"runs/head/1 -f html", verdict.ExitPass, []string{"This run was not compared with another one."}},
	})
	misused(t, dir, "judge", map[string]string{
		"runs/head/1 -f md --against base":     "--against goes with -f html",
		"runs/head/1 -f html --against head":   "are the same run",
		"runs/head/1 -f html --against none":   "none: no such folder",
		"runs/head/1 --allow-different system": "--allow-different goes with --against",
	})
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
		{"history --pool runs --since spring", verdict.ExitUsage, []string{`no pool "spring"`}},
		{"history --start spring", verdict.ExitPass, []string{"pool spring begins now"}},
		{"history --start spring", verdict.ExitUsage, nil},
		{"history --pool runs --since march", verdict.ExitPass, []string{"4 runs together"}},
		{"history --since spring", verdict.ExitUsage, []string{"go with --pool"}},
		{"history --label release", verdict.ExitUsage, []string{"KEY=VALUE"}},
		{"history nowhere", verdict.ExitUsage, []string{"nowhere"}},
		{"history -f csv", verdict.ExitUsage, []string{"text, json, html"}},
	})
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
	unmarshal(t, got.stdout, &s)
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
	says(t, string(drawn), "REHEARSAL", "abandonments of lock job by hold", "</svg>")
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
	unmarshal(t, got.stdout, &s)
	if got.code != verdict.ExitPass || !s.Live || s.Seeds != 0 || len(s.Steps) != 2 || s.Holds == nil || *s.Holds != 3 || s.Breaks != nil {
		t.Fatalf("%d, %+v", got.code, s)
	}
	for _, step := range s.Steps {
		if step.Run == "" || !isDir(filepath.Join(work, step.Run)) || step.Outcome != sweep.Held {
			t.Errorf("%+v", step)
		}
	}
}
