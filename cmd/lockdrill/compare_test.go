package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockdrill/lockdrill/analysis/verdict"
)

// comparedIn puts the recorded runs of testdata/compared into runs/ of a new folder: base/1 to 3, and head/1 to 3, which poll more slowly.
func comparedIn(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	recorded := os.DirFS(filepath.Join("..", "..", "reports", "testdata", "compared"))
	if err := os.CopyFS(filepath.Join(dir, runsFolder), recorded); err != nil {
		t.Fatal(err)
	}
	return dir
}

const slowerPoll = "--allow-different=system.locks.leader.policy.loop.poll"

func TestCompareAnswersWithItsStatus(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	if err := os.Symlink("1", filepath.Join(dir, runsFolder, "base", "latest")); err != nil { // leads to a run that is there anyway
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"base head", verdict.ExitRefused, []string{"REFUSED", "system.locks.leader.policy.loop.poll: 120ms -> 400ms"}},
		{"runs/base runs/head " + slowerPoll, verdict.ExitSLOFailed, []string{"REGRESSED", "WORSE    leader  takeover", "TOO FEW  leader  busy count", "allowed to differ", "runs/head/3"}},
		{"base head --allow-different tool", verdict.ExitRefused, []string{"REFUSED"}},
		{"runs/base/1 runs/base/2,runs/base/3", verdict.ExitInconclusive, []string{"CANNOT SAY", "busy.count: 1 beside 2 runs: too few", "one run on a side"}},
		{"runs/base/1 runs/base/2,runs/base/3 --slo leader/takeover,tick_gap", verdict.ExitPass, []string{"NO REGRESSION", "same"}},
		{"head base --slo takeover --allow-different all", verdict.ExitPass, []string{"BETTER   leader  takeover"}},
		{"base head --slo takeover --tolerance 90% " + slowerPoll, verdict.ExitPass, []string{"significant, but within the tolerance of 90%"}},
		{"base head --slo takeover --alpha 0.0001 " + slowerPoll, verdict.ExitPass, []string{"not significant"}},
		{"base head -f md " + slowerPoll, verdict.ExitSLOFailed, []string{"## REGRESSED", "| **WORSE** | leader | takeover |"}},
	} {
		got := tryIn(t, dir, append([]string{"compare"}, strings.Fields(c.args)...)...)
		if got.code != c.code || got.stderr != "" {
			t.Errorf("compare %s: status %d, want %d; stderr %q\n%s", c.args, got.code, c.code, got.stderr, got.stdout)
		}
		for _, w := range c.want {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("compare %s: no %q in\n%s", c.args, w, got.stdout)
			}
		}
	}
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
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(broken, experimentFile), []byte("name: x"))
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	storedRun(t, dir, "other")
	for args, want := range map[string]string{
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
	} {
		got := tryIn(t, dir, append([]string{"compare"}, strings.Fields(args)...)...)
		if got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("compare %s: %+v, want %q", args, got, want)
		}
	}
	if got := tryIn(t, dir, "compare", "other", "head"); got.code != verdict.ExitRefused || !strings.Contains(got.stdout, "experiment: first-drill -> baseline-drill") {
		t.Errorf("mixed experiments: %+v", got)
	}
}

// The page of a run shows it beside its baseline; a refused comparison does not keep the page from being written.
func TestReportBesideABaseline(t *testing.T) {
	t.Parallel()
	dir := comparedIn(t)
	for args, want := range map[string]string{
		"runs/head/1 -f html --against base " + slowerPoll: "REGRESSED, base 3 runs, head 1 run.",
		"runs/head/1 -f html --against base":               "REFUSED, base 3 runs, head 1 run.",
		"runs/head/1 -f html":                              "This run was not compared with another one.",
	} {
		if got := tryIn(t, dir, append([]string{"judge"}, strings.Fields(args)...)...); got.code != verdict.ExitPass || !strings.Contains(got.stdout, want) {
			t.Errorf("judge %s: status %d, no %q; %s", args, got.code, want, got.stderr)
		}
	}
	for args, want := range map[string]string{
		"runs/head/1 -f md --against base":     "--against goes with -f html",
		"runs/head/1 -f html --against head":   "are the same run",
		"runs/head/1 -f html --against none":   "none: no such folder",
		"runs/head/1 --allow-different system": "--allow-different goes with --against",
	} {
		if got := tryIn(t, dir, append([]string{"judge"}, strings.Fields(args)...)...); got.code != verdict.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("judge %s: %+v, want %q", args, got, want)
		}
	}
}
